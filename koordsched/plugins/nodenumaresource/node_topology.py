"""A node's CPUs and zones, read from its NodeResourceTopology and followed, with its Node's policy (nodenumaresource.md §2).

A part of the object that cannot be read, or that cannot be true, is left out and named in `problems`; the others hold. Without a readable
cpu-topology the node has no topology (D4), and nothing can be bound there. Zones are keyed by NUMA id, 0 to 63 (D5).

Each mistake is reported once, where the author of the object looks: by a line in the log, and by one event on the Node, when there is one.
An object that is corrected and broken again is reported again. A plugin follows a node before the cache does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from koordsched._core.cpuset import CpuPlace, CpuTopology
from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.cpulist import format_cpus
from koordsched.api.koordinator.nodes import NodePolicy, Ratios, amplification_ratios, negative_ratios, node_policy
from koordsched.api.koordinator.policies import NumaTopologyPolicy
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.koordinator.topology import (
    CPU_TOPOLOGY,
    ZONE_TYPE,
    KubeletPolicy,
    Zone,
    ZoneResource,
    cpu_details,
    kubelet_bound_cpus,
    kubelet_policy,
    kubelet_reserved_cpus,
    node_reserved_cpus,
    system_cpus,
    topology_policies,
    zones,
)
from koordsched.api.quantity import QuantityError, QuantityFormat, format_of, milli_value, value
from koordsched.cluster.object_store import Arrival
from koordsched.framework.object_problems import ProblemReporter
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koordsched.api.core import Node
    from koordsched.api.meta import Unstructured
    from koordsched.cluster.object_store import FinalState
    from koordsched.framework.handle import Handle

T = TypeVar("T")

NO_POLICY = NodePolicy()
INVALID_TOPOLOGY_EVENT = "InvalidNUMATopology"

MAX_NUMA_ID = 63
LAYOUTS = 256  # kinds of hardware whose topologies are kept for sharing
_ZONE_NAME = "node-"
_MILLI = 1000
_MAX_DIGITS = 9  # of a zone's number: all that int32 surely holds

POLICIES = {
    "BestEffort": NumaTopologyPolicy.BEST_EFFORT,
    "Restricted": NumaTopologyPolicy.RESTRICTED,
    "SingleNUMANodePodLevel": NumaTopologyPolicy.SINGLE_NUMA_NODE,
}
"""Policies of kubelet's topology manager that Koordinator obeys."""
POD_LEVEL_POLICIES = POLICIES | {
    "RestrictedPodLevel": NumaTopologyPolicy.RESTRICTED,
    "BestEffortPodLevel": NumaTopologyPolicy.BEST_EFFORT,
}
"""The same with those that koordlet really writes, which Koordinator ignores (D11)."""


class NumaZone(msgspec.Struct, frozen=True):
    """What a NUMA node has: amounts by resource, not amplified, without reserved CPUs; and how they were written."""

    amounts: dict[str, int]
    formats: dict[str, QuantityFormat]


class TopologyOptions(msgspec.Struct, frozen=True):
    """What a NodeResourceTopology has. `problems` are the mistakes of the object, a line each."""

    topology: CpuTopology | None = None  # None: no or no valid cpu-topology
    reserved: int = 0  # CPUs that no pod is bound to
    kubelet: KubeletPolicy = KubeletPolicy()
    numa_policy: NumaTopologyPolicy = NumaTopologyPolicy.NONE
    pod_level_policy: NumaTopologyPolicy = NumaTopologyPolicy.NONE  # what holds instead where pod level policies are honoured
    zones: dict[int, NumaZone] = msgspec.field(default_factory=dict)  # ascending
    ratios: Ratios | None = None  # by which the zones are amplified already; None: they are not
    problems: tuple[str, ...] = ()


def read_options(nrt: Unstructured) -> TopologyOptions:
    """Read the object."""
    annotations = nrt.metadata.annotations
    problems: list[str] = []

    def attempt(read: Callable[[Mapping[str, str]], T], otherwise: T) -> T:
        try:
            return read(annotations)
        except Malformed as error:
            problems.append(str(error))
            return otherwise

    topology = attempt(_topology, None)
    nothing: tuple[int, list[str]] = (0, [])
    reserved, unreadable = attempt(kubelet_bound_cpus, nothing)
    problems += unreadable
    for source in (kubelet_reserved_cpus, node_reserved_cpus, system_cpus):
        reserved |= attempt(source, 0)
    if topology is not None and reserved & ~topology.all:
        problems.append(f"reserved CPUs that the node does not have: {format_cpus(reserved & ~topology.all)}")
    ratios = attempt(amplification_ratios, None)
    problems += negative_ratios(ratios or {})
    policies: Sequence[str] = attempt(lambda _: topology_policies(nrt.raw), ())
    written: Sequence[Zone] = attempt(lambda _: zones(nrt.raw), ())
    return TopologyOptions(
        topology=topology,
        reserved=reserved,
        kubelet=attempt(kubelet_policy, KubeletPolicy()),
        numa_policy=_first_known(policies, POLICIES),
        pod_level_policy=_first_known(policies, POD_LEVEL_POLICIES),
        zones=_without_reserved(_zones(written, problems), topology, reserved),
        ratios=ratios,
        problems=tuple(dict.fromkeys(problems)),
    )


def _topology(annotations: Mapping[str, str]) -> CpuTopology | None:
    text = annotations.get(CPU_TOPOLOGY)
    return None if text is None else _built(text)


