"""NodeNUMAResource: CPUs of their own for pods that need them, and all resources of a pod from as few NUMA nodes as wanted.

Filter and Score are columns (`_core.numa_filter`, `_core.numa_score`) over what `state` keeps of every node; the exact CPUs are
found in Reserve, for the one node that was chosen. Reference: plugins/nodenumaresource of Koordinator v1.8.0 (nodenumaresource.md).
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import NodeChange
from koordsched._core.cpu_reserved import ReservedCpus
from koordsched._core.numa_filter import NumaReason, reason_of, source_code_of
from koordsched._core.numa_joint import NumaAlignment
from koordsched._core.numa_removals import NumaRemovals
from koordsched.api.koordinator.pods import RESOURCE_STATUS
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import is_ignoring_reservations
from koordsched.config.extension_points import FILTER
from koordsched.framework.cycle_state import annotate
from koordsched.framework.interface import (
    FilterNodesPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservationFilterPlugin,
    ReservePlugin,
    ScoreNodesPlugin,
)
from koordsched.framework.routes import Answer, Route, RoutesPlugin, refusal
from koordsched.framework.row_refusals import StatusCodes
from koordsched.framework.status import SKIP, PluginError, Status, error, unschedulable
from koordsched.framework.topologymanager import NumaAffinity, NumaAligner, NumaHintProvider, TopologyManager, merged_status
from koordsched.plugins.nodenumaresource.allocator import AllocatedResources, Allocator, NodeDemand, Reserved, compile_args
from koordsched.plugins.nodenumaresource.endpoint import SERVER_ERROR, describe
from koordsched.plugins.nodenumaresource.filtering import STRICT, NumaFilter
from koordsched.plugins.nodenumaresource.pod_demand import CompiledDemand, DemandCompiler, sign
from koordsched.plugins.nodenumaresource.queueing_hints import GONE, NumaHints
from koordsched.plugins.nodenumaresource.reasons import MISSING_ZONES, NOT_ENOUGH_CPUS
from koordsched.plugins.nodenumaresource.reserved import AlignmentAnswers, explain_reserved, of_reservation
from koordsched.plugins.nodenumaresource.state import numa_state

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from koordsched._core.hint_source import NumaHintSource
    from koordsched._core.numa_facts import Hint, Machine
    from koordsched._core.pod_index import PodIndex
    from koordsched._core.removal_filter import RemovalFilter
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.config.koordinator_args import NodeNUMAResourceArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores
    from koordsched.framework.topologymanager import Aligned, Masks
    from koordsched.plugins.nodenumaresource.state import NumaState
    from koordsched.queue.events import EventHint

PRE_FILTER_STATE = "PreFilterNodeNUMAResource"  # the CompiledDemand of pods like this one
OTHERS_STATE = "PreFilterNodeNUMAResource/others"  # the other providers of NUMA hints for pods like this one
AS_IT_IS = nullcontext()
RESERVE_STATE = "ReserveNodeNUMAResource"  # the Reserved with what this pod was allocated


class NodeNUMAResource(
    PreFilterPlugin,
    FilterNodesPlugin,
    PreScorePlugin,
    ScoreNodesPlugin,
    ReservePlugin,
    ReservationFilterPlugin,
    PreBindPlugin,
    NumaAligner,
    RoutesPlugin,
):
    name = "NodeNUMAResource"
    takes_time = False
    pre_binds_reservations = True

    def __init__(self, args: NodeNUMAResourceArgs, handle: Handle) -> None:
        self._cache = handle.cache
        self._numa = numa_state(handle)
        self._table = self._numa.table
        self.reads = NodeChange.USAGE | NodeChange.CAPACITY | self._numa.change
        if args.honor_pod_level_policies:
            self._numa.honour_pod_level()
        self._args = compile_args(args, handle.columns)
        self._compiler = DemandCompiler(self._args.default_bind_policy, handle.columns)
        self._allocator = Allocator(self._numa, self._args, handle.columns)
        self._reserved_refusals = StatusCodes()  # of reservations, as a source has numbered them
        self._filter = NumaFilter(self._numa, self._allocator, self._args.scoring, handle.cache)
        self.topology_manager = TopologyManager([self])  # until the profile has made the others

    def sign(self, pod: PodInfo) -> Hashable:
        return sign(pod)

    def has_version(self, pod: PodInfo) -> bool:
        demand = self._compiler.compile(pod)
        return (isinstance(demand, CompiledDemand) and demand.amounts_only) or any(
            other.wants(pod) and other.has_version(pod) for other in self.versioned_others
        )

    def version(self, pod: PodInfo) -> Hashable:
        """Return whether a pod that asks for amounts only has to be filtered, because some nodes have a policy; and others' versions."""
        demanding = self._table.demanding > 0
        if not self.versioned_others:
            return demanding
        return (demanding, *[other.version(pod) for other in self.versioned_others if other.has_version(pod) and other.wants(pod)])

    def reads_rows_alone(self, pod: PodInfo) -> bool:
        return all(other.reads_rows_alone(pod) for other in self.versioned_others if other.wants(pod))

    def has_score_version(self, pod: PodInfo) -> bool:
        return False

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        demand = self._compiler.compile(pod)
        if demand is None:
            return SKIP
        if isinstance(demand, Status):
            return demand
        state.write(PRE_FILTER_STATE, demand)
        state.write(OTHERS_STATE, self.topology_manager.others(self, pod))
        return SKIP if demand.amounts_only and not self._table.demanding else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        demand: CompiledDemand = state.read(PRE_FILTER_STATE)
        source = self._source(state, pod)
        if source is None and demand.designated is None and self._others(state, pod):
            return self._filter.checked_codes(demand, nodes, self._checking(state, pod))
        return self._filter.codes(demand, nodes, source)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self._explain(state, pod, state.read(PRE_FILTER_STATE), code)

    def _explain(self, state: CycleState, pod: PodInfo, demand: CompiledDemand, code: int) -> Status:
        of_other = source_code_of(code)
        if not of_other:
            return self._filter.explain(demand, code)
        (other,) = self._others(state, pod)
        refusal = other.explain_hint(state, pod, of_other)
        return unschedulable(refusal.message) if reason_of(code) is NumaReason.HINTS_REFUSED else refusal

    def aligned(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Aligned | None:
        demand: CompiledDemand | None = state.read(PRE_FILTER_STATE)
        return None if demand is None else self._filter.aligned(demand, nodes)

    def alignment(self, state: CycleState, pod: PodInfo) -> NumaAlignment | None:
        demand: CompiledDemand | None = state.read(PRE_FILTER_STATE)
        return None if demand is None or demand.designated is not None else NumaAlignment(self._table, demand.request)

    def removal_filter(self, state: CycleState, pod: PodInfo, victims: PodIndex) -> RemovalFilter | None:
        demand: CompiledDemand = state.read(PRE_FILTER_STATE)
        if demand.designated is not None:
            return None
        others, holdings = self._others(state, pod), self._numa.holdings(victims)
        if not others:
            return NumaRemovals(holdings, demand.request)
        source = self._source(state, pod)
        followed = others[0].removal_filter(state, pod, victims) if isinstance(others[0], FilterNodesPlugin) else None
        if source is None or followed is None:
            return None
        return NumaRemovals(holdings, demand.request, self._args.scoring, source, (followed,))

    def masks(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Masks | None:
        demand: CompiledDemand | None = state.read(PRE_FILTER_STATE)
        if demand is None:
            return None
        source = self._source(state, pod)
        if source is None:
            return self._filter.checked_masks(demand, nodes, self._checking(state, pod))
        return self._filter.masks(demand, nodes, source)

    def _checking(self, state: CycleState, pod: PodInfo) -> Callable[[NodeInfo, Machine], NumaAffinity | Status]:
        return partial(self.topology_manager.check, state, pod)

    def _others(self, state: CycleState, pod: PodInfo) -> Sequence[NumaHintProvider]:
        """Return the other providers that have hints for the pod, worked out here where the plugin's PreFilter does not run."""
        found: Sequence[NumaHintProvider] | None = state.read(OTHERS_STATE)
        return self.topology_manager.others(self, pod) if found is None else found

    def _source(self, state: CycleState, pod: PodInfo) -> NumaHintSource | None:
        """Return the hints of the one other provider that has some, if kernels can ask for them."""
        others = self._others(state, pod)
        return others[0].hint_source(state, pod) if len(others) == 1 else None

    def _demand(self, state: CycleState, pod: PodInfo) -> CompiledDemand | None:
        """Return the pod's demand, compiled here where the plugin scores, reserves or gives hints and does not filter."""
        found: CompiledDemand | None = state.read(PRE_FILTER_STATE)
        if found is not None:
            return found
        demand = self._compiler.compile(pod)
        if isinstance(demand, Status):
            raise PluginError(demand.with_plugin(self.name), FILTER.label)
        return demand

    def _refusal(self, pod: PodInfo, node_name: str) -> Status | None:
        """Return why the pod cannot go to one node now, other plugins' hints aside."""
        node, demand = self._cache.node(node_name), self._compiler.compile(pod)
        if node is None or demand is None:
            return GONE
        if isinstance(demand, Status):
            return demand
        code = int(self._filter.codes(demand, self._cache.select(np.array([node.row], np.int32)))[0])
        return self._filter.explain(demand, code) if code else None

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None if pod.resources.requests else SKIP

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        demand = self._demand(state, pod)
        return None if demand is None else self._filter.scores(demand, nodes, self._source(state, pod))

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Give the pod its exact part of the node."""
        demand = self._demand(state, pod) if pod.resources.requests else None
        if demand is None or (demand.amounts_only and not self._table.demanding):
            return None
        placeholder = self._cache.credits.drawn_from(pod.uid)
        if placeholder is not None:
            with self._lent(pod, (placeholder,)):
                return self._reserve(state, pod, demand, node_name, placeholder)
        adopted = list(self._cache.credits.drawers(pod.uid)) if pod.reservation is not None else []
        if adopted:
            return self._reserve_around(state, pod, demand, node_name, adopted)
        if is_ignoring_reservations(pod.pod.metadata.labels):
            node = self._cache.node(node_name)
            with self._lent(pod, () if node is None else [uid for uid in node.pods if self._cache.credits.is_placeholder(uid)]):
                return self._reserve(state, pod, demand, node_name)
        return self._reserve(state, pod, demand, node_name)

    @contextmanager
    def _lent(self, pod: PodInfo, uids: Sequence[str]) -> Iterator[None]:
        """Let these reservations, or pods that one takes over, hold nothing, as far as the other providers' hints for the pod go, too."""
        lending: list[NumaState | NumaHintProvider] = [self._numa, *self.topology_manager.others(self, pod)]
        for each in lending:
            for uid in uids:
                each.lend(uid)
        try:
            yield
        finally:
            for each in lending:
                for uid in uids:
                    each.share(uid)

    def _reserve_around(
        self, state: CycleState, pod: PodInfo, demand: CompiledDemand, node_name: str, adopted: Sequence[str]
    ) -> Status | None:
        """Give a reserve pod its part with all CPUs of the pods that its Reservation takes over: they keep them, it holds the rest."""
        cpus = 0
        for uid in adopted:
            held = self._numa.held_by(uid)
            cpus |= 0 if held is None else held.cpus
        with self._lent(pod, (*adopted, pod.uid)):
            allocated = self._allocate(state, pod, demand, node_name, preferred=cpus)
            if allocated is None or isinstance(allocated, Status):
                return allocated
            if allocated.cpus and cpus & ~allocated.cpus:
                return unschedulable(f"Reservation(s) {NOT_ENOUGH_CPUS}")
            self._keep(state, pod, demand, node_name, allocated)
            self._numa.lend_all(pod.uid)
        return None

    def _reserve(
        self, state: CycleState, pod: PodInfo, demand: CompiledDemand, node_name: str, reservation: str | None = None
    ) -> Status | None:
        """Give the pod its part. reservation: the one that it was given, which lends."""
        allocated = self._allocate_from(state, pod, demand, node_name, reservation)
        if allocated is None or isinstance(allocated, Status):
            return allocated
        self._keep(state, pod, demand, node_name, allocated)
        return None

    def _allocate_from(
        self, state: CycleState, pod: PodInfo, demand: CompiledDemand, node_name: str, reservation: str | None
    ) -> AllocatedResources | Status | None:
        """Return what the pod gets of the node, the CPUs of its reservation first; of one that is Restricted and has some, no others."""
        left = None if reservation is None else self._numa.left(reservation)
        if reservation is None or left is None:
            return self._allocate(state, pod, demand, node_name)
        only = bool(left.cpus) and self._numa.is_restricted(reservation)
        allocated = self._allocate(state, pod, demand, node_name, preferred=left.cpus, only=only)
        if isinstance(allocated, Status) and allocated.rejected and RESERVATION_AFFINITY in pod.pod.metadata.annotations:
            return of_reservation(allocated)
        return allocated

    def _allocate(
        self, state: CycleState, pod: PodInfo, demand: CompiledDemand, node_name: str, *, preferred: int = 0, only: bool = False
    ) -> AllocatedResources | Status | None:
        """Return what the pod gets of the node as it is. preferred: CPUs that it gets before others. only: it gets no others."""
        on_node = self._allocator.on_node(demand, node_name)
        if isinstance(on_node, Status):
            return on_node
        cpus = on_node.node.cpus
        if preferred:
            preferred &= 0 if cpus is None else cpus.free()  # a pod that ignores reservations may have some of them
        on_node.preferred, on_node.only_preferred = preferred, only
        with self._numa.offering(node_name, preferred) if only else AS_IT_IS:
            return self._allocator.allocate(demand, on_node, lambda: self._choose_numa_nodes(state, pod, demand, on_node))

    def _keep(self, state: CycleState, pod: PodInfo, demand: CompiledDemand, node_name: str, allocated: AllocatedResources) -> None:
        state.write(RESERVE_STATE, Reserved.of(demand, allocated))
        self._numa.reserve(node_name, self._allocator.record(pod, demand, allocated))

    def _choose_numa_nodes(self, state: CycleState, pod: PodInfo, demand: CompiledDemand, on_node: NodeDemand) -> int | Status | None:
        source, node_name = self._source(state, pod), on_node.node.name
        if source is None and not self._others(state, pod):
            merged = on_node.view.affinity()
            return merged_status(merged) or merged.mask
        node = self._cache.node(node_name)
        if node is None:
            return error(f'node "{node_name}" not found')
        if source is None or on_node.numa_policy not in STRICT:
            answer = self.topology_manager.admit(state, pod, node, on_node.view.machine)
            return answer.mask if isinstance(answer, NumaAffinity) else answer
        code, mask = self._filter.affinity(demand, node.row, source)
        if code:
            return self._explain(state, pod, demand, code)
        self.topology_manager.keep(state, node_name, NumaAffinity(mask or None))
        return mask or None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        if state.read(RESERVE_STATE) is not None:
            self._numa.release(pod.uid)

    # Which reservations suit a pod

    def allocates_for(self, pod: PodInfo) -> bool:
        demand = self._compiler.compile(pod) if pod.resources.requests else None
        return isinstance(demand, CompiledDemand) and (not demand.amounts_only or bool(self._table.demanding))

    def is_held_by(self, reservation: str) -> bool:
        return self._numa.is_reserved(reservation)

    def lending(self, reservation: str | None, others: Sequence[str]) -> AbstractContextManager[None]:
        return self._numa.lending(reservation, others)

    def filter_reservation(self, state: CycleState, pod: PodInfo, node_name: str, reservation: str | None) -> Status | None:
        demand = self._demand(state, pod)
        allocated = None if demand is None else self._allocate_from(state, pod, demand, node_name, reservation)
        return allocated if isinstance(allocated, Status) else None

    def reserved_source(self, state: CycleState, pod: PodInfo) -> ReservedCpus | None:
        demand, numa = self._demand(state, pod), self._numa
        if demand is None or demand.designated is not None:
            return None
        answers = AlignmentAnswers(
            state,
            pod,
            self.topology_manager.others(self, pod),
            strategy_on=self._allocator.strategy_on,
            explain=partial(self._explain, state, pod, demand),
            codes=self._reserved_refusals,
        )
        return ReservedCpus(
            self._table,
            demand.request,
            self._args.scoring,
            demand.demand.exclusive,
            self._cache.infos,
            numa,
            answers,
            demanded=RESERVATION_AFFINITY in pod.pod.metadata.annotations,
        )

    def explain_reserved(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return explain_reserved(self._reserved_refusals, code)

    # PreBind

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if state.read(RESERVE_STATE) is not None:
            return None
        annotations = pod.pod.metadata.annotations
        return None if annotations and RESOURCE_STATUS in annotations else SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Write what the pod was allocated; what a failed attempt has left is removed, or it would count as allocated."""
        reserved: Reserved | None = state.read(RESERVE_STATE)
        annotate(state, {RESOURCE_STATUS: None} if reserved is None else reserved.annotations(pod))
        return None

    # Hints for the topology manager

    def wants(self, pod: PodInfo) -> bool:
        return bool(pod.resources.requests)

    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        demand = self._demand(state, pod)
        on_node = None if demand is None else self._allocator.on_node(demand, node.name)
        if on_node is None or isinstance(on_node, Status):
            return on_node or {}
        return on_node.view.hints() if on_node.node.zones else MISSING_ZONES

    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        demand = self._demand(state, pod)
        on_node = None if demand is None else self._allocator.on_node(demand, node.name)
        if demand is None or on_node is None or isinstance(on_node, Status):
            return on_node if isinstance(on_node, Status) else None
        allocated = self._allocator.from_zones(demand, on_node, affinity.mask)
        return allocated if isinstance(allocated, Status) else None

    # Events, HTTP

    def events_to_register(self) -> Sequence[EventHint]:
        return (*NumaHints(self._refusal).events(), *self.topology_manager.events_of_others(self))

    def routes(self) -> Sequence[Route]:
        return (Route("nodes/:nodeName", self._show),)

    def _show(self, named: Mapping[str, str]) -> Answer:
        name = named["nodeName"]
        if self._cache.node(name) is None:
            return refusal(SERVER_ERROR, f'node "{name}" not found')
        node = self._numa.node(name)
        return describe(node, node.numa_policy(pod_level=self._numa.pod_level))
