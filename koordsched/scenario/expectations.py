"""Judge what was seen against an `expect` block: pure functions, one for each key of scenarios.md, listed in `CHECKS`.

Each yields a `Mismatch` for everything that does not hold; none means that the block holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Any

import msgspec

from koordsched.api.meta import JSON_ERRORS
from koordsched.plugins import tooling
from koordsched.scenario.cluster import named
from koordsched.scenario.contains import missing
from koordsched.scenario.devices import DEVICES
from koordsched.scenario.model import CountRule, Expect
from koordsched.scenario.observation import Json, Seen, events_about, node_of, state
from koordsched.scenario.pod_expectations import Mismatch, check_pod

SHOWN_BODY = 200

EXCLUSIVE = (*(resource for each in tooling() for resource in each.exclusive), DEVICES)


def differences(seen: Seen, expect: Expect) -> list[Mismatch]:
    """Return everything in which the cluster differs from the block."""
    return [difference for check in CHECKS for difference in check(seen, expect)]


def check_pods(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for name, rule in expect.pods.items():
        yield from check_pod(seen, name, rule)


def check_objects(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for rule in expect.objects:
        found = seen.objects[rule.target]
        if rule.gone:
            if found is not None:
                yield Mismatch(named(rule.target), "gone", "exists")
        elif found is None:
            yield Mismatch(named(rule.target), "exists", "no such object")
        elif lacks := missing(found, rule.has or {}):
            yield Mismatch(named(rule.target), f"has {_json(rule.has)}", lacks)


def check_counts(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for key, rule, bound in (("bound", expect.bound, True), ("pending", expect.pending, False)):
        if rule is None:
            continue
        counted = [name for name, pod in seen.pods.items() if _selected(pod, rule) and bool(node_of(pod)) is bound]
        if len(counted) != rule.count:
            yield Mismatch(key, f"{rule.count} pods", f"{len(counted)}{_examples(counted)}")


def check_same_node(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for pods in expect.samenode:
        nodes = [_node(seen, pod) for pod in pods]
        if "" in nodes or len(set(nodes)) > 1:
            yield Mismatch("samenode", f"{', '.join(pods)} on one node", _where(seen, pods))


def check_distinct_nodes(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for pods in expect.distinctnodes:
        nodes = [_node(seen, pod) for pod in pods]
        if "" in nodes or len(set(nodes)) < len(nodes):
            yield Mismatch("distinctnodes", f"{', '.join(pods)} on different nodes", _where(seen, pods))


def check_same_label(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for rule in expect.samelabel:
        values = [_label(seen, pod, rule.key) for pod in rule.pods]
        if None in values or len(set(values)) > 1:
            found = ", ".join(f"{pod} {rule.key}={found}" for pod, found in zip(rule.pods, values, strict=True))
            wanted = f"{', '.join(rule.pods)} on nodes with one value of {rule.key}"
            yield Mismatch("samelabel", wanted, f"{found}; {_where(seen, rule.pods)}")


def check_disjoint(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for absent in (name for name in expect.disjoint if name not in seen.pods):
        yield Mismatch("disjoint", f"{absent} exists", "no such pod")
    present = [(name, seen.pods[name]) for name in expect.disjoint if name in seen.pods]
    for (first, one), (second, other) in combinations(present, 2):
        if not node_of(one) or node_of(one) != node_of(other):
            continue
        for resource in EXCLUSIVE:
            if shared := resource.units(one) & resource.units(other):
                for text in resource.shown(shared):
                    yield Mismatch(
                        "disjoint", f"{first} and {second} hold different {resource.name}", f"both hold {text} of {node_of(one)}"
                    )


def check_events(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for rule in expect.events:
        found = list(events_about(seen, rule.pod))
        if not any(reason == rule.reason and rule.contains in note for reason, note in found):
            wanted = f"{rule.reason}{f' with {rule.contains!r}' if rule.contains else ''}"
            listed = "; ".join(f"{reason}: {note}" for reason, note in found[-3:]) or "no event"
            yield Mismatch(f"events of {rule.pod}", wanted, listed)


def check_http(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for rule in expect.http:
        answer = seen.answers[rule.path]
        text = answer.body.decode(errors="replace")
        if answer.status != rule.status:
            yield Mismatch(f"GET {rule.path}", f"status {rule.status}", f"{answer.status} {text[:SHOWN_BODY].strip()}")
        elif isinstance(rule.contains, str):
            if rule.contains not in text:
                yield Mismatch(f"GET {rule.path}", f"text with {rule.contains!r}", text[:SHOWN_BODY].strip())
        elif rule.contains is not None and (lacks := _lacks(answer.body, rule.contains)):
            yield Mismatch(f"GET {rule.path}", f"contains {_json(rule.contains)}", lacks)


CHECKS: tuple[Callable[[Seen, Expect], Iterable[Mismatch]], ...] = (
    check_pods,
    check_objects,
    check_counts,
    check_same_node,
    check_distinct_nodes,
    check_same_label,
    check_disjoint,
    check_events,
    check_http,
)


def _selected(pod: Json, rule: CountRule) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == wanted for key, wanted in rule.selector.items())


def _examples(names: list[str], limit: int = 5) -> str:
    if not names:
        return ""
    return f" ({', '.join(names[:limit])}{', ...' if len(names) > limit else ''})"


def _node(seen: Seen, name: str) -> str:
    return node_of(seen.pods[name]) if name in seen.pods else ""


def _where(seen: Seen, pods: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {state(seen.pods.get(name))}" for name in pods)


def _label(seen: Seen, pod: str, key: str) -> str | None:
    labels = seen.nodes.get(_node(seen, pod), {}).get("metadata", {}).get("labels") or {}
    found = labels.get(key)
    return None if found is None else str(found)


def _lacks(body: bytes, expected: Any) -> str:
    try:
        return missing(msgspec.json.decode(body), expected)
    except JSON_ERRORS:
        return f"no JSON: {body[:SHOWN_BODY].decode(errors='replace').strip()}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
