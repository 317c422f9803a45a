"""What happens to a pod whose attempt failed (framework.md §6): it goes back to the queue, and its condition and an event say why.

`ConditionRefresher` keeps the conditions of pods that are not tried again true while the reasons change.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from koordsched.api.podinfo import PodInfo, is_specified_alike
from koordsched.cluster.event_series import EventText
from koordsched.framework.interface import PostFilterResult
from koordsched.framework.shapes import ShapeKey
from koordsched.framework.status import Code
from koordsched.framework.waiting import JOB_PREEMPTED, JOB_REJECTED
from koordsched.scheduler.origins import PodStatusUpdate
from koordsched.tasks import call_later

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.core import Pod
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.profile import Profile
    from koordsched.framework.status import Status
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.attempt import Attempt
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.origins import LivePods

CLEAR_NOMINATION = PostFilterResult("")

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
SCHEDULER_NAME_UNMATCHED = "schedulerName unmatched"

PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 5.0
"""Doubled from turn to turn while reasons go on changing: on a cluster that changes every second each turn is an event and a status for
most pending pods, more than can be read."""
PODS_A_TURN, PODS_OF_ALL_A_TURN = 100, 300
"""Of one group, and of all groups, whose conditions are written anew in one turn: thousands of pods in hundreds of groups are more requests
a second than an API server has time for beside its work."""


class Failure(msgspec.Struct, eq=False):
    """An attempt that failed: either with a diagnosis (no node) or with a status (refused or failed at a later point)."""

    info: QueuedPodInfo
    profile: Profile
    message: str
    diagnosis: Diagnosis | None = None
    status: Status | None = None
    nominate: PostFilterResult | None = None  # None: leave the nomination alone
    started: float = 0.0  # Clock.perf
    refusing: frozenset[str] = frozenset()  # plugins beside that of the status whose events may help

    @property
    def rejected(self) -> bool:
        """Whether the pod was refused, as opposed to something having gone wrong."""
        return self.diagnosis is not None or (self.status is not None and self.status.rejected)


class FailureHandler:
    """Nominates, requeues, and writes the event and the condition, in this order."""

    def __init__(self, context: SchedulerContext, pods: LivePods, conditions: ConditionRefresher) -> None:
        self._context = context
        self._pods = pods
        self._conditions = conditions

    def handle(self, failure: Failure) -> None:
        context, info = self._context, failure.info
        result = "unschedulable" if failure.rejected else "error"
        context.metrics.attempted(result, info.profile, context.clock.perf() - failure.started)
        context.monitor.ended(info, context.clock.now())
        _record_outcome(failure)
        stored = self._pods.of(info.pod_info)
        if stored is None or stored.metadata.uid != info.uid or stored.spec.node_name:
            context.queue.done(info.uid)
            context.status_writer.forget(info.uid)
            return
        if stored.spec.scheduler_name != info.profile:
            hand_over(context, info, stored)
            return
        if stored.metadata.resource_version != info.pod_info.pod.metadata.resource_version:
            info.pod_info = refreshed(info.pod_info, stored, failure.profile)
        if failure.diagnosis is None:
            info.pod_info.shape = failure.profile.shapes.key(info.pod_info)  # signatures may have changed while it was binding
        if failure.nominate is not None:
            # Before it is requeued: from a pod that waits for victims to leave nothing follows for the others of its shape.
            context.queue.nominate(info.pod_info, failure.nominate.nominated_node_name)
        context.queue.add_unschedulable_if_not_present(info)
        reason = UNSCHEDULABLE if failure.rejected else SCHEDULER_ERROR
        nominated = None if failure.nominate is None else failure.nominate.nominated_node_name
        report(context, stored, PodStatusUpdate(reason, failure.message, nominated))
        if failure.diagnosis is not None and (failure.diagnosis.of_shape or failure.diagnosis.admission_plugin):
            self._conditions.note(failure.profile, info.pod_info, failure.diagnosis)


def nomination_after(status: Status, attempt: Attempt) -> PostFilterResult:
    """Return the nomination of a pod that does not get the node it was assumed on (frameworkext.md §4.1): none, as a rule.

    Where evictions make room for its job it is nominated for the node that it had; where another pod of its job was refused it is nominated
    as before its attempt. What was written while it waited on Permit does not stay.
    """
    if status.code is not Code.UNSCHEDULABLE:
        return CLEAR_NOMINATION
    if status.plugin == JOB_PREEMPTED:
        return PostFilterResult(attempt.node)
    return PostFilterResult(attempt.pod.pod.status.nominated_node_name) if status.plugin == JOB_REJECTED else CLEAR_NOMINATION


def hand_over(context: SchedulerContext, info: QueuedPodInfo, pod: Pod) -> None:
    """End the flight of a pod that another scheduler is responsible for by now; it comes back as a new one if that is a profile here."""
    context.queue.done(info.uid)
    context.queue.delete(info.pod_info)
    context.status_writer.forget(info.uid)
    profile = context.profiles.get(pod.spec.scheduler_name)
    if profile is not None:
        context.queue.add(refreshed(info.pod_info, pod, profile))


def _record_outcome(failure: Failure) -> None:
    """Write into the queue's item which plugins refused the pod, so that their events move it."""
    info, diagnosis, status = failure.info, failure.diagnosis, failure.status
    info.last_message = failure.message
    if diagnosis is not None:
        info.set_rejectors(diagnosis.rejectors)
        info.rejected_in_filter = bool(diagnosis.plugins) and diagnosis.of_shape
        info.admission_plugin = diagnosis.admission_plugin
    elif status is not None and status.rejected and status.plugin:
        info.unschedulable_plugins = {status.plugin, *failure.refusing}


