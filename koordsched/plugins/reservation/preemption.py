"""Preemption for pods and for Reservations (reservation.md §11), where `enablePreemption` is set.

Victims are pods of lower priority that do not say that they must not be preempted; a reserve pod is none, since no pod could be deleted
(D10). Owners find free what victims of their own reservation give back to it, others do not: that is how the engine's simulations are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import RESERVATION
from koordsched.framework.preemption.engine import PreemptionEngine, is_refused_by_admission
from koordsched.framework.preemption.rules import TERMINATING, PreemptionRules, VictimRule, policy_allows

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.config.koordinator_args import ReservationArgs
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import PostFilterResult
    from koordsched.framework.status import Status

DISABLE_PREEMPTIBLE = "scheduling.koordinator.sh/disable-preemptible"
"""Label of pods that are never victims ("true")."""


class PreemptiblePods(VictimRule):
    """Pods of lower priority, except those whose label says that they are never victims."""

    key = "lower priority, not disabled"
    grouped = True

    def group(self, victim: PodInfo) -> Hashable | None:
        return None if victim.pod.metadata.labels.get(DISABLE_PREEMPTIBLE) == "true" else super().group(victim)


class ReservationPreemption:
    """The engine with the rules of this plugin. What it says of a pod that admission refused is said without an attempt."""

    def __init__(self, plugin: str, args: ReservationArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        rules = PreemptionRules(plugin=plugin, victims=PreemptiblePods(), eligible=self._eligible)
        self._engine = PreemptionEngine(handle, rules, handle.informer(RESERVATION).store)

    def _eligible(self, pod: PodInfo) -> Status | None:
        """Refuse a pod that must not preempt, and one for which pods are being evicted: it is tried again when they are gone."""
        return policy_allows(pod) or (TERMINATING if self._engine.evictions.is_under_way(pod.uid) else None)

    async def preempt(self, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        refusal = self._engine.refused_by_admission(pod, diagnosis)
        if refusal is not None:
            self._handle.preemption_metrics.attempted()
            return None, refusal
        wanted = diagnosis.total_nodes * self._args.min_candidate_nodes_percentage // 100
        return await self._engine.preempt(pod, diagnosis, max(wanted, self._args.min_candidate_nodes_absolute))

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        return not is_refused_by_admission(diagnosis) and self._engine.may_help(pod, diagnosis)

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        return self._engine.refused_by_admission(pod, diagnosis) or self._engine.expected_refusal(pod, diagnosis)
