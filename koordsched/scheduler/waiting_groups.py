"""Groups whose turn was refused and that wait: is it certain that they would be refused again, now that something has happened?

Asked by the queue once an event and waiting group, before any of its pods moves (`queue.moving`). First whether the member for which the
turn was refused would have a node alone; then, of a group that lacked room for all (`GroupDemand`), whether it still does; of one without a
plan (`FailedPlan`), whether anything that plans depend on has changed. What is found out holds for all groups that wait for the same in the
moment of the event. False: an attempt has to find out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.group_plan import GroupPlanPlugin
from koordsched.framework.slots import pod_class
from koordsched.log import get_logger
from koordsched.queue.profile import FEASIBLE, INFEASIBLE, NEEDS_PREEMPTION, ProbeOutcome
from koordsched.scheduler.group_demand import GroupDemand
from koordsched.scheduler.planned_group import FailedPlan, PlanState

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.interface import GroupTurnPlugin
    from koordsched.framework.profile import Profile
    from koordsched.queue.profile import Findings
    from koordsched.scheduler.context import SchedulerContext

log = get_logger(__name__)


class WaitingGroups:
    """Asks about the groups of all profiles."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context

    def still_refused(self, profile: Profile, pod: PodInfo, known: Findings) -> bool:
        """Answer whether it is certain that the group of this pod, whose turn was refused, would be refused again. Incremental.

        known: what was found out in the same moment of groups that wait for the same; it is added to.
        """
        context, plugin = self._context, profile.group_turn
        try:
            key = "" if plugin is None else plugin.blocking_member(pod)
            info = context.queue.get(key) if key else None
            if plugin is None or info is None or info.profile not in context.profiles:
                return False
            member = info.pod_info
            if member.uid in context.queue.nominator:  # its own nomination is not in its way
                known = {}
            of: Hashable = (info.profile, pod_class(member))
            outcome = known.get(of)
            if outcome is None:
                outcome = known[of] = self._alone(plugin, member)
            if outcome is not FEASIBLE:
                return outcome is INFEASIBLE
            # It would fit alone; not so, perhaps, beside the others.
            first = context.queue.get(pod.key)
            failed = None if first is None else first.refused_turn
            if isinstance(failed, FailedPlan):
                preempts = plugin.preempts and failed.may_be_helped  # budgets, for one, are no part of the state
                return isinstance(plugin, GroupPlanPlugin) and not preempts and self._in_state_of(failed, plugin, pod)
            if not isinstance(failed, GroupDemand):
                return False
            of = failed.alike(context, self._waiting)
            refused: bool | None = None if of is None else known.get(of)
            if refused is None:
                short = failed.shortfall(context, self._waiting)
                refused = short is not None and not (plugin.preempts and plugin.preempts_for_groups(short.pod, short.diagnose()))
                if of is not None:
                    known[of] = refused
            return refused
        except Exception:
            log.exception("could not find out whether a waiting group can be placed", pod=pod.key)
            return False

    def _alone(self, plugin: GroupTurnPlugin, member: PodInfo) -> ProbeOutcome:
        """Estimate what the search for a member would find if it was the first one of its group."""
        if _wants_others(member.pod):
            return FEASIBLE
        diagnosis = self._context.profiles[member.pod.spec.scheduler_name].shapes.why_infeasible(member)
        if diagnosis is None:
            return FEASIBLE
        return NEEDS_PREEMPTION if plugin.preempts and plugin.preempts_for_groups(member, diagnosis) else INFEASIBLE

    def _in_state_of(self, failed: FailedPlan, plugin: GroupPlanPlugin, first: PodInfo) -> bool:
        """Answer whether the cluster and the members are for a plan what they were when there was none. O(classes of members)."""
        if failed.state.log_end != self._context.cache.table.log_end:  # as a rule
            return False
        examples = []
        for of, key in failed.examples.items():  # that the members are others the group's plugin says (`blocking_member`)
            member = self._waiting(key)
            if member is None or pod_class(member) != of:
                return False
            examples.append(member)
        return failed.state == PlanState.of(self._context, plugin, first, examples)

    def _waiting(self, key: str) -> PodInfo | None:
        """Return a member that waits, as it is now."""
        info = self._context.queue.get(key)
        return None if info is None else info.pod_info


def _wants_others(pod: Pod) -> bool:
    """Answer whether a node that refuses the pod might let it pass when other pods of its group are placed."""
    affinity = pod.spec.affinity
    return bool(pod.spec.topology_spread_constraints) or (affinity is not None and affinity.pod_affinity is not None)
