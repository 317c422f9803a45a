"""The way of a Reservation that takes over running pods, step by step (pre-allocation, reservation.md §5, §13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koordsched.api.kinds import RESERVATION
from koordsched.cluster.event_series import EventText
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.status import Status, error
from koordsched.plugins.reservation.preallocation import PreAllocations
from koordsched.plugins.reservation.reasons import NO_CANDIDATE_FITS, NO_CANDIDATES, UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.koordinator_args import PreAllocationConfig
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores
    from koordsched.plugins.reservation.links import ReservationLinks
    from koordsched.plugins.reservation.preallocation import PreAllocator, PreAllocatorName
    from koordsched.plugins.reservation.state import ReservationState

ALLOCATOR = "PreFilterPreAllocation"  # the PreAllocator of a reserve pod
ADOPTED = "ReservePreAllocation"  # the Adopted of this reserve pod
CONSUMED_AT_ONCE = EventText(
    "Warning",
    "PreAllocationAllocatesOnce",
    "Scheduling",
    "allocateOnce is true: with the pod that it has taken over the Reservation has succeeded, and holds nothing for others",
)


class Adopted(NamedTuple):
    """The pods that a reserve pod's Reservation has taken over, and those of them that may have been given the annotation."""

    pods: list[PodInfo]
    written: list[PodInfo]


class Adoption:
    """What is asked about reserve pods of such Reservations in one profile."""

    def __init__(self, handle: Handle, config: PreAllocationConfig, state: ReservationState, links: ReservationLinks) -> None:
        self._handle = handle
        self._config = config
        self._cache = handle.cache
        self._state = state
        self._links = links
        self._reservations: Mapping[str, Reservation] = handle.informer(RESERVATION).store

        def make() -> PreAllocations:
            allocations = PreAllocations(handle, state.nodes)
            state.relabelled.append(allocations.match_again)
            return allocations

        self._allocations = handle.cache.shared.one(PreAllocations, make)
        self._allocations.expect(config)

    def owner_of(self, pod: PodInfo) -> PreAllocatorName | None:
        return self._allocations.owner_of(pod, self._config)

    # Scheduling

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None:
        assert pod.reservation is not None
        if not pod.reservation.spec.pre_allocation:
            return None
        problem = self._allocations.problem_of(pod, self._config)
        name = self.owner_of(pod)
        if problem is not None or name is None:
            return problem
        allocator = name.allocator
        state.write(ALLOCATOR, allocator)
        if not allocator.required:
            return None
        return PreFilterResult(frozenset(allocator.node_names)) if allocator.has_candidates else NO_CANDIDATES

    def codes(self, state: CycleState, nodes: Nodes) -> Codes | None:
        """Return why the Reservation does not fit, node by node, as `explain` understands it; 0 where it does."""
        allocator: PreAllocator | None = state.read(ALLOCATOR)
        return None if allocator is None else allocator.table().filter(nodes.rows, allocator.shortages)

    def explain(self, state: CycleState, code: int) -> Status:
        allocator: PreAllocator = state.read(ALLOCATOR)
        return allocator.explain(code)

    def is_scored(self, state: CycleState) -> bool:
        allocator: PreAllocator | None = state.read(ALLOCATOR)
        return allocator is not None and allocator.has_candidates

    def scores(self, state: CycleState, nodes: Nodes) -> Scores:
        allocator: PreAllocator = state.read(ALLOCATOR)
        return allocator.table().scores(nodes.rows)

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Take over the pods: other plugins reserve on what they leave."""
        allocator: PreAllocator | None = state.read(ALLOCATOR)
        row = self._cache.row_of(pod.uid)
        if allocator is None or row is None:
            return None
        chosen = allocator.choose(row)
        if isinstance(chosen, Status):
            return chosen
        if not chosen:
            return NO_CANDIDATE_FITS if allocator.required else None
        self._state.adopt(pod, node_name, chosen)
        state.write(ADOPTED, Adopted(chosen, []))
        return None

    def unreserve(self, state: CycleState, pod: PodInfo) -> None:
        adopted: Adopted | None = state.read(ADOPTED)
        if adopted is None:
            return
        if self._state.end_adoption(pod.uid) and adopted.written:
            self._handle.spawn(self._links.take_back([owner.pod for owner in adopted.written], pod.uid))

    # PreBind

    def has_links_to_write(self, state: CycleState, pod: PodInfo) -> bool:
        return state.read(ADOPTED) is not None or bool(self._state.linked_to(pod.uid))

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Let each pod say whose it is, and no others: what an earlier attempt has written is removed first."""
        async with self._links.lock(pod.uid):
            return await self._write_links(state.read(ADOPTED) or Adopted([], []), pod, node_name)

    async def _write_links(self, adopted: Adopted, pod: PodInfo, node_name: str) -> Status | None:
        assert pod.reservation is not None
        meta = pod.reservation.metadata
        others = [owner.pod for owner in self._state.linked_to(pod.uid)]
        problem = await self._links.remove_all(others, pod.uid)
        if problem:
            return error(problem)
        for owner in adopted.pods:
            current = self._reservations.get(meta.name)
            if current is None or current.metadata.uid != pod.uid or not current.spec.pre_allocation:
                return error(*UNSUPPORTED.reasons)
            adopted.written.append(owner)
            problem = await self._links.write(owner.pod, meta.name, pod.uid, node_name, self._is_given)
            if problem:
                return error(problem)
        if adopted.pods and pod.reservation.spec.allocate_once:
            self._handle.event_on(pod.reservation, CONSUMED_AT_ONCE)
        return None

    def _is_given(self, uid: str) -> bool:
        """Answer whether there is such a Reservation on a node."""
        return uid in self._state.by_uid
