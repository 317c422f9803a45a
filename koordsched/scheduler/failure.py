"""What happens to a pod whose attempt failed: it goes back to the queue, and its author is told why (framework.md §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from koordsched.api.podinfo import PodInfo
from koordsched.cluster.event_series import EventText
from koordsched.framework.interface import PostFilterResult
from koordsched.scheduler.status_writer import Said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.profile import Profile
    from koordsched.framework.status import Status
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.fresh_reasons import FreshReasons
    from koordsched.scheduler.parts import Parts

CLEAR_NOMINATION = PostFilterResult("")

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


class Failure(msgspec.Struct, eq=False):
    """An attempt that failed: either with a diagnosis (no node) or with a status (refused or failed at a later point)."""

    info: QueuedPodInfo
    profile: Profile
    message: str
    diagnosis: Diagnosis | None = None
    status: Status | None = None
    nominate: PostFilterResult | None = None  # None: leave the nomination alone
    started: float = 0.0  # Clock.perf

    @property
    def rejected(self) -> bool:
        """Whether the pod was refused, as opposed to something having gone wrong."""
        return self.diagnosis is not None or (self.status is not None and self.status.rejected)


class FailureHandler:
    """Nominates, requeues, and writes the event and the condition, in this order."""

    def __init__(self, parts: Parts, pods: Mapping[str, Pod], reasons: FreshReasons) -> None:
        """pods: the watched pods by key, as the cluster has them."""
        self._parts = parts
        self._pods = pods
        self._reasons = reasons

    def handle(self, failure: Failure) -> None:
        parts, info = self._parts, failure.info
        result = "unschedulable" if failure.rejected else "error"
        parts.metrics.attempted(result, info.profile, parts.clock.perf() - failure.started)
        _record_outcome(failure)
        stored = self._pods.get(info.key)
        if stored is None or stored.metadata.uid != info.uid or stored.spec.node_name:
            parts.queue.done(info.uid)
            parts.status_writer.forget(info.uid)
            return
        if stored.metadata.resource_version != info.pod_info.pod.metadata.resource_version:
            info.pod_info = refreshed(info.pod_info, stored, failure.profile)
        if failure.diagnosis is None:
            info.pod_info.shape = failure.profile.shapes.key(info.pod_info)  # signatures may have changed while it was binding
        if failure.nominate is not None:
            # Before it is requeued: a pod that waits for victims to leave says nothing about the others of its shape.
            parts.queue.nominate(info.pod_info, failure.nominate.nominated_node_name)
        parts.queue.add_unschedulable_if_not_present(info)
        reason = UNSCHEDULABLE if failure.rejected else SCHEDULER_ERROR
        nominated = None if failure.nominate is None else failure.nominate.nominated_node_name
        tell(parts, stored, Said(reason, failure.message, nominated))
        if failure.diagnosis is not None and failure.diagnosis.of_shape:
            self._reasons.found(failure.profile, info.pod_info, failure.diagnosis)


def bound_to(pod: Pod, node: str) -> Pod:
    """Return an assumed pod as it would look bound: hints ask where the room is that a pod gives back."""
    return replace(pod, spec=replace(pod.spec, node_name=node))


def tell(parts: Parts, pod: Pod, said: Said) -> None:
    """Say in the pod's events and its condition why it is pending."""
    parts.events(pod.spec.scheduler_name).event(pod, EventText("Warning", "FailedScheduling", "Scheduling", said.message))
    parts.status_writer.say(pod, said)


def refreshed(old: PodInfo, pod: Pod, profile: Profile) -> PodInfo:
    """Return the facts of a changed pod, computing anew only what may differ. QuantityError when its resources cannot be read."""
    before = old.pod
    if (
        pod.spec == before.spec
        and pod.metadata.labels == before.metadata.labels
        and pod.metadata.annotations == before.metadata.annotations
    ):
        return old.with_pod(pod)
    info = PodInfo(pod)
    info.shape = profile.shapes.key(info)
    return info


def _record_outcome(failure: Failure) -> None:
    """Write into the queue's item which plugins refused the pod, so that their events move it."""
    info, diagnosis, status = failure.info, failure.diagnosis, failure.status
    info.last_message = failure.message
    if diagnosis is not None:
        info.set_rejectors(diagnosis.rejectors)
        info.rejected_in_filter = bool(diagnosis.plugins) and diagnosis.of_shape
    elif status is not None and status.rejected and status.plugin:
        info.unschedulable_plugins = {status.plugin}