@lru_cache(maxsize=LAYOUTS)
def _built(text: str) -> CpuTopology | None:
    """Return the topology that the annotation describes, None if it names no CPU; nodes of equal hardware share it."""
    try:
        topology = CpuTopology(CpuPlace(cpu.id, cpu.core, cpu.socket, cpu.node) for cpu in cpu_details(text))
    except ValueError as error:
        raise error if isinstance(error, Malformed) else Malformed(CPU_TOPOLOGY, str(error), text) from None
    return topology if topology.is_valid else None


def _first_known(policies: Iterable[str], known: Mapping[str, NumaTopologyPolicy]) -> NumaTopologyPolicy:
    return next((known[policy] for policy in policies if policy in known), NumaTopologyPolicy.NONE)


def _zones(written: Sequence[Zone], problems: list[str]) -> dict[int, NumaZone]:
    """Return the zones that are NUMA nodes, ascending by id; of two with one id the first."""
    found: dict[int, NumaZone] = {}
    for i, zone in enumerate(written):
        if zone.type != ZONE_TYPE:
            continue
        numa = _numa_id(zone.name)
        if numa is None or not 0 <= numa <= MAX_NUMA_ID or numa in found:
            problem = "given twice" if numa in found else f"expected node-0 to node-{MAX_NUMA_ID}"
            problems.append(f"zones[{i}].name: {problem}, so it is ignored: {shown(zone.name)}")
        else:
            found[numa] = _zone(zone.resources, f"zones[{i}]", problems)
    return dict(sorted(found.items()))


def _numa_id(name: str) -> int | None:
    """Return the number of a zone called `node-<number>`; None for any other name."""
    number = name.removeprefix(_ZONE_NAME)
    if number == name or not number.removeprefix("-").isdecimal() or not number.isascii() or len(number) > _MAX_DIGITS:
        return None
    return int(number)


def _zone(resources: Iterable[ZoneResource], path: str, problems: list[str]) -> NumaZone:
    """Read a zone's amounts. What is no quantity, or less than nothing, counts as nothing: no pod gets what may not be there."""
    zone = NumaZone({}, {})
    for i, resource in enumerate(resources):
        try:
            amount = milli_value(resource.allocatable) if resource.name == "cpu" else value(resource.allocatable)
        except (QuantityError, TypeError):  # TypeError: a list or an object
            amount = -1
        if amount < 0:
            problem = f"{path}.resources[{i}].allocatable: expected an amount of {resource.name}, so it counts as 0"
            problems.append(f"{problem}: {shown(str(resource.allocatable))}")
        zone.amounts[resource.name] = max(amount, 0)
        zone.formats[resource.name] = format_of(resource.allocatable)
    return zone


def _without_reserved(found: dict[int, NumaZone], topology: CpuTopology | None, reserved: int) -> dict[int, NumaZone]:
    """Take the CPUs that are not for pods out of the zones' cpu."""
    if topology is None or not reserved:
        return found
    for numa, zone in found.items():
        cpu = zone.amounts.get("cpu", 0)
        if cpu:
            zone.amounts["cpu"] = max(0, cpu - _MILLI * (topology.cpus_of_node(numa) & reserved).bit_count())
    return found


# Following


class TopologyFollower(Protocol):
    """Keeps what is known of nodes."""

    def set_options(self, name: str, options: TopologyOptions | None) -> None:
        """Take over the node's topology as it is now; None: it has none."""

    def set_policy(self, name: str, policy: NodePolicy) -> None:
        """Take over the Node's policy as it is now."""


def follow_topologies(handle: Handle, follower: TopologyFollower) -> None:
    """Let `follower` take over everything that is known, and every change. To be called while a plugin is made."""
    reporter = ProblemReporter(handle, INVALID_TOPOLOGY_EVENT, "an object about CPUs and NUMA nodes is not right")
    handle.informer(NODE_RESOURCE_TOPOLOGY).add_handler(_Topologies(follower, reporter))
    handle.informer(NODE).add_handler(_Nodes(follower, reporter))


class _Topologies:
    def __init__(self, follower: TopologyFollower, reporter: ProblemReporter) -> None:
        self._follower = follower
        self._reporter = reporter

    def on_add(self, nrt: Unstructured, _arrival: Arrival) -> None:
        name = nrt.metadata.name
        options = read_options(nrt)
        self._follower.set_options(name, options)
        self._reporter.set_problems(NODE_RESOURCE_TOPOLOGY.kind, name, _by_text(options.problems))

    def on_update(self, _old: Unstructured, new: Unstructured) -> None:
        self.on_add(new, Arrival.LATER)

    def on_delete(self, nrt: Unstructured, _final_state: FinalState) -> None:
        self._follower.set_options(nrt.metadata.name, None)
        self._reporter.set_problems(NODE_RESOURCE_TOPOLOGY.kind, nrt.metadata.name, {})


class _Nodes:
    def __init__(self, follower: TopologyFollower, reporter: ProblemReporter) -> None:
        self._follower = follower
        self._reporter = reporter

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        self._read(node)
        self._reporter.node_added(NODE_RESOURCE_TOPOLOGY.kind, node.metadata.name)

    def on_update(self, old: Node, new: Node) -> None:
        before, after = old.metadata, new.metadata
        if before.labels != after.labels or before.annotations != after.annotations:
            self._read(new)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        self._follower.set_policy(node.metadata.name, NO_POLICY)
        self._reporter.set_problems(NODE.kind, node.metadata.name, {})

    def _read(self, node: Node) -> None:
        policy = node_policy(node)
        self._follower.set_policy(node.metadata.name, policy)
        self._reporter.set_problems(NODE.kind, node.metadata.name, _by_text(policy.problems))


def _by_text(problems: Iterable[str]) -> dict[str, str]:
    return {problem: problem for problem in problems}
