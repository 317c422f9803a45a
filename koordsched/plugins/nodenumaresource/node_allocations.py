"""What one node has for exact allocation, and what pods hold of it: the node's part of `state.NumaState`.

Allocations are kept as they were written; what is derived of them (`cpus`, `allocated`, `single`, `shared`) follows every change of the
topology, so it does not matter whether a pod or its node's topology is known first (nodenumaresource.md D6). Amounts are milli for cpu and
whole units otherwise, never amplified but in `zones`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koordsched._core.cpu_allocator import NodeCpus
from koordsched._core.numa_facts import MALFORMED_RATIO, CpuCounts, NumaNode, NumaStatus, NumaUsage, TopologyState, ZoneUsage
from koordsched.api.koordinator.nodes import Ratios, amplify
from koordsched.api.koordinator.pods import Amounts, resource_spec, resource_status
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, CpuExclusivePolicy, NumaTopologyPolicy
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.names import is_scalar_resource_name
from koordsched.cache.columns import BASE_RESOURCES
from koordsched.plugins.nodenumaresource.node_topology import NO_POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from koordsched._core.cpuset import CpuTopology
    from koordsched.api.koordinator.nodes import NodePolicy
    from koordsched.api.podinfo import PodInfo
    from koordsched.plugins.nodenumaresource.node_topology import TopologyOptions

FULL_PCPUS_ONLY = "full-pcpus-only"
DISTRIBUTE_CPUS = "distribute-cpus-across-numa"
"""Options of kubelet's static CPU manager policy."""

NO_CPUS = CpuCounts()


class PodAllocation(msgspec.Struct, frozen=True):
    """What a pod was given of its node. Shared: `amounts` must not be changed."""

    uid: str
    namespace: str
    name: str
    cpus: int = 0  # a set of CPUs
    exclusive: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    amounts: Amounts = msgspec.field(default_factory=dict)  # by NUMA id and resource; no zeros

    @classmethod
    def of(cls, pod: PodInfo, cpus: int, exclusive: CpuExclusivePolicy, amounts: Amounts) -> PodAllocation:
        """Make the allocation of a pod."""
        meta = pod.pod.metadata
        return cls(pod.uid, meta.namespace, meta.name, cpus, exclusive, amounts)


class _NumaPart(NamedTuple):
    """One NUMA node."""

    numa: int
    cpus: int  # all of its CPUs, as a set
    ids: dict[str, int]  # the ids of the zone's resources, by name


