"""The plugin: PostFilter preempts for a pod, PreEnqueue keeps the pod out of the queue while its victims are evicted.

Reference: plugins/defaultpreemption of Kubernetes v1.35. minCandidateNodesPercentage and minCandidateNodesAbsolute limit only how many
candidates extenders are shown, and how many are enough where all filters have to be asked: amounts are compared for all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.diagnosis import fit_error
from koordsched.framework.interface import PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from koordsched.framework.preemption.engine import PreemptionEngine
from koordsched.framework.preemption.rules import NOT_HELPFUL, PreemptionRules, policy_allows
from koordsched.framework.status import Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.config.args import DefaultPreemptionArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.queue.events import EventHint


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin):
    name = "DefaultPreemption"
    signs = ("pod.spec.preemption_policy",)  # the pod's priority is part of the queue's groups already

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self.engine = PreemptionEngine(handle, PreemptionRules(plugin=self.name))

    def events_to_register(self) -> Sequence[EventHint]:
        return ()  # the engine activates a pod that is gated here

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return self.engine.pre_enqueue(pod)

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        refusal = _not_admitted(pod, diagnosis)
        if refusal is not None:
            self._handle.preemption_metrics.attempted()
            return None, refusal
        wanted = diagnosis.total_nodes * self._args.min_candidate_nodes_percentage // 100
        return await self.engine.preempt(pod, diagnosis, max(wanted, self._args.min_candidate_nodes_absolute))

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        return not diagnosis.admission_plugin and self.engine.may_help(pod, diagnosis)

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        return _not_admitted(pod, diagnosis) or self.engine.expected_refusal(pod, diagnosis)


def _not_admitted(pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
    """Refuse a pod that admission refused: pods of lower priority that leave complete no gang and may be of another quota.

    The reference evicts them all the same where the refusal is Unschedulable (elasticquota.md DEV-4).
    """
    if not diagnosis.admission_plugin:
        return None
    total = diagnosis.total_nodes
    refusal = policy_allows(pod) or unschedulable(fit_error(total, {NOT_HELPFUL.message: total}))
    return Status(refusal.code, (f"preemption: {refusal.message}",))
