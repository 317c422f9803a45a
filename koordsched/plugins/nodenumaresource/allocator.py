"""The exact CPUs and amounts that a pod gets on the one node that was chosen for it (nodenumaresource.md §6, §8, §11, §14).

Decides; `state.NumaState` keeps what is decided, and the pod's annotations publish it.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import msgspec

from koordsched._core.cpu_accumulator import CpuRequest
from koordsched._core.cpu_allocator import CpuShortage
from koordsched._core.hints import NumaView
from koordsched._core.numa import NumaScoring
from koordsched.api.koordinator.pods import (
    BIND_POLICY_TEXTS,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    request_format,
    resource_spec_text,
    resource_status_text,
)
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy
from koordsched.cache.columns import BASE_RESOURCES
from koordsched.config.args import MOST_ALLOCATED
from koordsched.framework.status import Status, unresolvable, unschedulable
from koordsched.plugins.nodenumaresource.node_allocations import PodAllocation
from koordsched.plugins.nodenumaresource.pod_demand import EffectivePolicy, binds_on, effective_policy, merged_policy, written_back
from koordsched.plugins.nodenumaresource.reasons import (
    INVALID_TOPOLOGY,
    MISSING_ZONES,
    NO_TOPOLOGY_TO_RESERVE,
    NO_ZONES,
    SHORT_OF_CPUS,
    insufficient,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koordsched.api.koordinator.pods import Amounts, PodNumaStatus, PodResourceSpec
    from koordsched.api.koordinator.policies import NumaTopologyPolicy
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.quantity import QuantityFormat
    from koordsched.cache.columns import Columns
    from koordsched.config.args import ResourceSpec
    from koordsched.config.koordinator_args import NodeNUMAResourceArgs, NumaScoringStrategy
    from koordsched.framework.cycle_state import Annotations
    from koordsched.plugins.nodenumaresource.node_allocations import NodeAllocations
    from koordsched.plugins.nodenumaresource.pod_demand import CompiledDemand, PodDemand
    from koordsched.plugins.nodenumaresource.state import NumaState

    ChooseNumaNodes = Callable[[], "int | Status | None"]
    """Chooses the NUMA nodes (a mask of ids) for a pod on a node with a NUMA policy; None: no particular ones."""

MILLI = 1000


class CompiledArgs(msgspec.Struct, frozen=True):
    """The arguments of one profile: resource ids instead of names, numbers instead of texts (nodenumaresource.md §1)."""

    default_bind_policy: str  # of LSE and LSR pods that name none; "" binds none of them
    scoring: NumaScoring
    strategy: AllocateStrategy  # where a node's label names none
    evenly: bool  # D12: DistributeEvenly is honoured


def compile_args(args: NodeNUMAResourceArgs, columns: Columns) -> CompiledArgs:
    """Compile arguments, which have been validated."""
    node, numa = args.scoring_strategy, args.numa_scoring_strategy
    node_weights, numa_weights = _weights(node.resources, columns), _weights(numa.resources or node.resources, columns)
    optional = [found for found in {*node_weights, *numa_weights} if columns.resource_names[found] not in BASE_RESOURCES]
    scoring = NumaScoring(node_weights, _strategy(node), _strategy(numa), optional, numa_weights)
    return CompiledArgs(args.default_cpu_bind_policy, scoring, _strategy(numa), args.honor_distribute_evenly)


def _weights(resources: tuple[ResourceSpec, ...], columns: Columns) -> dict[int, int]:
    return {columns.resource(spec.name): spec.weight for spec in resources}


def _strategy(strategy: NumaScoringStrategy) -> AllocateStrategy:
    return AllocateStrategy.MOST if strategy.type == MOST_ALLOCATED else AllocateStrategy.LEAST


class NodeDemand:
    """What a pod's demand comes to on one node: whether it gets CPUs of its own (`binds`) and which NUMA policy holds."""

    __slots__ = ("_demand", "_make_view", "_view", "binds", "node", "numa_policy", "only_preferred", "preferred")

    def __init__(
        self,
        node: NodeAllocations,
        make_view: Callable[[int], NumaView],
        demand: PodDemand,
        numa_policy: NumaTopologyPolicy,
        *,
        binds: bool,
    ) -> None:
        self.preferred = 0  # CPUs of the reservation that the pod draws on: taken before others,
        self.only_preferred = False  # and no others
        self.node = node
        self.binds = binds
        self.numa_policy = numa_policy
        self._demand = demand
        self._make_view = make_view
        self._view: NumaView | None = None

    @property
    def effective(self) -> EffectivePolicy:
        """Return how the pod's CPUs are bound there, if they are."""
        return effective_policy(self._demand, self.node.bind_policy)

    @property
    def view(self) -> NumaView:
        """Return what the node's NUMA nodes have for the pod; made when it is asked for, since most pods need none."""
        if self._view is None:
            self._view = self._make_view(self.node.index)
        return self._view