class NodeAllocations:
    """One node, known or not. Changed by `NumaState` only, which keeps the table true to it."""

    __slots__ = (
        "_parts",
        "_resource",
        "allocated",
        "bind_policy",
        "cpus",
        "index",
        "max_ref_count",
        "name",
        "options",
        "pods",
        "policy",
        "shared",
        "single",
        "zones",
    )

    def __init__(self, name: str, index: int, resource: Callable[[str], int]) -> None:
        """index: in the NumaTable. resource: gives a resource's id there."""
        self.name = name
        self.index = index
        self.options: TopologyOptions | None = None  # None: no NodeResourceTopology
        self.policy = NO_POLICY  # the Node's
        self.bind_policy = NO_POLICY.bind  # what is demanded of every pod that requests cpu
        self.max_ref_count = 1  # how many pods may be bound to one CPU
        self.zones: Amounts = {}  # what NUMA nodes have, amplified, without reserved CPUs; ascending
        self.pods: dict[str, PodAllocation] = {}  # by uid
        self.cpus: NodeCpus | None = None  # None: no valid topology
        self.allocated: Amounts = {}  # by NUMA id, sums of allocations; no zeros
        self.single: dict[int, int] = {}  # pods by NUMA id all of whose CPUs are there; no zeros
        self.shared: dict[int, int] = {}  # pods by NUMA id that have CPUs there and elsewhere
        self._resource = resource
        self._parts: list[_NumaPart] = []  # what `usage` goes through: every NUMA node that has CPUs or amounts

    # What the node has

    @property
    def topology(self) -> CpuTopology | None:
        """Return where the CPUs sit; None when that is not known."""
        return None if self.options is None else self.options.topology

    @property
    def reserved(self) -> int:
        """Return the CPUs that are not for pods."""
        return 0 if self.options is None else self.options.reserved

    def numa_policy(self, *, pod_level: bool) -> NumaTopologyPolicy:
        """Return the label's policy, else that of the topology. pod_level: honour kubelet's pod level policies (D11)."""
        if self.policy.numa_policy is not None or self.options is None:
            return self.policy.numa_policy or NumaTopologyPolicy.NONE
        return self.options.pod_level_policy if pod_level else self.options.numa_policy

    def strategy(self, default: AllocateStrategy, *, evenly: bool) -> AllocateStrategy:
        """Return whence CPUs are taken first. evenly: let label and kubelet's option distribute them evenly (D12)."""
        label = self.policy.strategy
        asked = label is AllocateStrategy.DISTRIBUTE_EVENLY
        if evenly and (asked or (self.options is not None and self.options.kubelet.has(DISTRIBUTE_CPUS))):
            return AllocateStrategy.DISTRIBUTE_EVENLY
        if asked:
            return AllocateStrategy.LEAST
        return default if label is None else label

    @property
    def ratios(self) -> Ratios:
        """Return by what the zones are amplified: by the topology's ratios if it has any, else by the node's."""
        if self.options is not None and self.options.ratios is not None:
            return self.options.ratios
        return self.policy.ratios or {}

    @property
    def zone_ratio(self) -> float:
        """Return by what cpu is amplified in `zones`."""
        return self.ratios.get("cpu", 1.0)

    @property
    def filter_ratio(self) -> float:
        """Return by what the node says that its cpu is amplified; MALFORMED_RATIO when it cannot be read."""
        return MALFORMED_RATIO if self.policy.ratios is None else max(self.policy.ratios.get("cpu", 1.0), 0.0)

    # Changes

    def describe(self, options: TopologyOptions | None, policy: NodePolicy, max_ref_count: int) -> None:
        """Take over what is known now, and account all allocations to it."""
        self.options, self.policy, self.max_ref_count = options, policy, max_ref_count
        # By kubelet's option first, then by the label.
        self.bind_policy = CpuBindPolicy.FULL_PCPUS if options is not None and options.kubelet.has(FULL_PCPUS_ONLY) else policy.bind
        self.zones = {} if options is None else {numa: dict(zone.amounts) for numa, zone in options.zones.items()}
        if options is not None and options.ratios is None:
            self._amplify()
        topology = self.topology
        self._parts = [
            _NumaPart(numa, 0 if topology is None else topology.cpus_of_node(numa), self._ids(numa))
            for numa in sorted(self.zones.keys() | (() if topology is None else topology.node_ids))
        ]
        self.cpus = None if topology is None else NodeCpus(topology, max_ref_count)
        self.single.clear()
        self.shared.clear()
        for allocation in self.pods.values():
            self._bind(allocation, 1)

    def _amplify(self) -> None:
        for resource, ratio in self.ratios.items():
            for zone in self.zones.values():
                if resource in zone:
                    zone[resource] = amplify(zone[resource], ratio)

    def _ids(self, numa: int) -> dict[str, int]:
        """Return the ids of the zone's resources, but for those that no pod can request: an id lives as long as the process."""
        names = self.zones.get(numa, ())
        return {name: self._resource(name) for name in names if name in BASE_RESOURCES or is_scalar_resource_name(name)}

    def put(self, allocation: PodAllocation) -> None:
        """Account the allocation of a pod that has none here."""
        self.pods[allocation.uid] = allocation
        self._bind(allocation, 1)
        for numa, amounts in allocation.amounts.items():
            at = self.allocated.setdefault(numa, {})
            for resource, amount in amounts.items():
                at[resource] = at.get(resource, 0) + amount

    def take(self, uid: str) -> PodAllocation:
        """Take a pod's allocation back and return it."""
        allocation = self.pods.pop(uid)
        self._bind(allocation, -1)
        for numa, amounts in allocation.amounts.items():
            at = self.allocated[numa]
            for resource, amount in amounts.items():
                at[resource] -= amount
                if not at[resource]:
                    del at[resource]
            if not at:
                del self.allocated[numa]
        return allocation

    def without(self, uids: Iterable[str]) -> NodeAllocations:
        """Return the node as it is without the allocations of these pods."""
        found = NodeAllocations(self.name, self.index, self._resource)
        found.options, found.policy, found.max_ref_count = self.options, self.policy, self.max_ref_count
        found.zones, found._parts, found.bind_policy = self.zones, self._parts, self.bind_policy
        found.pods = dict(self.pods)
        found.cpus = None if self.cpus is None else self.cpus.copy()
        found.allocated = {numa: dict(amounts) for numa, amounts in self.allocated.items()}
        found.single, found.shared = dict(self.single), dict(self.shared)
        for uid in uids:
            found.take(uid)
        return found

    def _bind(self, allocation: PodAllocation, by: int) -> None:
        """Count CPUs as bound once more (1) or once less (-1)."""
        if self.cpus is None or not allocation.cpus:
            return
        change = self.cpus.add if by > 0 else self.cpus.remove
        change(allocation.cpus, allocation.exclusive)
        used = [part.numa for part in self._parts if part.cpus & allocation.cpus]
        pods = self.single if len(used) == 1 else self.shared
        for numa in used:
            count = pods.get(numa, 0) + by
            if count:
                pods[numa] = count
            else:
                del pods[numa]

    # For the table

    @property
    def unknown(self) -> bool:
        """Whether there is nothing to remember."""
        return self.options is None and self.policy == NO_POLICY and not self.pods and self.max_ref_count == 1

    def status(self, numa: int) -> NumaStatus:
        """Return which pods have CPUs on the NUMA node."""
        if numa in self.shared:
            return NumaStatus.SHARED
        return NumaStatus.SINGLE if numa in self.single else NumaStatus.IDLE

    def facts(self, *, pod_level: bool) -> NumaNode:
        """Return what changes with node and topology. pod_level: as for `numa_policy`."""
        topology = self.topology
        state = TopologyState.NONE if self.options is None else TopologyState.INVALID
        return NumaNode(
            topology=state if topology is None else TopologyState.VALID,
            cpus_per_core=1 if topology is None else topology.cpus_per_core,
            zones={part.numa: self._by_id(self.zones[part.numa], part) for part in self._parts if part.numa in self.zones},
            bind_policy=self.bind_policy,
            numa_policy=self.numa_policy(pod_level=pod_level),
            ratio=self.zone_ratio,
            checked_ratio=self.filter_ratio,
        )

    def counts(self, restored: Sequence[int] = (), withheld: int = 0) -> dict[int, CpuCounts]:
        """Return how many CPUs NUMA nodes have. restored: sets that count as bound once less each. withheld: free ones that are not."""
        cpus, topology = self.cpus, self.topology
        if cpus is None or topology is None:
            return {}
        return topology.counts(cpus.bound, cpus.free(self.reserved, restored) & ~withheld)

    def usage(self, restored: Sequence[int] = ()) -> NumaUsage:
        """Return what changes with pods. restored: as for `counts`."""
        zones, counts = {}, self.counts(restored)
        for part in self._parts:
            amounts = self.allocated.get(part.numa)
            sums = {} if amounts is None else self._by_id(amounts, part)
            zones[part.numa] = ZoneUsage(sums, counts.get(part.numa, NO_CPUS), self.status(part.numa))
        return NumaUsage(CpuCounts(*map(sum, zip(*counts.values(), strict=True))), zones)

    def sums(self, numa: int) -> dict[int, int]:
        """Return what `usage` says of the amounts of a NUMA node."""
        for part in self._parts:
            if part.numa == numa:
                return self._by_id(self.allocated.get(numa, {}), part)
        return {}

    def in_zones(self, allocation: PodAllocation) -> list[tuple[int, int, int]]:
        """Return what an allocation has of zones, as the table counts it: NUMA id, resource id, amount."""
        return [
            (part.numa, resource, amount)
            for part in self._parts
            if part.numa in allocation.amounts
            for resource, amount in self._by_id(allocation.amounts[part.numa], part).items()
        ]

    def _by_id(self, amounts: dict[str, int], part: _NumaPart) -> dict[int, int]:
        """Key amounts of a zone by resource id; what the zone does not have is left out."""
        ids = part.ids
        return {ids[name]: amount for name, amount in amounts.items() if name in ids}


def written_allocation(pod: PodInfo) -> PodAllocation | None:
    """Return the allocation in the pod's annotations; None if there is none. Malformed."""
    status = resource_status(pod.pod.metadata.annotations)
    if status is None or not (status.cpus or status.amounts):
        return None
    return PodAllocation.of(pod, status.cpus, _exclusive(pod), status.amounts)


def _exclusive(pod: PodInfo) -> CpuExclusivePolicy:
    """Return the pod's exclusive policy; NONE if its resource-spec cannot be read: it holds its CPUs all the same."""
    try:
        return resource_spec(pod.pod.metadata.annotations).exclusive
    except Malformed:
        return CpuExclusivePolicy.NONE
