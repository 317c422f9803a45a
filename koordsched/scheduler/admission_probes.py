"""What the queue asks a profile's admission plugins about pods that wait (`queue.profile.QueueAdmission`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.queue.profile import INFEASIBLE, ProbeOutcome

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.admission import Admission
    from koordsched.framework.profile import Profile
    from koordsched.scheduler.failure import ConditionRefresher


class AdmissionProbes:
    """The admission of one profile; reasons that are new to the pods of a group are reported."""

    def __init__(self, profile: Profile, admission: Admission, conditions: ConditionRefresher) -> None:
        self.plugins = admission.plugins
        self._profile = profile
        self._admission = admission
        self._conditions = conditions

    def key(self, plugin: str, pod: PodInfo) -> Hashable | None:
        return self._admission.key(plugin, pod)

    def signature(self, plugin: str, pod: PodInfo) -> Hashable:
        return self._admission.signature(plugin, pod)

    def probe(self, plugin: str, pod: PodInfo) -> ProbeOutcome:
        outcome, diagnosis = self._profile.probe_admission(plugin, pod)
        if outcome is INFEASIBLE and diagnosis is not None:
            self._conditions.note(self._profile, pod, diagnosis)
        return outcome