class AllocatedResources(msgspec.Struct, frozen=True):
    """The CPUs, as a set, and the amounts that a pod gets of a node."""

    on_node: NodeDemand
    cpus: int
    amounts: Amounts


class Allocator:
    """Allocates for one profile's pods. Keeps nothing."""

    def __init__(self, numa: NumaState, args: CompiledArgs, columns: Columns) -> None:
        self._numa = numa
        self._args = args
        self._columns = columns

    def on_node(self, compiled: CompiledDemand, node_name: str) -> NodeDemand | Status:
        """Return what holds between the pod and the node."""
        node, demand = self._numa.node(node_name), compiled.demand
        policy = merged_policy(demand, node.numa_policy(pod_level=self._numa.pod_level))
        if isinstance(policy, Status):
            return policy
        binds = binds_on(demand, node.bind_policy)
        if isinstance(binds, Status):
            return binds
        return NodeDemand(node, partial(self.view, compiled), demand, policy, binds=binds)

    def view(self, compiled: CompiledDemand, index: int) -> NumaView:
        """Return what the NUMA nodes of the node with this index have for the pod."""
        return NumaView(self._numa.table, compiled.request, index, self._args.scoring)

    def allocate(self, compiled: CompiledDemand, on_node: NodeDemand, choose: ChooseNumaNodes) -> AllocatedResources | Status | None:
        """Return what the pod gets of the node; None: nothing in particular."""
        if compiled.designated is not None:
            return self._designated(compiled.designated, compiled, on_node)
        if not (on_node.binds or on_node.numa_policy):
            return None
        if on_node.binds and on_node.node.cpus is None:
            return NO_TOPOLOGY_TO_RESERVE
        mask: int | Status | None = None
        if on_node.numa_policy:
            mask = choose() if on_node.node.zones else MISSING_ZONES
        return mask if isinstance(mask, Status) else self.from_zones(compiled, on_node, mask)

    def from_zones(self, compiled: CompiledDemand, on_node: NodeDemand, mask: int | None) -> AllocatedResources | Status:
        """Return what the pod gets of these NUMA nodes; None: of any, and no amounts are recorded."""
        amounts = {} if mask is None else self._split(on_node, mask)
        if isinstance(amounts, Status):
            return amounts
        if not on_node.binds:
            return AllocatedResources(on_node, 0, amounts)
        cpus = self._take(compiled, on_node, amounts)
        return cpus if isinstance(cpus, Status) else AllocatedResources(on_node, cpus, amounts)

    def _split(self, on_node: NodeDemand, mask: int) -> Amounts | Status:
        if not on_node.node.zones:
            return NO_ZONES
        split = on_node.view.distribute(mask)
        if split.short:
            return insufficient(split.short)
        if split.lacks_cpus:
            return SHORT_OF_CPUS
        names = self._columns.resource_names
        return {zone: {names[resource]: amount for resource, amount in amounts.items()} for zone, amounts in split.amounts.items()}

    def _take(self, compiled: CompiledDemand, on_node: NodeDemand, amounts: Amounts) -> int | Status:
        node, demand, effective = on_node.node, compiled.demand, on_node.effective
        if node.cpus is None:
            return NO_TOPOLOGY_TO_RESERVE
        request = CpuRequest(
            demand.num_cpus,
            effective.policy,
            required=effective.required,
            exclusive=demand.exclusive,
            strategy=self.strategy_on(node),
        )
        by_zone = {zone: resources.get("cpu", 0) for zone, resources in amounts.items()} if amounts else None
        try:
            reserved = node.reserved
            if on_node.only_preferred:
                reserved |= node.cpus.free() & ~on_node.preferred
            return node.cpus.allocate(request, reserved, on_node.preferred, numa_amounts=by_zone)
        except CpuShortage as shortage:
            return unschedulable(str(shortage))

    def strategy_on(self, node: NodeAllocations) -> AllocateStrategy:
        """Return whence CPUs of the node are taken first."""
        return node.strategy(self._args.strategy, evenly=self._args.evenly)

    # Designated allocations

    def _designated(self, wanted: PodNumaStatus, compiled: CompiledDemand, on_node: NodeDemand) -> AllocatedResources | Status:
        """Return what is demanded if the node can give exactly that (D13: CPUs must be free, NUMA nodes have room)."""
        if on_node.binds and on_node.node.cpus is None:
            return unresolvable(INVALID_TOPOLOGY)
        if any(zone not in on_node.node.zones for zone in wanted.amounts):
            return NO_ZONES
        mask = sum(1 << zone for zone in wanted.amounts) or None
        if not wanted.cpus:
            allocated = self.from_zones(compiled, on_node, mask)
            return SHORT_OF_CPUS if isinstance(allocated, AllocatedResources) and allocated.cpus else allocated
        amounts = {} if mask is None else self._split(on_node, mask)
        if isinstance(amounts, Status):
            return amounts
        refusal = self._not_as_designated(wanted.cpus, compiled, on_node, amounts)
        return AllocatedResources(on_node, wanted.cpus, amounts) if refusal is None else refusal

    def _not_as_designated(self, cpus: int, compiled: CompiledDemand, on_node: NodeDemand, amounts: Amounts) -> Status | None:
        node, topology = on_node.node, on_node.node.topology
        if not on_node.binds or node.cpus is None or topology is None:
            return SHORT_OF_CPUS
        if cpus & ~node.cpus.free(node.reserved) or cpus.bit_count() != compiled.demand.num_cpus:
            return SHORT_OF_CPUS
        if any((cpus & topology.cpus_of_node(zone)).bit_count() != of.get("cpu", 0) // MILLI for zone, of in amounts.items()):
            return SHORT_OF_CPUS
        if not on_node.effective.required:
            return None
        whole = on_node.effective.policy == CpuBindPolicy.FULL_PCPUS
        fitting = topology.full_cores(cpus) if whole else topology.first_of_cores(cpus)
        text = f"insufficient CPUs to satisfy required cpu bind policy {BIND_POLICY_TEXTS[on_node.effective.policy]}"
        return None if fitting == cpus else unschedulable(text)

    # What is kept of it

    def record(self, pod: PodInfo, compiled: CompiledDemand, allocated: AllocatedResources) -> PodAllocation:
        """Return the allocation as it is to be accounted: as it would be read back from the annotations."""
        return PodAllocation.of(pod, allocated.cpus, compiled.demand.spec.exclusive, allocated.amounts)


class Reserved(msgspec.Struct, frozen=True):
    """What a pod was given, until it is written to the pod (§11): most of the work of that can wait until it is bound."""

    spec: str | None  # the resource-spec with what it left open filled in; None when it left nothing open
    cpus: int
    amounts: Amounts
    emptied: Mapping[tuple[int, str], QuantityFormat]  # of amounts that leave nothing in their zone, by zone and resource: as it wrote them

    @classmethod
    def of(cls, compiled: CompiledDemand, allocated: AllocatedResources) -> Reserved:
        """Note what will be written. To be called before what is allocated is accounted."""
        on_node, amounts = allocated.on_node, allocated.amounts
        spec = _spec_text(compiled.demand.spec, on_node.effective) if on_node.binds else None
        return cls(spec, allocated.cpus, amounts, _emptied(on_node.node, amounts))

    def annotations(self, pod: PodInfo) -> Annotations:
        """Return what is written to the pod."""
        written: Annotations = {RESOURCE_STATUS: resource_status_text(self.cpus, self.amounts, partial(self._format, pod))}
        if self.spec is not None:
            written[RESOURCE_SPEC] = self.spec
        return written

    def _format(self, pod: PodInfo, zone: int, resource: str) -> QuantityFormat:
        """Return how an amount is written: as the pod wrote its request, or as the zone wrote its amount where the pod empties it."""
        return self.emptied.get((zone, resource)) or request_format(pod.pod, resource)


@lru_cache(maxsize=256)
def _spec_text(spec: PodResourceSpec, effective: EffectivePolicy) -> str | None:
    """Return the resource-spec with what it left open filled in; None when it left nothing open."""
    filled = written_back(spec, effective)
    return None if filled is None else resource_spec_text(filled)


def _emptied(node: NodeAllocations, amounts: Amounts) -> dict[tuple[int, str], QuantityFormat]:
    zones = {} if node.options is None else node.options.zones
    found = {}
    for zone, given in amounts.items():
        if zone in zones:
            total, allocated = node.zones.get(zone, {}), node.allocated.get(zone, {})
            for resource, amount in given.items():
                if resource != "cpu" and amount == total.get(resource, 0) - allocated.get(resource, 0):
                    found[zone, resource] = zones[zone].formats[resource]
    return found
