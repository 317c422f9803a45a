"""Coscheduling: pods of a gang are placed all together or not at all (coscheduling.md).

PreEnqueue      holds back all members while some are missing; then one of them, the representative, is queued for the whole group
GroupTurn       when the representative is popped, places as many members as every gang of the group needs in one turn, or none
                after a turn that was undone, makes room for all members by preemption, where `enablePreemption` says so
PostFilter      does that for pods that go alone
Permit          allows members that were placed together; one that got its node apart from the others waits for them
PreBind         writes to each pod which group it is bound with, and how many pods that are
PostBind        notes that the gang was placed once; whether that is enough for members that come later, its match policy says

Reference: plugins/coscheduling of Koordinator v1.8.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.config.duration import NANO, DurationError, parse_nanoseconds
from koordsched.framework.controllers import Controller, ControllersPlugin
from koordsched.framework.cycle_state import annotate
from koordsched.framework.interface import (
    AdmissionPlugin,
    GangNeeds,
    GangTurn,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    Question,
    ReservePlugin,
)
from koordsched.framework.preemption.engine import Outcome, PreemptionEngine
from koordsched.framework.preemption.job import Job
from koordsched.framework.routes import Answer, Route, RoutesPlugin, refusal
from koordsched.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from koordsched.framework.waiting import JOB_REJECTED
from koordsched.plugins.coscheduling.controller import PodGroupController
from koordsched.plugins.coscheduling.endpoint import GangView
from koordsched.plugins.coscheduling.gangs import NAME, Gang, gangs_of
from koordsched.plugins.coscheduling.gated import GatedConditions
from koordsched.plugins.coscheduling.preemption import PreemptionDurations, preemption_rules
from koordsched.plugins.coscheduling.reasons import GANG_NOT_FOUND, already_attempted, group_rejected, represented, unreserved
from koordsched.plugins.coscheduling.topology_attraction import selector_of
from koordsched.plugins.coscheduling.topology_aware import TopologyAware
from koordsched.queue.events import ActionType, ClusterEvent, EventHint, EventResource, QueueingHint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.config.koordinator_args import CoschedulingArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import GroupRefusal, PostFilterResult

WAIT = Status(Code.WAIT)
NO_PREEMPTION = Status(Code.UNSCHEDULABLE)
EVERY_EVENT = ClusterEvent(EventResource.WILDCARD, ActionType.ALL)

GROUP_ID = "scheduling.koordinator.sh/bind-gang-group-id"
MEMBER_COUNT = "scheduling.koordinator.sh/bind-gang-member-count"
INTERNAL_GROUP_ID, INTERNAL_MEMBER_COUNT = f"internal.{GROUP_ID}", f"internal.{MEMBER_COUNT}"
BOUND_TOGETHER = (GROUP_ID, MEMBER_COUNT, INTERNAL_GROUP_ID, INTERNAL_MEMBER_COUNT)


class Coscheduling(
    PreEnqueuePlugin,
    AdmissionPlugin,
    TopologyAware,
    PostFilterPlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    PostBindPlugin,
    ControllersPlugin,
    RoutesPlugin,
):
    name = NAME
    before_pre_filter = True
    takes_time = False
    pre_binds_reservations = True

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(handle, gangs_of(handle), aware=args.aware_network_topology)
        self._waiting_pods = handle.waiting_pods
        self._policy = args.default_match_policy
        self._timeout = args.default_timeout
        self._gated = handle.cache.shared.one(GatedConditions, lambda: GatedConditions(handle, self._gangs))
        self._engine = PreemptionEngine(handle, preemption_rules(self.name, self._gangs)) if args.enable_preemption else None
        self.preempts = self._engine is not None
        self._durations = handle.cache.shared.one(PreemptionDurations, lambda: PreemptionDurations(handle))
        handle.metrics.gauge_function(
            "scheduler_waiting_gang_group_number",
            "Gang groups of which members wait on Permit.",
            lambda: {"": float(sum(bool(group.waiting_on_permit) for group in self._gangs.groups.values()))},
        )

    def sign(self, pod: PodInfo) -> Hashable:
        return None if self._engine is None else pod.pod.spec.preemption_policy, selector_of(pod)

    def events_to_register(self) -> Sequence[EventHint]:
        """Return all events: any plugin may have refused the member for which its group failed.

        Members held back are moved by none: what may let them pass is announced, and a pod that waits for its victims is activated.
        """
        return (EventHint(EVERY_EVENT, self._may_help, gated=False),)

    def _may_help(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        if self._engine is not None and self._engine.pre_enqueue(pod) is not None:
            return QueueingHint.SKIP  # it waits for its victims; the engine activates it when they are gone
        gang = self._gangs.of(pod.uid)
        if gang is None:
            return QueueingHint.QUEUE
        held_back = gang.group.representative not in {"", pod.key} and not gang.goes_alone(self._policy)
        return QueueingHint.SKIP if held_back else QueueingHint.QUEUE

    # PreEnqueue, admission

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if self._engine is not None and (waiting := self._engine.pre_enqueue(pod)) is not None:
            return waiting
        gang = self._gangs.of(pod.uid)
        if gang is None or pod.key not in gang.ready:  # why a gated or terminating member waits, SchedulingGates or the cycle says
            return None
        if gang.goes_alone(self._policy):
            return None
        problem = self._gangs.why_incomplete(gang, pod.key)
        group = gang.group
        if problem:
            if group.representative == pod.key:
                group.representative = ""
            self._gated.report(pod, problem)
            return unresolvable(problem)
        if group.representative not in {"", pod.key} and gang.needed(self._policy) > 0:
            return unresolvable(represented(group.representative, group.id))
        group.representative = group.representative or pod.key
        return None

    def admit(self, pod: PodInfo) -> Status | None:
        gang = self._gangs.of(pod.uid)
        if gang is None or gang.goes_alone(self._policy):
            return SKIP
        problem = self._gangs.why_incomplete(gang, pod.key)
        return unresolvable(problem) if problem else None

    def admission_key(self, pod: PodInfo) -> Hashable | None:
        gang = self._gangs.of(pod.uid)
        return None if gang is None else gang.id

    def sign_admission(self, pod: PodInfo) -> Hashable:
        return ()

    # The turn of a group

    def group_turn(self, pod: PodInfo) -> Sequence[GangTurn] | None:
        gang = self._gangs.of(pod.uid)
        if gang is None:
            return None
        if self._gangs.why_incomplete(gang, pod.key):
            return self.turn_of_one(gang, pod) if gang.goes_alone(self._policy) else None
        turns: list[GangTurn] = []
        for each in self._gangs.in_group(gang.group):
            needed = each.needed(self._policy)
            if needed > 0 and each.spec is not None:
                turns.append(GangTurn(each.id, tuple(each.pending()), needed, each.spec.strict))
        return turns or self.turn_of_one(gang, pod)

    def group_refused(self, pod: PodInfo, refusal: GroupRefusal) -> str:
        gang = self._gangs.of(pod.uid)
        group = refusal.gang if gang is None else gang.group.id
        if gang is not None:
            gang.group.blocking = refusal.member
            gang.group.representative = pod.key  # it goes on standing for the group, though it may have had a node for a moment
        return group_rejected(group, refusal.member, refusal.quoted or refusal.message, refusal.placed)

    def question_of(self, pod: PodInfo) -> Question | None:
        gang = self._gangs.of(pod.uid)
        if gang is None or gang.goes_alone(self._policy):
            return None
        topology = None if gang.spec is None else gang.spec.topology
        return Question(gang.group.id, "" if topology is None else self.layer_to_gather_in(topology))

    def needs_of(self, pod: PodInfo) -> GangNeeds | None:
        gang = self._gangs.of(pod.uid)
        if gang is None or gang.spec is None or gang.goes_alone(self._policy):
            return None
        namespace, _, name = gang.id.partition("/")
        needed, alone = gang.needed(self._policy), len(gang.group.ids) == 1 and gang.spec.topology is None
        pending = tuple(gang.pending())
        return GangNeeds(name, namespace, gang.of_pod_group, gang.spec.min_available, len(gang.ready), needed, pending, alone)

    def members_of(self, question: str) -> Sequence[str]:
        groups = self._gangs.groups.get(tuple(question.split(",")))
        gangs = [self._gangs.by_id.get(question)] if groups is None else self._gangs.in_group(groups)
        return [key for gang in gangs if gang is not None for key in gang.members]

    def blocking_member(self, pod: PodInfo) -> str:
        gang = self._gangs.of(pod.uid)
        return "" if gang is None else gang.group.blocking

    # Preemption: for a group as a whole, or for a pod that goes alone

    def preempts_for_groups(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        return self._engine is not None and not diagnosis.admission_plugin and self._engine.may_help(pod, diagnosis)

    async def group_post_filter(
        self, pod: PodInfo, diagnosis: Diagnosis, members: Callable[[], Sequence[PodInfo]]
    ) -> tuple[PostFilterResult | None, Status | None]:
        if self._engine is None:
            return None, NO_PREEMPTION
        refusal = self._engine.refused_by_admission(pod, diagnosis)
        if refusal is not None:
            return None, refusal
        pods = members()
        return await self._timed(pod, self._engine.preempt_for_job(Job(pod, diagnosis, pods, self.regions_for(pod, pods))))

    def group_post_filtered(self, pod: PodInfo, message: str) -> str:
        return already_attempted(pod.key, message)

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        """Preempt for a pod that goes alone, where that is enabled; else leave it to the plugins behind this one."""
        refusal = self._why_no_preemption(pod, diagnosis)
        if refusal is not None or self._engine is None:
            return None, refusal
        return await self._timed(pod, self._engine.preempt(pod, diagnosis, diagnosis.total_nodes))

    async def _timed(self, pod: PodInfo, attempt: Awaitable[Outcome]) -> Outcome:
        """Return the outcome of a preemption, and observe how long it took."""
        gang, began = self._gangs.of(pod.uid), self._handle.clock.perf()
        outcome = await attempt
        self._durations.observe(pod.key if gang is None else gang.group.id, outcome[1], self._handle.clock.perf() - began)
        return outcome

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        return self._why_no_preemption(pod, diagnosis) is None and self._engine is not None and self._engine.may_help(pod, diagnosis)

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        refusal = self._why_no_preemption(pod, diagnosis)
        return self._engine.expected_refusal(pod, diagnosis) if refusal is None and self._engine is not None else refusal

    def _why_no_preemption(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        if self._engine is None:
            return NO_PREEMPTION
        gang = self._gangs.of(pod.uid)
        if gang is not None and any(each.needed(self._policy) > 0 for each in self._gangs.in_group(gang.group)):
            return NO_PREEMPTION  # it is preempted for the group as a whole
        return self._engine.refused_by_admission(pod, diagnosis)

    # Reserve, Permit

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        gang = self._gangs.of(pod.uid)
        if gang is not None:
            self._gangs.reserve(gang, pod.key)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        gang = self._gangs.of(pod.uid)
        if gang is None:
            return
        self._gangs.unreserve(gang, pod.key, pod.uid)
        if gang.group.waiting_on_permit and gang.spec is not None and gang.spec.strict and not gang.goes_alone(self._policy):
            self._reject_waiting(gang, unreserved(gang.id, pod.pod.metadata.name))

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        gang = self._gangs.of(pod.uid)
        if gang is None:
            return None, 0.0
        group = gang.group
        if pod.uid in group.binding:
            return None, 0.0
        if gang.spec is None:
            return unschedulable(GANG_NOT_FOUND), 0.0
        if any(each.needed(self._policy) > 0 for each in self._gangs.in_group(group)):
            group.waiting_on_permit.add(pod.uid)
            return WAIT, self._wait_seconds(gang)
        self._gangs.let_go(group)
        for uid in list(group.waiting_on_permit):
            waiting = self._waiting_pods.get(uid)
            if waiting is not None:
                waiting.allow(self.name)
        group.waiting_on_permit.clear()
        return None, 0.0

    def _wait_seconds(self, gang: Gang) -> float:
        return wait_nanoseconds(gang, self._timeout) / NANO

    def _reject_waiting(self, gang: Gang, message: str) -> None:
        """Reject all members of the group that wait on Permit."""
        uids, gang.group.waiting_on_permit = gang.group.waiting_on_permit, set()
        for uid in uids:
            waiting = self._waiting_pods.get(uid)
            if waiting is not None:
                waiting.reject(JOB_REJECTED, message)

    # PreBind, PostBind

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if self._gangs.of(pod.uid) is not None:
            return None
        annotations = pod.pod.metadata.annotations
        return None if annotations and any(key in annotations for key in BOUND_TOGETHER) else SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Write which group the pod was bound with and how many there are; what another binding wrote is removed."""
        gang = self._gangs.of(pod.uid)
        binding: frozenset[str] = frozenset() if gang is None else gang.group.binding
        if gang is not None and len(binding) > 1 and pod.uid in binding:
            of, count = gang.group.id, str(len(binding))
            annotate(state, {GROUP_ID: of, MEMBER_COUNT: count, INTERNAL_GROUP_ID: of, INTERNAL_MEMBER_COUNT: count})
        elif stale := [key for key in BOUND_TOGETHER if key in pod.pod.metadata.annotations]:
            annotate(state, dict.fromkeys(stale))
        return None

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        gang = self._gangs.of(pod.uid)
        if gang is not None:
            self._gangs.bind(gang, pod.key, pod.uid)

    # Controller, HTTP

    def controllers(self) -> Sequence[Controller]:
        groups = Controller("podgroups", PodGroupController(self._handle, self._gangs).run)
        return (groups, Controller("networktopology", self._topology.run)) if self._topology.enabled else (groups,)

    def routes(self) -> Sequence[Route]:
        return (
            Route("gang/:namespace/:name", self._show),
            Route("gangs", self._show_all),
        )

    def _view(self) -> GangView:
        return GangView(self._policy, lambda gang: wait_nanoseconds(gang, self._timeout))

    def _show(self, named: Mapping[str, str]) -> Answer:
        id = f"{named['namespace']}/{named['name']}"  # noqa: A001
        gang = self._gangs.by_id.get(id)
        return refusal(404, f"cannot find gang {id}") if gang is None else self._view().one(gang)

    def _show_all(self, _named: Mapping[str, str]) -> Answer:
        return self._view().all(self._gangs.by_id.values())


def wait_nanoseconds(gang: Gang, default_seconds: float) -> int:
    """Return how long a member waits on Permit: what its gang says where that is a duration above 0, else the default (in seconds)."""
    try:
        found = parse_nanoseconds(gang.spec.waiting) if gang.spec is not None and gang.spec.waiting else 0
    except DurationError:
        found = 0
    return found if found > 0 else round(default_seconds * NANO)
