"""Preemption for gangs and for pods in none (coscheduling.md §8): Koordinator's chart leaves both to this plugin; how long it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.preemption.rules import POLICY_NEVER, TERMINATING, PreemptionRules, VictimRule
from koordsched.framework.status import unresolvable
from koordsched.metrics import exponential

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle
    from koordsched.framework.status import Status
    from koordsched.plugins.coscheduling.gangs import Gangs

EXCLUDED = {"scheduling.koordinator.sh/disable-preemptible": "true", "quota.scheduling.koordinator.sh/preemptible": "false"}
"""Labels of pods that are never victims."""
NO_VICTIMS = unresolvable("no potential victims")


class LabelledVictims(VictimRule):
    """Pods of lower priority, except those whose labels say that they are never victims."""

    key = "lower priority, preemptible"
    grouped = True

    def group(self, victim: PodInfo) -> Hashable | None:
        labels = victim.pod.metadata.labels
        return None if labels and any(labels.get(key) == value for key, value in EXCLUDED.items()) else super().group(victim)


def preemption_rules(plugin: str, gangs: Gangs) -> PreemptionRules:
    """Return the rules for the engine. plugin: the name under which victims are evicted."""

    def message(preemptor: PodInfo) -> str:
        gang = gangs.of(preemptor.uid)
        name = preemptor.key if gang is None else gang.group.id
        return f"preempting to accommodate higher priority pods, preemptor: {name}, triggerPod: {preemptor.key}"

    return PreemptionRules(plugin=plugin, victims=LabelledVictims(), no_victims=NO_VICTIMS, lists_all_nodes=False, message=message)


SUCCESS, NOT_HELPFUL = "preempt success, alreadyWaitingForBound: %d/%d", "preemption not helpful"
"""Results in the metric, as the reference writes them."""
IDLE_SECONDS, LOOK_SECONDS = 300.0, 60.0
"""A job's durations are shown until it has not preempted for so long; how often that is looked at, while any are shown."""


class PreemptionDurations:
    """The metric scheduler_job_preemption_duration_seconds, by job (the id of a gang group, or the key of a pod) and result."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._used: dict[tuple[str, str], float] = {}  # by labels: when last
        self._histogram = handle.metrics.histogram(
            "scheduler_job_preemption_duration_seconds",
            "Duration of an attempt to make room for a job by evicting other pods.",
            ["jobName", "result"],
            bounds=exponential(0.001, 2, 20),
        )

    def observe(self, job: str, status: Status | None, seconds: float) -> None:
        """Count an attempt. status: as PostFilter answers; None: it has made room."""
        reasons = [known.message for known in (POLICY_NEVER, TERMINATING) if status is not None and status.message.endswith(known.message)]
        result = SUCCESS if status is None else reasons[0] if reasons else NOT_HELPFUL
        if not self._used:
            self._handle.call_later(LOOK_SECONDS, self._forget_idle)
        self._used[job, result] = self._handle.clock.now()
        self._histogram.observe(seconds, job, result)

    def _forget_idle(self) -> None:
        now = self._handle.clock.now()
        for labels in [labels for labels, used in self._used.items() if now - used >= IDLE_SECONDS]:
            del self._used[labels]
            self._histogram.remove(*labels)
        if self._used:
            self._handle.call_later(LOOK_SECONDS, self._forget_idle)
