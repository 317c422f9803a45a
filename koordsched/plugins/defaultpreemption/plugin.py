"""The plugin: PostFilter preempts for a pod, PreEnqueue keeps the pod out of the queue while its victims are evicted.

Reference: plugins/defaultpreemption of Kubernetes v1.35. minCandidateNodesPercentage and minCandidateNodesAbsolute limit only how many
candidates extenders are shown, and how many are enough where all filters have to be asked: amounts are compared for all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.clock import parse_rfc3339
from koordsched.framework.interface import PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from koordsched.framework.status import Code, Status, unresolvable, unschedulable
from koordsched.plugins.defaultpreemption.engine import PreemptionEngine
from koordsched.plugins.defaultpreemption.preparation import BY_SCHEDULER, DISRUPTION_TARGET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.config.args import DefaultPreemptionArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.queue.events import EventHint

NEVER = "Never"
WAITING = unresolvable("waiting for the preemption for this pod to be finished")
POLICY_NEVER = unschedulable("not eligible due to preemptionPolicy=Never.")
TERMINATING = unschedulable("not eligible due to a terminating pod on the nominated node.")

OVERDUE_SECONDS = 60.0
"""For how long after its grace period a victim is waited for. kube-scheduler waits for ever (kubernetes #95752)."""


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin):
    name = "DefaultPreemption"
    signs = ("pod.spec.preemption_policy",)  # the pod's priority is part of the queue's groups already

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self.engine = PreemptionEngine(handle, self.name)

    def events_to_register(self) -> Sequence[EventHint]:
        # No event reaches a pod that is gated here, or each of thousands would be asked about at the deletion of each of their victims:
        # the engine activates it when its last victim leaves.
        return ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return WAITING if self.engine.preparation.is_under_way(pod.uid) else None

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        self._handle.preemption_metrics.attempted()
        result: PostFilterResult | None = None
        refusal = self.engine.missing(pod) or self._not_eligible(pod, diagnosis)
        if refusal is None:
            wanted = diagnosis.total_nodes * self._args.min_candidate_nodes_percentage // 100
            result, refusal = await self.engine.preempt(pod, diagnosis, max(wanted, self._args.min_candidate_nodes_absolute))
        return result, None if refusal is None else Status(refusal.code, (f"preemption: {refusal.message}",))

    # Without an attempt

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        return pod.pod.spec.preemption_policy != NEVER and self.engine.may_help(pod, diagnosis)

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        never = pod.pod.spec.preemption_policy == NEVER
        refusal = POLICY_NEVER if never else self.engine.expected_refusal(pod, diagnosis)
        return None if refusal is None else Status(refusal.code, (f"preemption: {refusal.message}",))

    # Eligibility (framework.md §7.2)

    def _not_eligible(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        """Refuse a pod that may not preempt, or that has done so and waits for its victims to leave."""
        if pod.pod.spec.preemption_policy == NEVER:
            return POLICY_NEVER
        name = pod.pod.status.nominated_node_name or self._handle.nominator.node_of(pod.uid)
        node = self._handle.cache.node(name) if name else None
        if node is None:
            return None
        status = diagnosis.status_of(node.row)
        if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None  # victims that leave could not help there
        now = self._handle.clock.now()
        awaited = []
        for victim in node.pods.values():
            if victim.priority < pod.priority and is_evicted(victim):
                overdue = overdue_at(victim)
                if overdue > now:
                    awaited.append(overdue)
                else:
                    self.engine.exclude(victim)
        if not awaited:
            return None
        self._handle.call_later(min(awaited) - now, lambda: self._handle.activate([pod]))
        return TERMINATING


def is_evicted(pod: PodInfo) -> bool:
    """Answer whether the pod terminates because it was preempted."""
    if pod.pod.metadata.deletion_timestamp is None:
        return False
    return any(
        condition.type == DISRUPTION_TARGET and condition.status == "True" and condition.reason == BY_SCHEDULER
        for condition in pod.pod.status.conditions
    )


def overdue_at(victim: PodInfo) -> float:
    """Return when to stop waiting for a terminating pod, in seconds since the epoch. Its deletionTimestamp is when its grace ends."""
    stamp = victim.pod.metadata.deletion_timestamp
    try:
        return parse_rfc3339(stamp) + OVERDUE_SECONDS if stamp is not None else float("inf")
    except ValueError:
        return float("inf")
