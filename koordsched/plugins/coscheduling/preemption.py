"""Preemption for gangs and for pods in none (coscheduling.md §8): Koordinator's chart leaves both to this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.preemption.rules import PreemptionRules, VictimRule

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.plugins.coscheduling.gangs import Gangs

EXCLUDED = {"scheduling.koordinator.sh/disable-preemptible": "true", "quota.scheduling.koordinator.sh/preemptible": "false"}
"""Labels of pods that are never victims."""


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

    return PreemptionRules(plugin=plugin, victims=LabelledVictims(), message=message)
