"""The turn of a group: pods that are placed all together or not at all, in one turn of the scheduling loop (coscheduling.md §4).

    first member popped -> is there room at all? -> for each member: PreFilter .. Score, assume, Reserve -> enough of every gang: commit:
                              | no: one requeue                          |                                  each to Permit and binding
                                                                         |                                  else: undo, one requeue
                                                                         +-- the next member sees the ones before it as assumed

Whether quotas and slots are enough is known before anything is assumed (`group_demand`). Members that are not all alike and found no room
one after the other are tried once more where a search packs them (`group_packing`): small ones may have taken what large ones need.

The steps are those of a single pod (`cycle`). The other members stay in the queue, where they are, until the turn is committed; a turn that
is undone changes nothing there, and only the pod that was popped is requeued. An undone turn is rewound in the node table: reserved and
assumed pods are taken back, then the table's log and the versions of counts are what they were, so that no shape that had no part in the
turn is evaluated again. Nothing awaits in a turn but extenders; what others do meanwhile cannot be rewound, so a turn that asks extenders
is undone as single pods are. PostFilter is not run for a member, since evicting pods for it is in vain as long as the others fit nowhere:
when the turn is undone the group's plugin may make room for all of them (`GroupTurnPlugin.group_post_filter`).
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from koordsched.cache.cache import CacheError
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.group_plan import GroupPlanPlugin
from koordsched.framework.interface import GroupRefusal
from koordsched.framework.pod_diagnosis import names_of
from koordsched.framework.slots import NodeSlots, SlotCounter, pod_class
from koordsched.framework.status import Code, PluginError, Status, unresolvable, unschedulable
from koordsched.log import get_logger
from koordsched.queue.events import ASSIGNED_POD_DELETE, Scope
from koordsched.scheduler.attempt import Attempt
from koordsched.scheduler.explanations.attempts import GroupDiagnosis
from koordsched.scheduler.extenders.asking import ExtenderQuestion
from koordsched.scheduler.failure import UNSCHEDULABLE, Failure, bound_to
from koordsched.scheduler.group_demand import GroupDemand
from koordsched.scheduler.group_messages import GroupMessages
from koordsched.scheduler.group_packing import GroupPacking
from koordsched.scheduler.origins import PodStatusUpdate
from koordsched.scheduler.planned_group import FailedPlan, PlannedGroup, PlanState
from koordsched.scheduler.restricted_search import FIND_ONE_NODE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.interface import GangTurn, GroupTurnPlugin, PostFilterResult
    from koordsched.scheduler.binding_cycle import BindingCycles
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.explanations.attempts import AttemptDiagnoses
    from koordsched.scheduler.extenders.chain import ExtenderChain
    from koordsched.scheduler.failure import FailureHandler
    from koordsched.scheduler.origins import LivePods

log = get_logger(__name__)

MEMBERS_TO_CHECK = 8
"""A first turn of fewer members knows as soon whether there is room for them by placing them."""
TOO_FEW = "too few members can be tried"
UNPLANNED = Status(Code.UNSCHEDULABLE)
GONE = "the pod was deleted or bound by another scheduler meanwhile"


class Search(Protocol):
    """What the scheduling cycle does with one pod."""

    def search(self, attempt: Attempt) -> str | Diagnosis | ExtenderQuestion:
        """Return the node for the pod, why there is none, or what extenders have to be asked first. Raises what a plugin raises."""

    def failure_of(self, attempt: Attempt, error: Exception) -> Failure:
        """Return what is to be reported of a search that ended in an error."""


class GroupTurns:
    """Runs the turns of groups, one after the other."""

    def __init__(
        self,
        context: SchedulerContext,
        cycle: Search,
        binding: BindingCycles,
        failures: FailureHandler,
        *,
        pods: LivePods,
        extenders: ExtenderChain | None,
        diagnoses: AttemptDiagnoses,
    ) -> None:
        self.diagnoses = diagnoses
        self.context = context
        self.cycle = cycle
        self.binding = binding
        self.pods = pods
        self.extenders = extenders
        self._failures = failures

    async def run(self, first: Attempt, plugin: GroupTurnPlugin, gangs: Sequence[GangTurn]) -> bool:
        """Place the group of the popped pod, or nothing of it. False: the group has what it needs, the popped pod is still to be placed."""
        turn = GroupTurn(self, first, plugin.name)
        before, first.info.refused_turn = first.info.refused_turn, None
        try:
            refusal = await self._place(turn, plugin, gangs, before)
        except BaseException as error:
            turn.undo()
            if not isinstance(error, Exception):  # the scheduler stops while extenders are asked
                raise
            self._failures.handle(self.cycle.failure_of(first, error))
            return True
        if refusal is None:
            return turn.commit()
        taken = self._begin_diagnosis(turn, refusal, plugin, gangs) if self.diagnoses.is_on else None
        try:
            cause = plugin.group_refused(first.pod, refusal)
            result, preemption = await self._post_filter(turn, refusal, plugin, gangs, cause)
        except Exception as error:  # noqa: BLE001  # it is logged there
            self._failures.handle(self.cycle.failure_of(first, error))
            return True
        status = Status(turn.code, (cause,), plugin.name)
        members = [pod for gang in gangs for key in gang.members if (pod := turn.pending(key)) is not None]
        placed = turn.keys_left or {pod.key for pod in islice((pod for pod in members if pod.key != refusal.member), refusal.placed)}
        messages = GroupMessages(refusal, placed, self.context.cache.table.live_count, cause, preemption)
        if taken is not None and status.rejected:
            own, others = preemption
            self.diagnoses.end_group(taken, members, f"{cause} {others}" if others else cause, own)
        popped_failed = refusal.member == first.info.key
        failure = Failure(
            first.info,
            first.profile,
            messages.of(first.info.key) if status.rejected or popped_failed else cause,
            status=status,
            nominate=result if popped_failed else None,
            started=first.started,
            refusing=refusal.plugins,
        )
        self._failures.handle(failure)
        if status.rejected:
            self._write_conditions(first, members, messages)
        return True

    async def _place(
        self, turn: GroupTurn, plugin: GroupTurnPlugin, gangs: Sequence[GangTurn], before: object | None
    ) -> GroupRefusal | None:
        """Place as many members of each gang as it needs; return why that cannot be, with nothing placed. PluginError.

        before: what is known of the last turn of the group, if that was refused.
        """
        first, table = turn.first, self.context.cache.table
        if isinstance(plugin, GroupPlanPlugin) and plugin.has_plan(first.pod):
            table.begin_turn()
            refusal = await turn.place_as_planned(plugin, gangs, before)
            if refusal is not None:
                turn.undo()
            return refusal
        if sum(gang.needed for gang in gangs) >= MEMBERS_TO_CHECK or first.info.attempts > 1:
            demand = first.info.refused_turn = GroupDemand(gangs, turn.pending, self.context.profiles)
            if (refusal := turn.why_no_room(demand)) is not None:
                return refusal
        table.begin_turn()
        refusal = await turn.place(gangs)
        if refusal is None:
            return None
        rewound = table.in_turn
        turn.undo()
        demand = first.info.refused_turn = GroupDemand(gangs, turn.pending, self.context.profiles)
        if not rewound or not demand.is_mixed or not turn.lacks_room:
            return refusal
        second = GroupTurn(self, first, plugin.name)
        table.begin_turn()
        try:
            if await second.place_packed(gangs) is None:
                turn.take_over(second)
                return None
        except BaseException:
            second.undo()
            raise
        second.undo()
        return refusal

    async def _post_filter(
        self, turn: GroupTurn, refusal: GroupRefusal, plugin: GroupTurnPlugin, gangs: Sequence[GangTurn], cause: str
    ) -> tuple[PostFilterResult | None, tuple[str, str]]:
        """Let the plugin make room for all pending members; return the nomination of the member that failed, and the texts about it.

        The texts are the one of the member that failed and that of members that were not tried, which are refused for this cause.
        """
        failed, queue, first = turn.failed, self.context.queue, turn.first
        if refusal.diagnosis is not None:
            failed = FailedSearch(first, refusal.diagnosis)
        if failed is None or turn.code is Code.ERROR or not refusal.plugins:
            return None, ("", "")
        members: list[PodInfo] = []

        def pending() -> Sequence[PodInfo]:
            attempts = (turn.attempt(key) for gang in gangs for key in gang.members)
            members.extend(attempt.info.pod_info for attempt in attempts if attempt is not None)
            return members

        trigger = failed.attempt.info.pod_info
        result, status = await plugin.group_post_filter(trigger, failed.diagnosis, pending)
        if status is None:
            queue.activate([first.info.pod_info])  # in flight: it is tried again after its backoff, as soon as its plugin lets it pass
        if result is not None and failed.attempt is not first:
            stored = self.pods.of(trigger)
            queue.nominate(trigger, result.nominated_node_name)
            if stored is not None and stored.metadata.uid == trigger.uid:
                self.context.status_writer.update(stored, PodStatusUpdate(nominated=result.nominated_node_name))
        text = f"preempt success, alreadyWaitingForBound: {refusal.placed}/{len(members)}" if status is None else status.message
        said, profile = plugin.group_post_filtered(trigger, text) if text else "", failed.attempt.profile
        untried = Diagnosis.of_pre_filter(failed.diagnosis.total_nodes, frozenset({plugin.name}), unresolvable(cause))
        others = profile.post_filter_text(trigger, untried, {plugin.name: said})
        known = failed.diagnosis
        if refusal.diagnosis is not None:  # to other plugins it was refused before the filters, on all nodes
            known = Diagnosis.of_pre_filter(known.total_nodes, frozenset({plugin.name}), unschedulable(refusal.message))
        own = profile.post_filter_text(trigger, known, {plugin.name: text}) if status is not None else ""
        return result, (own, others)

    def _begin_diagnosis(
        self, turn: GroupTurn, refusal: GroupRefusal, plugin: GroupTurnPlugin, gangs: Sequence[GangTurn]
    ) -> GroupDiagnosis:
        """Take what there is to say of the members, before anything else changes the columns."""
        first, cache = turn.first.pod, self.context.cache
        diagnosis = None if turn.failed is None else turn.failed.diagnosis
        slots: Mapping[str, int] = Counter(turn.nodes_left)
        if isinstance(plugin, GroupPlanPlugin) and plugin.has_plan(first):
            with suppress(PluginError):  # it is reported where the plan is made
                counted = turn.count_slots(first, sum(len(gang.members) for gang in gangs), ())
                diagnosis, names = diagnosis or counted.refused, names_of(counted.rows, cache.infos)
                slots = dict(zip(names, counted.slots.tolist(), strict=True))
        return GroupDiagnosis(plugin.question_of(first), refusal, refusal.diagnosis or diagnosis, slots=slots, cache=cache)

    def _write_conditions(self, first: Attempt, members: Sequence[PodInfo], messages: GroupMessages) -> None:
        """Let the members that stayed in the queue say why they are pending, for autoscalers; the event is that of the popped pod alone."""
        for pod in members:
            info, stored = self.context.queue.get(pod.key), self.pods.at(pod.key)
            if info is not None and info is not first.info and stored is not None and stored.metadata.uid == info.uid:
                info.last_message = messages.of(pod.key)
                self.context.status_writer.update(stored, PodStatusUpdate(UNSCHEDULABLE, info.last_message))


class FailedSearch(NamedTuple):
    """The search for a member that fitted nowhere."""

    attempt: Attempt
    diagnosis: Diagnosis


class GroupTurn:
    """One turn: what was placed in it so far."""

    def __init__(self, turns: GroupTurns, first: Attempt, plugin: str) -> None:
        """first: the pod that was popped. plugin: the name of the one that says what its group is."""
        self._context = turns.context
        self._cycle = turns.cycle
        self._binding = turns.binding
        self._pods = turns.pods
        self._extenders = turns.extenders
        self._diagnoses = turns.diagnoses
        self.first = first
        self._plugin = plugin
        self._placed: list[Attempt] = []
        self._nominations: dict[str, tuple[PodInfo, str]] = {}  # by uid: which the placed pods had
        self._refusing: frozenset[str] = frozenset()  # the plugins that refused the last member that could not be placed
        self.code = Code.UNSCHEDULABLE  # of the refusal
        self.failed: FailedSearch | None = None  # the last one
        self.refused_by_node: Status | None = None  # why the planned node of the last member refused it
        self.keys_left: frozenset[str] = frozenset()  # members that were placed and taken back last
        self.nodes_left: list[str] = []  # where they were
        self._planned_from = 0.0  # Clock.perf: since when the plan is made that the next member is placed by; 0: no new one is

    async def place_as_planned(self, plugin: GroupPlanPlugin, gangs: Sequence[GangTurn], before: object | None) -> GroupRefusal | None:
        """Place all members where the plugin wants them, or if that cannot be as many as each gang needs; return why that cannot be.

        In a state of the cluster in which there was no plan none is made again. before: as of `GroupTurns._place`.
        """
        self._planned_from = self._context.clock.perf()
        attempts: dict[str, Attempt] = {}
        needed: dict[str, Attempt] = {}
        for gang in gangs:
            found = {key: attempt for key in gang.members if (attempt := self.attempt(key)) is not None}
            if len(found) < gang.needed:
                return GroupRefusal(gang.name, "", TOO_FEW, 0)
            attempts |= found
            needed |= dict(list(found.items())[: gang.needed])
        members = {key: (attempt.pod.uid, pod_class(attempt.pod)) for key, attempt in attempts.items()}
        examples = {of: key for key, (_, of) in members.items()}
        state = PlanState.of(self._context, plugin, self.first.pod, [attempts[key].pod for key in examples.values()])
        if isinstance(before, FailedPlan) and (before.members, before.state) == (members, state):
            self.first.info.refused_turn = before
            return self._refused_before(before, plugin, attempts)
        refusal = await self._place_plan(plugin, attempts)
        if refusal is not None and self.code is not Code.ERROR and len(needed) < len(attempts):
            refusal = refusal if await self._place_plan(plugin, needed) is not None else None
        if refusal is not None and self.code is not Code.ERROR and self._context.cache.table.in_turn:
            self.first.info.refused_turn = FailedPlan.of(members, examples, state, refusal)
        return refusal or self._gone()

    def _refused_before(self, failed: FailedPlan, plugin: GroupPlanPlugin, attempts: Mapping[str, Attempt]) -> GroupRefusal:
        """Return the refusal of the last turn; where evictions may help, with what is known of the nodes now."""
        if not failed.may_be_helped or not plugin.preempts:
            return failed.refusal
        first, pods = self.first.pod, [attempt.pod for attempt in attempts.values()]
        equal = sum(pod_class(pod) == pod_class(first) for pod in pods)
        slots = self.count_slots(first, equal, {pod.uid for pod in pods})
        return msgspec.structs.replace(failed.refusal, diagnosis=slots.short_of(equal))

    async def _place_plan(self, plugin: GroupPlanPlugin, attempts: Mapping[str, Attempt]) -> GroupRefusal | None:
        self._planned_from = self._planned_from or self._context.clock.perf()
        plan = plugin.plan(self.first.pod, [attempt.pod for attempt in attempts.values()], self.count_slots)
        refusal = plan if isinstance(plan, GroupRefusal) else await PlannedGroup(self, self.first).place(plan, attempts)
        if self._planned_from:
            self._observe_plan(None if refusal is None else UNPLANNED)
        return refusal

    def _observe_plan(self, status: Status | None) -> None:
        """Observe how long a plan took, as the role that decides on a pod's node in the reference."""
        perf = self._context.clock.perf()
        self.first.profile.timings.executed(self._plugin, FIND_ONE_NODE, status, perf - self._planned_from)
        self._planned_from = 0.0

    async def place_packed(self, gangs: Sequence[GangTurn]) -> GroupRefusal | None:
        """Place as many members of each gang as it needs where a search packs them; return that it found no placement."""
        attempts = {key: attempt for gang in gangs for key in gang.members if (attempt := self.attempt(key)) is not None}
        pods = {key: attempt.pod for key, attempt in attempts.items()}
        uids = {pod.uid for pod in pods.values()}
        numbers = Counter(pod_class(pod) for pod in pods.values())
        examples = {pod_class(pod): pod for pod in pods.values()}
        slots = {of: self.count_slots(pod, numbers[of], uids) for of, pod in examples.items()}
        return await PlannedGroup(self, self.first).place(GroupPacking(self._context.cache, gangs, pods, slots), attempts)

    def why_no_room(self, demand: GroupDemand) -> GroupRefusal | None:
        """Return that quotas or all nodes together have no room for the group; None: nothing speaks against trying. PluginError."""
        short = demand.shortfall(self._context, self.pending)
        attempt = None if short is None else self.attempt(short.pod.key)
        if short is None or attempt is None:
            return None
        diagnosis = short.diagnose()
        self.failed, self._refusing = FailedSearch(attempt, diagnosis), diagnosis.rejectors.all
        return GroupRefusal(short.gang, short.pod.key, diagnosis.message, short.before, self._refusing, quoted=diagnosis.quoted)

    def take_over(self, other: GroupTurn) -> None:
        """Let the members that another turn of the group has placed be those of this one."""
        self._placed, self._nominations = other._placed, other._nominations

    def count_slots(self, pod: PodInfo, most: int, group: Collection[str]) -> NodeSlots:
        """Return how many pods like this one each node takes, at most so many. PluginError."""
        context = self._context
        shapes = context.profiles[pod.pod.spec.scheduler_name].shapes
        return SlotCounter(shapes, context.cache, context.queue.nominator).count(pod, most, group)

    async def place(self, gangs: Sequence[GangTurn]) -> GroupRefusal | None:
        """Place as many members of each gang as it needs; return why that cannot be."""
        for gang in gangs:
            missing, last, failed = gang.needed, None, None
            for key in gang.members if len(gang.members) >= missing else ():
                if missing <= 0:
                    break
                attempt = self.attempt(key)
                if attempt is None:
                    continue
                message = await self.place_member(attempt)
                if not message:
                    missing -= 1
                    continue
                last, failed = self.refusal(key, message, gang.name), self.failed
                if gang.strict or self.code is Code.ERROR:
                    return last
            if missing > 0:
                self.failed = failed  # members after it may have been placed
                return last or GroupRefusal(gang.name, "", TOO_FEW, len(self._placed))
        return self._gone()

    def _gone(self) -> GroupRefusal | None:
        """Return that a placed member is not assumed any more."""
        for attempt in () if self._context.cache.table.in_turn else self._placed:  # extenders were awaited
            if not self._context.cache.is_assumed(attempt.info.uid):
                self.code = Code.ERROR
                return GroupRefusal("", attempt.info.key, GONE, len(self._placed))
        return None

    def pending(self, key: str) -> PodInfo | None:
        """Return a member that is pending; whether it may be tried, `attempt` says."""
        if key == self.first.info.key:
            return self.first.pod
        info = self._context.queue.get(key)
        return None if info is None else info.pod_info

    @property
    def lacks_room(self) -> bool:
        """Whether the turn was refused for want of room for a member that is admitted."""
        return self.failed is not None and self.code is not Code.ERROR and not self.failed.diagnosis.admission_plugin

    def attempt(self, key: str) -> Attempt | None:
        """Begin a member's attempt; None if it is not pending, is being deleted, or another plugin keeps it out of the active queue."""
        first = self.first
        if key == first.info.key:
            return first
        info = self._context.queue.get(key)
        if info is None or info.pod_info.pod.metadata.deletion_timestamp is not None:
            return None
        profile = self._context.profiles.get(info.profile)
        if profile is None or not profile.passes_pre_enqueue(info.pod_info, besides=self._plugin):
            return None
        return Attempt(info, info.pod_info, profile, self._context.clock.perf())

    async def place_member(self, attempt: Attempt, planned: str = "") -> str:
        """Find a node, or take the planned one, assume the pod there and run Reserve; return why that failed, "" if it did not."""
        cycle, pod = self._cycle, attempt.pod
        self._refusing, self.refused_by_node, self.failed = frozenset(), None, None
        attempt.searched = self._planned_from or self._context.clock.perf()  # a plan counts for the first member that is placed by it
        if self._planned_from:
            self._observe_plan(None)
        attempt.planned = planned
        if planned:
            attempt.answer = None  # it was about another node
        try:
            found = cycle.search(attempt)
            if isinstance(found, ExtenderQuestion):
                if not await self._ask_extenders(attempt, found):
                    self.code = Code.ERROR
                    return GONE
                found = cycle.search(attempt)
        except Exception as error:  # noqa: BLE001  # it is logged there
            self.code = Code.ERROR
            return cycle.failure_of(attempt, error).message
        if isinstance(found, Diagnosis):
            self._refusing = found.rejectors.all
            if not planned:
                self.failed = FailedSearch(attempt, found)
            elif found.pre_filter is None and (node := self._context.cache.node(planned)) is not None:
                self.refused_by_node = found.status_of(node.row)
            return found.message
        assert not isinstance(found, ExtenderQuestion), "extenders were asked twice about one attempt"
        attempt.node = found
        try:
            self._context.cache.assume_pod(pod, found)
        except CacheError as error:
            self.code = Code.ERROR
            return str(error)
        self._placed.append(attempt)
        nominator = self._context.queue.nominator
        if nominated := nominator.node_of(pod.uid):
            # Past the queue, which would give the pod another group: it keeps its place until the turn is committed.
            self._nominations[pod.uid] = pod, nominated
            nominator.remove(pod.uid)
        status = attempt.profile.run_reserve(attempt.state, attempt.pod, attempt.node)
        if status is None:
            return ""
        self._take_back(self._placed.pop())
        attempt.node = ""
        if not status.rejected:
            self.code = Code.ERROR
        else:
            self._refusing = frozenset({status.plugin} - {""})
            self.refused_by_node = status
        return status.message

    async def _ask_extenders(self, attempt: Attempt, question: ExtenderQuestion) -> bool:
        """Ask, and answer whether the pod is still what it was."""
        assert self._extenders is not None
        table = self._context.cache.table
        if table.in_turn:
            table.keep_turn()
        attempt.answer = await self._extenders.ask(attempt.pod, question)
        stored = self._pods.of(attempt.pod)
        if stored is None or stored.metadata.uid != attempt.info.uid or stored.spec.node_name:
            return False
        attempt.pod = attempt.info.pod_info
        attempt.pod.shape = attempt.profile.shapes.key(attempt.pod)  # signatures may have changed meanwhile
        return True

    # The end

    def commit(self) -> bool:
        """Take the placed members from the queue and let each go on. Return whether the popped pod is one of them."""
        context, first = self._context, self.first
        if context.cache.table.in_turn:
            context.cache.table.keep_turn()
        for attempt in self._placed:
            if attempt is not first:
                context.queue.take(attempt.info.key, first.info)
        for attempt in self._placed:
            self._binding.permit(attempt)
        return any(attempt is first for attempt in self._placed)

    def undo(self) -> None:
        """Take back what was placed, the last first, as if the turn had never been."""
        context, table = self._context, self._context.cache.table
        placed = self.take_back_all()
        if table.in_turn:
            table.rewind_turn()
        else:  # pods may have been refused meanwhile for want of this room; to the group itself nothing new has happened
            scope = Scope(exclude_uid=self.first.info.uid)
            for attempt in placed:
                context.queue.move_all(ASSIGNED_POD_DELETE, bound_to(attempt.pod.pod, attempt.node), None, scope)

    def take_back_all(self) -> list[Attempt]:
        """Take back all members that were placed, the last first, and return them. The turn goes on."""
        placed = self._placed[::-1]
        self._placed.clear()
        self.keys_left = frozenset(attempt.info.key for attempt in placed)
        if self._diagnoses.is_on:
            self.nodes_left = [attempt.node for attempt in placed]
        for attempt in placed:
            self._take_back(attempt)
        return placed

    def refusal(self, member: str, message: str, gang: str = "") -> GroupRefusal:
        """Return that this member could not be placed."""
        quoted = message if self.failed is None else self.failed.diagnosis.quoted
        return GroupRefusal(gang, member, message, len(self._placed), self._refusing, quoted=quoted)

    def _take_back(self, attempt: Attempt) -> None:
        self._binding.take_back(attempt)
        if attempt.pod.uid in self._nominations:
            self._context.queue.nominator.set(*self._nominations.pop(attempt.pod.uid))