def report(context: SchedulerContext, pod: Pod, update: PodStatusUpdate) -> None:
    """Record an event and write the condition that say why the pod is pending; and the events that plugins have to add."""
    events = context.events(pod.spec.scheduler_name)
    events.event(pod, EventText("Warning", "FailedScheduling", "Scheduling", update.message))
    for plugin in context.profiles[pod.spec.scheduler_name].failure_events:
        text = plugin.failure_event(pod, update.message)
        if text is not None:
            events.event(pod, text)
    context.status_writer.update(pod, update)


class _Outdated(NamedTuple):
    """A pod whose reasons, and those of the pods that wait with it, are others than its condition says."""

    profile: Profile
    pod: PodInfo
    admission_plugin: str = ""  # which refuses it; "": its shape fits on no node


class ConditionRefresher:
    """Keeps the conditions of pending pods true without retrying the pods.

    The queue does not retry a pod that cannot succeed. But nodes come, go and change, and with them the reasons: a pod that waits since
    "0/3 nodes" should not say so when there are five. So when the queue found that an event helps no pod of a shape, and the reasons differ
    from those that its pods have, their conditions are written anew: after a second, and where reasons go on changing every five; so many
    pods a time that a large group does not flood the API server. What PostFilter would add is part of the message; where only an attempt
    could find that out, conditions are left alone. The same goes for pods that wait in one admission group, when the plugin refuses them in
    other words now.
    """

    def __init__(self, context: SchedulerContext, pods: LivePods) -> None:
        self._context = context
        self._pods = pods
        self._changed: dict[Hashable, _Outdated] = {}  # by shape and priority, or by the key of the admission group
        self._timer: asyncio.TimerHandle | None = None  # set while anything has changed
        self._pause = PAUSE_SECONDS  # before the last turn
        self._last_turn = -MAX_PAUSE_SECONDS

    @property
    def pending(self) -> bool:
        """Whether any condition is still to be written anew."""
        return bool(self._changed)

    def note(self, profile: Profile, pod: PodInfo, diagnosis: Diagnosis) -> None:
        """Take note of why the pod's shape, or its admission group, is refused now. O(1) while that stays the same."""
        if diagnosis.admission_plugin:
            group = self._context.queue.group_of(pod)
            if group is not None and group.by_admission and group.reported != diagnosis.message:
                reported, group.reported = group.reported, diagnosis.message
                if reported:
                    self._report_later(group.key, _Outdated(profile, pod, diagnosis.admission_plugin))
            return
        shape = pod.shape
        if not isinstance(shape, ShapeKey) or shape.reported.get(pod.priority) == diagnosis.message:
            return
        known, shape.reported[pod.priority] = shape.reported.get(pod.priority, ""), diagnosis.message
        if known:
            self._report_later((shape, pod.priority), _Outdated(profile, pod))

    def stop(self) -> None:
        """Write nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _report_later(self, key: Hashable, outdated: _Outdated) -> None:
        if self._timer is None:
            calm = asyncio.get_running_loop().time() - self._last_turn > self._pause
            self._pause = PAUSE_SECONDS if calm else min(2 * self._pause, MAX_PAUSE_SECONDS)
            self._timer = call_later(self._pause, self._report_all)
        self._changed[key] = outdated

    def _report_all(self) -> None:
        self._timer = None
        self._last_turn = asyncio.get_running_loop().time()
        changed, self._changed = self._changed, {}
        left, waiting = PODS_OF_ALL_A_TURN, iter(changed.items())
        for key, outdated in waiting:
            left -= self._report(key, outdated, min(left, PODS_A_TURN))
            if not left:
                break
        for key, outdated in waiting:
            self._go_on_later(key, outdated)

    def _report(self, key: Hashable, outdated: _Outdated, limit: int) -> int:
        """Write the conditions of at most so many pods that wait with this one, and return of how many.

        If there may be more, go on in the next turn.
        """
        profile, pod, plugin = outdated
        group = self._context.queue.group_of(pod)
        diagnosis = profile.probe_admission(plugin, pod)[1] if plugin else profile.shapes.why_infeasible(pod)
        message = None if diagnosis is None else profile.message_of(pod, diagnosis)
        if diagnosis is None or message is None or group is None or not (group.by_admission if plugin else group.by_shape):
            return 0  # an event in between moved it: an attempt will find the reasons
        if plugin:
            group.reported = diagnosis.message
        elif isinstance(pod.shape, ShapeKey):
            pod.shape.reported[pod.priority] = diagnosis.message
        reported = list(islice((info for info in group.members if info.last_message != message), limit))
        for info in reported:
            info.last_message = message
            stored = self._pods.of(info.pod_info)
            if stored is not None and stored.metadata.uid == info.uid:
                report(self._context, stored, PodStatusUpdate(UNSCHEDULABLE, message))
        if len(reported) == limit:
            self._go_on_later(key, _Outdated(profile, reported[-1].pod_info, plugin))
        return len(reported)

    def _go_on_later(self, key: Hashable, outdated: _Outdated) -> None:
        self._pause = PAUSE_SECONDS  # it is the same turn still
        self._report_later(key, outdated)


def bound_to(pod: Pod, node: str) -> Pod:
    """Return an assumed pod as it would look bound: hints ask where the room is that a pod gives back."""
    return replace(pod, spec=replace(pod.spec, node_name=node))


def refreshed(old: PodInfo, pod: Pod, profile: Profile) -> PodInfo:
    """Return the facts of a changed pod, computing anew only what may differ. QuantityError when its resources cannot be read."""
    if is_specified_alike(old.pod, pod):
        return old.with_pod(pod)
    info = PodInfo(pod)
    info.shape = profile.shapes.key(info)
    return info
