"""The plugin: PostFilter preempts for a pod, PreEnqueue keeps the pod out of the queue while its victims are evicted.

Reference: plugins/defaultpreemption of Kubernetes v1.35. minCandidateNodesPercentage and minCandidateNodesAbsolute limit only how many
candidates extenders are shown, and how many are enough where all filters have to be asked: amounts are compared for all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.interface import PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from koordsched.framework.preemption.engine import PreemptionEngine, is_refused_by_admission
from koordsched.framework.preemption.rules import PreemptionRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.config.args import DefaultPreemptionArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.framework.status import Status
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
        refusal = self.engine.refused_by_admission(pod, diagnosis)
        if refusal is not None:
            self._handle.preemption_metrics.attempted()
            return None, refusal
        wanted = diagnosis.total_nodes * self._args.min_candidate_nodes_percentage // 100
        return await self.engine.preempt(pod, diagnosis, max(wanted, self._args.min_candidate_nodes_absolute))

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        return not is_refused_by_admission(diagnosis) and self.engine.may_help(pod, diagnosis)

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        return self.engine.refused_by_admission(pod, diagnosis) or self.engine.expected_refusal(pod, diagnosis)
