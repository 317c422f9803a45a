"""Reservation: owners find free what is reserved for them, and are given it; strangers find it taken (reservation.md).

Strangers need no plugin for that: what is left of reservations is counted on its nodes (`ReservationState`). Here is what concerns owners,
and which nodes a reserve pod may go to. Reference: plugins/reservation of Koordinator v1.8.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from koordsched._core.change import NodeChange
from koordsched._core.reservations import Shortages
from koordsched.api.koordinator.operating_pods import OPERATING_MODE, is_operating
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_text
from koordsched.api.koordinator.reserve_pods import RESERVATION_NODE
from koordsched.cluster.event_series import EventText
from koordsched.framework.controllers import Controller, ControllersPlugin
from koordsched.framework.cycle_state import annotate
from koordsched.framework.interface import (
    BindReservationPlugin,
    CreditPlugin,
    FailureEventPlugin,
    FilterNodesPlugin,
    Normalize,
    PostFilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ReservePlugin,
    ScoreNodesPlugin,
)
from koordsched.framework.reservation_filters import ReservationNominatorPlugin
from koordsched.framework.routes import Route, RoutesPlugin
from koordsched.framework.shape import columns_key, signed_owner
from koordsched.framework.status import SKIP, Code, Status, error, unschedulable
from koordsched.plugins.reservation.adoption import Adoption
from koordsched.plugins.reservation.diagnosis import reservation_reasons, without_nodes
from koordsched.plugins.reservation.info import ALIGNED
from koordsched.plugins.reservation.links import ReservationLinks
from koordsched.plugins.reservation.nomination import UNSUITED, Prepared, ReservationChoice
from koordsched.plugins.reservation.objects import reservation_objects
from koordsched.plugins.reservation.preallocation import NEW_CANDIDATES, helps_to_pre_allocate
from koordsched.plugins.reservation.preemption import ReservationPreemption
from koordsched.plugins.reservation.reasons import (
    NO_MATCH,
    NO_RESERVATION_FITS,
    NOT_PINNED,
    POLICY_CONFLICT,
    amounts,
    short_node,
    short_reservation,
)
from koordsched.plugins.reservation.state import CreditOwner, reservation_state
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.koordinator_args import ReservationArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Flags, PostFilterResult, Scores
    from koordsched.framework.reservation_filters import ReservationFilters
    from koordsched.plugins.reservation.matching import Matcher
    from koordsched.plugins.reservation.preallocation import PreAllocatorName

PLUGIN = "Reservation"
PREPARED = "PreFilterReservation"  # the Prepared of a pod that matches reservations
PREFERRED = "PreScoreReservation"  # the row of the reservation with the smallest order, -1 where none has one
WRITTEN = "PreBindReservation"  # the uid of the reservation in the annotation of this pod
RESERVE_POD_REASONS = (NOT_PINNED, POLICY_CONFLICT)  # by code, from 1 on
OPERATING_CONFLICT = 1 << 30  # the code of POLICY_CONFLICT for pods in operating mode, whose other codes are those of `Shortages`
PREFERRED_SCORE = 1000
NO_ROW = -1


class ReservationPlugin(
    CreditPlugin,
    ReservationNominatorPlugin,
    PreFilterPlugin,
    FilterNodesPlugin,
    PostFilterPlugin,
    FailureEventPlugin,
    PreScorePlugin,
    ScoreNodesPlugin,
    ReservePlugin,
    PreBindPlugin,
    BindReservationPlugin,
    ControllersPlugin,
    RoutesPlugin,
):
    name = PLUGIN
    reads = NodeChange.USAGE | NodeChange.CAPACITY
    takes_time = False
    pre_binds_reservations = True
    normalize = Normalize.DEFAULT
    normalizes_reservations = False
    depends_on_feasible = True

    def __init__(self, args: ReservationArgs, handle: Handle) -> None:
        self._handle = handle
        self._cache = handle.cache
        self._state = reservation_state(handle)
        self._choice = ReservationChoice(handle.cache, self._state)
        self._links = ReservationLinks(handle)
        self._objects = reservation_objects(handle, args)
        self._adoption = Adoption(handle, args.pre_allocation_config, self._state, self._links)
        self._preemption = ReservationPreemption(self.name, args, handle) if args.enable_preemption else None
        self._no_shortages = Shortages()  # of pods that fit with the reservation that they name
        self.post_filters_reservations = args.enable_preemption

    def use_reservation_filters(self, filters: ReservationFilters) -> None:
        self._choice.filters = filters
        self.reads |= filters.reads

    # What is read of pods

    def owner_of(self, pod: PodInfo) -> CreditOwner | PreAllocatorName | None:
        return self._state.owner_of(pod) if pod.reservation is None else self._adoption.owner_of(pod)

    def sign(self, pod: PodInfo) -> Hashable:
        """Return what is read of reserve pods: of other pods all is in the owner of their credits, and in their requests."""
        reservation = pod.reservation
        signed: Hashable
        if reservation is None:
            signed = pod.resources if self._state.owner_of(pod) is not None else None
        else:
            signed = pod.resources, pod.pod.metadata.annotations.get(RESERVATION_NODE), reservation.spec.allocate_policy
        if pod.pod.metadata.labels and is_operating(pod.pod):
            signed = signed, OPERATING_MODE
        return signed if self._preemption is None else (signed, pod.pod.spec.preemption_policy)

    def has_version(self, pod: PodInfo) -> bool:
        return False

    def depends_on_feasible_for(self, pod: PodInfo) -> bool:
        """Only an order lets what one node scores depend on others. When it changes, credits are renewed."""
        if pod.reservation is not None:
            return True
        matcher = self._matcher(pod)
        return matcher is not None and matcher.ordered > 0

    def alike(self, owner: Hashable) -> Hashable | None:
        if not isinstance(owner, CreditOwner):
            return None
        demand = owner.matcher.demand
        return None if demand.ignores else ("named",) if demand.name else ("owners", demand.required)

    def may_share(self, owner: Hashable) -> bool:
        return not cast("CreditOwner", owner).matcher.ordered

    def names_placeholder(self, owner: Hashable) -> bool:
        return cast("CreditOwner", owner).matcher.demand.name != ""

    def named_placeholder(self, owner: Hashable) -> str | None:
        """Return the uid of the reservation, unless it is a pod in operating mode, which may stand beside a Reservation of the name."""
        matched = cast("CreditOwner", owner).matcher.matched
        if len(matched) != 1:
            return None
        (info,) = matched.values()
        return None if info.operating else info.uid

    def fits_named(self, state: CycleState, pod: PodInfo, owner: Hashable, row: int) -> bool:
        matcher = cast("CreditOwner", owner).matcher
        (info,) = matcher.matched.values()
        request = self._cache.columns.request(pod.resources)
        node, inside = self._state.table.fits(info.slot, request, row, counted=False)
        if node or inside or is_operating(pod.pod):
            return False
        state.write(PREPARED, Prepared(matcher, request, pod.resources.requests, self._no_shortages))
        return True

    def _matcher(self, pod: PodInfo) -> Matcher | None:
        shown = self._cache.credits.shown
        if shown is not None and pod.reservation is None:
            return self._state.matcher(str(shown.owner))
        owner = self._state.owner_of(pod)
        return None if owner is None else owner.matcher

    # PreFilter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        if pod.reservation is not None:
            return self._adoption.pre_filter(state, pod)
        matcher = self._matcher(pod)
        none = None if is_operating(pod.pod) else SKIP
        if matcher is None:
            return none
        if matcher.error:
            return error(matcher.error)
        if not matcher.matched:
            return NO_MATCH if matcher.demand.required else none
        known: Prepared | None = state.read(PREPARED)  # of another owner with whom columns are shared: they hold codes of its shortages
        shortages = Shortages() if known is None else known.shortages
        state.write(PREPARED, Prepared(matcher, self._cache.columns.request(pod.resources), pod.resources.requests, shortages))
        if not matcher.demand.required:
            return None
        return PreFilterResult(frozenset([info.node_name for info in matcher.matched.values()]))

    # Filter

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        if pod.reservation is not None:
            return self._filter_for_reservation(state, pod, nodes)
        prepared: Prepared | None = state.read(PREPARED)
        codes = None
        if prepared is not None and not prepared.matcher.demand.ignores:
            matcher, tag = prepared.matcher, self._tag(prepared.matcher)
            codes = self._state.table.filter(
                prepared.request, nodes.rows, self._state.pairs(matcher), prepared.shortages, tag, required=matcher.demand.required
            )
            self._choice.check(state, pod, prepared, nodes, codes)
        if is_operating(pod.pod):
            codes = np.zeros(len(nodes.rows), np.int32) if codes is None else codes
            codes[self._conflicting(ALIGNED, nodes)] = OPERATING_CONFLICT
        return codes

    def _conflicting(self, policy: str, nodes: Nodes) -> Flags:
        """Return on which rows there are reservations of a policy beside which this one must not be."""
        return np.isin(nodes.rows, self._state.conflict_rows(policy))

    def _tag(self, matcher: Matcher) -> int:
        """Return a number that stands for the amounts that a reason names, where the pod names its reservation."""
        if not matcher.demand.name:
            return 0
        return sum(hash((name, amount)) for info in matcher.matched.values() for name, amount in info.allocated.items()) & 0x7FFFFFFF

    def _filter_for_reservation(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        """Keep a reserve pod to the node that its template names, and from nodes with reservations of another policy.

        And from those where the pods that it may take over leave it no room.
        """
        found = self._adoption.codes(state, nodes)
        codes = np.zeros(len(nodes.rows), np.int32) if found is None else np.where(found, found + len(RESERVE_POD_REASONS), 0)
        assert pod.reservation is not None
        codes[self._conflicting(pod.reservation.spec.allocate_policy, nodes)] = 2
        pinned = pod.pod.metadata.annotations.get(RESERVATION_NODE)
        if pinned:
            node = self._cache.node(pinned)
            codes[nodes.rows != (NO_ROW if node is None else node.row)] = 1
        return codes

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags | None:
        """Return the rows with reservations of the pod, whose owners matter. No pod does for a reserve pod, unless it takes pods over."""
        if pod.reservation is not None:
            return None if self._adoption.is_scored(state) else np.zeros(len(nodes.rows), np.bool_)
        prepared: Prepared | None = state.read(PREPARED)
        if prepared is None:
            return np.zeros(len(nodes.rows), np.bool_)
        return np.isin(nodes.rows, self._state.pairs(prepared.matcher).rows)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        if pod.reservation is not None:
            others = len(RESERVE_POD_REASONS)
            return RESERVE_POD_REASONS[code - 1] if code <= others else self._adoption.explain(state, code - others)
        if code == OPERATING_CONFLICT:
            return POLICY_CONFLICT
        if code & UNSUITED:
            return self._choice.explain(code)
        prepared: Prepared = state.read(PREPARED)
        short_nodes, short, _ = prepared.shortages.of(code)
        if not short_nodes and not short:
            return NO_RESERVATION_FITS if prepared.matcher.matched else NO_MATCH
        names = list(enumerate(prepared.request.names))
        reasons = sorted(short_node(name) for bit, name in names if short_nodes >> bit & 1)
        reasons += [self._short_reservation(prepared, name) for bit, name in sorted(names, key=_pods_first) if short >> bit & 1]
        return unschedulable(*reasons)

    def _short_reservation(self, prepared: Prepared, resource: str) -> str:
        text, matcher = short_reservation(resource), prepared.matcher
        named = next(iter(matcher.matched.values()), None) if matcher.demand.name else None
        if named is None:
            return text
        capacity = named.allocatable.get(resource, 0) - named.reserved.get(resource, 0)
        if resource == "pods":
            return text + amounts(1, len(named.owners), capacity)
        return text + amounts(prepared.requests.get(resource, 0), named.allocated.get(resource, 0), capacity)

    # PostFilter

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        """Preempt for the pod where that is enabled; else, and where it does not help, say why its reservations are of no use to it."""
        if self._preemption is None:
            return None, self._useless_reservations(pod, diagnosis)
        result, refusal = await self._preemption.preempt(pod, diagnosis)
        return result, None if refusal is None else self._with_reservations(refusal, pod, diagnosis)

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        return self._preemption is not None and self._preemption.may_help(pod, diagnosis)

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        if self._preemption is None:
            return self._useless_reservations(pod, diagnosis)
        refusal = self._preemption.expected_refusal(pod, diagnosis)
        return None if refusal is None else self._with_reservations(refusal, pod, diagnosis)

    def _with_reservations(self, refusal: Status, pod: PodInfo, diagnosis: Diagnosis) -> Status:
        """Add what happened to the pod's reservations to what preemption says, unless that is the last word."""
        if refusal.code is not Code.UNSCHEDULABLE:
            return refusal
        return Status(Code.UNSCHEDULABLE, (*refusal.reasons, *self._useless_reservations(pod, diagnosis).reasons))

    def _useless_reservations(self, pod: PodInfo, diagnosis: Diagnosis) -> Status:
        matcher = self._matcher(pod)
        if matcher is None:
            return Status(Code.UNSCHEDULABLE)
        rows = {name: node.row for info in matcher.matched.values() if (node := self._cache.node(name := info.node_name)) is not None}
        return Status(Code.UNSCHEDULABLE, tuple(reservation_reasons(self._state, matcher, diagnosis, rows)))

    def failure_event(self, pod: Pod, message: str) -> EventText | None:
        """Say of a pod that needs a reservation what keeps it from those that it could own, without what keeps it from nodes."""
        text = without_nodes(message) if RESERVATION_AFFINITY in pod.metadata.annotations else None
        return None if text is None else EventText("Warning", "FailedScheduling-Reservation", "Scheduling", text)

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if pod.reservation is not None:
            return None if self._adoption.is_scored(state) else SKIP
        prepared: Prepared | None = state.read(PREPARED)
        if prepared is None or prepared.matcher.demand.ignores:
            return SKIP
        state.write(PREFERRED, self._state.table.first_by_order(nodes.rows, self._state.pairs(prepared.matcher)))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        if pod.reservation is not None:
            return self._adoption.scores(state, nodes)
        prepared: Prepared = state.read(PREPARED)
        matcher = prepared.matcher
        scores = self._state.table.scores(prepared.request, nodes.rows, self._state.pairs(matcher), required=matcher.demand.required)
        preferred: int = state.read(PREFERRED)
        if preferred != NO_ROW:
            scores[nodes.rows == preferred] = PREFERRED_SCORE
        return scores

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Choose the reservation of an owner, and let the owner draw on it: other plugins reserve on what is left."""
        if pod.reservation is not None:
            return self._adoption.reserve(state, pod, node_name)
        prepared: Prepared | None = state.read(PREPARED)
        if prepared is None or prepared.matcher.demand.ignores:
            return None
        matcher, row = prepared.matcher, self._cache.row_of(pod.uid)
        chosen = None if row is None else self._choice.nominate(state, pod, prepared, row, node_name)
        if chosen is None:
            return NO_MATCH if matcher.demand.required else None
        refusal = self._state.draw(pod, chosen.uid)
        return None if refusal is None else error(refusal)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        if pod.reservation is not None:
            self._adoption.unreserve(state, pod)
            return
        self._state.end_draw(pod.uid)
        written: str | None = state.read(WRITTEN)
        if written is not None:
            self._handle.spawn(self._links.remove(pod.pod, written))

    # PreBind

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if pod.reservation is not None:
            return None if self._adoption.has_links_to_write(state, pod) else SKIP
        if self._state.reservation_of(pod.uid) is not None or RESERVATION_ALLOCATED in pod.pod.metadata.annotations:
            return None
        return SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Note which reservation the pod was given: from then on the annotation says so, whatever becomes of this process.

        What an attempt has left that failed is removed.
        """
        if pod.reservation is not None:
            return await self._adoption.pre_bind(state, pod, node_name)
        info = self._state.reservation_of(pod.uid)
        annotate(state, {RESERVATION_ALLOCATED: None if info is None else allocated_text(info.name, info.uid)})
        if info is not None:
            state.write(WRITTEN, info.uid)
        return None

    # Bind

    async def bind_reservation(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return await self._objects.binder.bind(pod, node_name)

    # Beside the cycle

    def controllers(self) -> Sequence[Controller]:
        return (Controller("status of Reservations", self._objects.controller.run),)

    def routes(self) -> Sequence[Route]:
        return (Route("nodeReservations/:nodeName", self._objects.endpoint.on_node),)

    def events_to_register(self) -> Sequence[EventHint]:
        changes = ActionType.ADD | ActionType.UPDATE_OTHER | ActionType.DELETE
        return (
            EventHint(cluster_event(EventResource.POD, ActionType.DELETE)),
            EventHint(NEW_CANDIDATES, helps_to_pre_allocate),
            EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE), helps_to_pre_allocate),
            EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
            EventHint(
                cluster_event(EventResource.CUSTOM, changes, "reservations.scheduling.koordinator.sh"), self._may_help, selective=True
            ),
            *self._choice.filters.events(),
        )

    def _may_help(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when a Reservation changed that the pod may own, or that may be in its way; that it ends may be in the way of any."""
        if new is None or pod.reservation is not None or is_operating(pod.pod):
            return QueueingHint.QUEUE
        key = columns_key(pod.shape)
        owner = self._state.owner_of(pod) if key is None else cast("CreditOwner | None", signed_owner(key))
        return QueueingHint.QUEUE if owner is not None and self._state.may_match(owner.matcher, new.metadata.uid) else QueueingHint.SKIP


def _pods_first(item: tuple[int, str]) -> tuple[bool, str]:
    """Order the reasons of a reservation: too many pods, then resources by name."""
    return item[1] != "pods", item[1]
