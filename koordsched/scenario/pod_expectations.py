"""Judge one pod: one function for each key under `expect.pods.NAME`, listed in `POD_CHECKS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from koordsched._core.cpulist import cpu_ids, format_cpus
from koordsched.api.meta import JSON_ERRORS
from koordsched.scenario.allocations import RESOURCE_STATUS, Cpu, cpu_topology, cpus_of, numa_nodes_of
from koordsched.scenario.contains import missing
from koordsched.scenario.model import CpusetRule, NodeRule, PodRule
from koordsched.scenario.observation import Json, Seen, node_of, refusal, state, tried


class Difference(msgspec.Struct, frozen=True):
    """One thing that does not hold."""

    subject: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, seen {self.seen}"


class LookedAt(msgspec.Struct, frozen=True):
    """A pod that exists, under the name a rule gives it."""

    name: str
    body: Json
    seen: Seen

    def differs(self, expected: str, seen: str = "") -> Difference:
        return Difference(self.name, expected, seen or state(self.body))


def check_pod(seen: Seen, name: str, rule: PodRule) -> Iterator[Difference]:
    """Yield what does not hold of the pod called ns/name."""
    body = seen.pods.get(name)
    if rule.gone is not None:
        gone = body is None or bool(body["metadata"].get("deletionTimestamp"))
        if gone is not rule.gone:
            yield Difference(name, "gone" if rule.gone else "not gone", state(body))
    if body is not None:
        for check in POD_CHECKS:
            yield from check(LookedAt(name, body, seen), rule)
    elif any(asked not in (None, {}) for asked in (rule.node, rule.pending, rule.gated, rule.annotations, rule.cpuset, rule.nominated)):
        yield Difference(name, "exists", state(None))


def _check_node(pod: LookedAt, rule: PodRule) -> Iterator[Difference]:
    if rule.node is None:
        return
    node = node_of(pod.body)
    allowed = not rule.node.one_of or node in rule.node.one_of
    if not node or not allowed or node in rule.node.none_of:
        yield pod.differs(f"on {_nodes(rule.node)}")


def _nodes(rule: NodeRule) -> str:
    wanted = " or ".join(rule.one_of) or "a node"
    return f"{wanted} other than {' or '.join(rule.none_of)}" if rule.none_of else wanted


def _check_pending(pod: LookedAt, rule: PodRule) -> Iterator[Difference]:
    if rule.pending is None:
        return
    pending = not node_of(pod.body) and tried(pod.body)
    if rule.pending is False:
        if pending:
            yield pod.differs("not pending")
    elif not pending:
        yield pod.differs(f"pending{f' with {rule.pending!r}' if isinstance(rule.pending, str) else ''}")
    elif isinstance(rule.pending, str) and rule.pending not in (refusal(pod.body) or ("", ""))[1]:
        yield pod.differs(f"pending with {rule.pending!r}")


def _check_gated(pod: LookedAt, rule: PodRule) -> Iterator[Difference]:
    gated = not node_of(pod.body) and not tried(pod.body)
    if rule.gated is not None and gated is not rule.gated:
        yield pod.differs("held back before scheduling" if rule.gated else "not held back before scheduling")


def _check_nominated(pod: LookedAt, rule: PodRule) -> Iterator[Difference]:
    found = pod.body.get("status", {}).get("nominatedNodeName") or ""
    if rule.nominated is not None and found != rule.nominated:
        yield pod.differs(f"nominated to {rule.nominated!r}", f"nominated to {found!r}, {state(pod.body)}")


def _check_annotations(pod: LookedAt, rule: PodRule) -> Iterator[Difference]:
    found = pod.body["metadata"].get("annotations") or {}
    for key, expected in rule.annotations.items():
        text = found.get(key)
        if lacks := _lacks(text, expected):
            yield pod.differs(f"annotation {key} {_wanted(expected)}", lacks)


def _lacks(text: str | None, expected: Any) -> str:
    """Say how an annotation's text fails an expectation; "" when it does not."""
    if expected is None or text is None:
        return "" if expected is text else ("it is absent" if text is None else repr(text))
    if not isinstance(expected, dict | list):
        wanted = expected if isinstance(expected, str) else _json(expected)
        return "" if text == wanted else repr(text)
    try:
        return missing(msgspec.json.decode(text), expected)
    except JSON_ERRORS:
        return f"no JSON: {text!r}"


def _wanted(expected: Any) -> str:
    if expected is None:
        return "absent"
    return f"contains {_json(expected)}" if isinstance(expected, dict | list) else f"equals {expected!r}"


def _check_cpuset(pod: LookedAt, rule: PodRule) -> Iterator[Difference]:
    if rule.cpuset is None:
        return
    cpus = cpus_of(pod.body)
    topology = cpu_topology(pod.seen.topologies.get(node_of(pod.body)))
    status = (pod.body["metadata"].get("annotations") or {}).get(RESOURCE_STATUS)
    found = f"cpuset {format_cpus(cpus)!r} ({state(pod.body)}; resource-status {status})"
    for expected in _cpuset_differences(rule.cpuset, cpus, topology, numa_nodes_of(pod.body)):
        yield pod.differs(expected, found)


def _cpuset_differences(rule: CpusetRule, cpus: int, topology: dict[int, Cpu], allocated: frozenset[int]) -> Iterator[str]:
    """Yield what is expected of the cpuset and does not hold. Pods without CPUs of their own are asked for the NUMA nodes allocated."""
    if rule.count is not None and cpus.bit_count() != rule.count:
        yield f"a cpuset of {rule.count} CPUs"
    if rule.numa is not None and rule.numa != (frozenset(topology[cpu].numa for cpu in cpu_ids(cpus) if cpu in topology) or allocated):
        yield f"CPUs of NUMA node {','.join(map(str, sorted(rule.numa)))}"
    if rule.within is not None and (not cpus or cpus & ~rule.within):
        yield f"CPUs from {format_cpus(rule.within)}"
    if rule.without is not None and cpus & rule.without:
        yield f"CPUs not of {format_cpus(rule.without)}"
    if rule.equals is not None and cpus != rule.equals:
        yield f"cpuset equals {format_cpus(rule.equals)}"
    if rule.full_cores is not None and _has_full_cores(cpus, topology) is not rule.full_cores:
        yield "full physical cores" if rule.full_cores else "partly used physical cores"


def _has_full_cores(cpus: int, topology: dict[int, Cpu]) -> bool:
    """Tell whether there are CPUs, all of them known, and no core of theirs has a CPU outside the set."""
    ids = set(cpu_ids(cpus))
    if not ids or not ids <= topology.keys():
        return False
    cores = {topology[cpu].core for cpu in ids}
    return all(cpu in ids for cpu, place in topology.items() if place.core in cores)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


POD_CHECKS: tuple[Callable[[LookedAt, PodRule], Iterator[Difference]], ...] = (
    _check_node,
    _check_pending,
    _check_gated,
    _check_nominated,
    _check_annotations,
    _check_cpuset,
)
