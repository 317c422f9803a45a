"""SchedulingQueue: the pending pods (framework.md §3).

A state machine without awaits: one scheduling loop pops, event handlers add, update, delete and move; nothing else runs in between. Time
is the Clock's; the caller runs `flush_backoff` at `next_flush()` and `flush_unschedulable` every 30 s. A pod returned by `pop` or `take`
is in flight until `done` or `add_unschedulable_if_not_present`. `PodInfo.shape` must be set before a pod is passed to `add` or `update`.
Which pods an event moves is decided in `moving`; what must always hold is in `invariants`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from koordsched.log import get_logger
from koordsched.queue.event_detection import pod_update_events
from koordsched.queue.events import (
    ALL_PODS,
    ASSIGNED_POD_DELETE,
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POD_POPPED,
    REGROUPED,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_UPDATE,
    ClusterEvent,
    ObservedEvent,
    Scope,
)
from koordsched.queue.inflight import InFlight
from koordsched.queue.invariants import check
from koordsched.queue.moving import SKIP, HintEvaluator, Mover
from koordsched.queue.queued_pod import (
    ACTIVE,
    BACKOFF,
    IN_FLIGHT,
    NOWHERE,
    UNSCHEDULABLE,
    QueuedPodInfo,
    QueuePlace,
    UnschedulableGroup,
)
from koordsched.queue.sub_queues import SubQueues

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.plugin_state import Need
    from koordsched.clock import Clock
    from koordsched.queue.events import AdmissionKey
    from koordsched.queue.nominator import Nominator
    from koordsched.queue.profile import QueueMetrics, QueueProfile, QueueSettings
    from koordsched.queue.sub_queues import Transition

log = get_logger(__name__)

_MAX_UNTRIED = 1000  # pods that one pop returns without an attempt before it lets other tasks run; about 10 ms


class Sizes(NamedTuple):
    """The gauge pending_pods: active, backoff, unschedulable and gated pods. Pods in flight are in none of them."""

    active: int
    backoff: int
    unschedulable: int
    gated: int


class SchedulingQueue:
    """Active, backoff and unschedulable pods, pods in flight, and nominations."""

    def __init__(
        self,
        clock: Clock,
        profiles: Mapping[str, QueueProfile],
        settings: QueueSettings,
        metrics: QueueMetrics,
        nominator: Nominator,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._queues = SubQueues(clock, profiles, settings, metrics, nominator)
        self._inflight = InFlight()
        self._mover = Mover(self._queues, HintEvaluator(clock, metrics), metrics)
        self._registered: dict[ClusterEvent, bool] = {}

    # Pods are added, updated and deleted.

    def add(self, pod: PodInfo) -> None:
        """Add a new pending pod of one of the profiles."""
        info = self._queues.get(pod.key)
        if info is not None:
            self.update(info.pod_info, pod)
        else:
            self._add(pod, UNSCHEDULABLE_POD_ADD)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Follow a change of a pending, not assumed pod; one that is nowhere is added. The same resourceVersion is ignored."""
        version = new.pod.metadata.resource_version
        if old.uid != new.uid:  # deleted and created again, and the watch missed it
            self.delete(old)
            self.add(new)
            return
        if version and version == old.pod.metadata.resource_version:
            return
        info = self._queues.get(new.key)
        if new.uid in self._inflight.pods:
            admission = self._queues.profiles[self._inflight.pods[new.uid][1].profile].admission
            for event in pod_update_events(old, new):
                if self._is_registered(event) or admission is not None:
                    self._inflight.record(ObservedEvent(event, old.pod, new.pod), Scope(only_uid=new.uid))
        elif info is None:
            self._add(new, UNSCHEDULABLE_POD_UPDATE)
        elif info.place is ACTIVE or info.place is BACKOFF:
            self._queues.nominator.update(old, new)
            self._queues.replace(info, new)
            info.skippable = False
        else:
            self._update_unschedulable(info, old, new)
        if old.pod.status.nominated_node_name not in {"", new.pod.status.nominated_node_name}:
            self._nomination_ended(old)

    def delete(self, pod: PodInfo) -> None:
        """Remove a pending pod that was deleted. One in flight stays in flight until its attempt ends."""
        self.forget(pod)
        if pod.pod.status.nominated_node_name:
            self._nomination_ended(pod)

    def forget(self, pod: PodInfo) -> None:
        """Remove a pod that another scheduler bound. No event follows."""
        self._queues.nominator.remove(pod.uid)
        info = self._queues.get(pod.key)
        if info is not None and info.uid == pod.uid:
            self._queues.remove(info)
            self._queues.count_rejectors(info, -1)
            self._queues.mark(info, NOWHERE, "Deleted")
            self._mover.release_probe_pod(info)

    def reshape(self, shape_of: Callable[[QueuedPodInfo], Hashable | None], needs: Collection[Need] | None = None) -> None:
        """Give every pod, in flight or not, the shape that it has now; one whose shape or admission key changed changes its group.

        needs: only pods of which one of these holds are looked at in the queues. O(pods that are looked at, pods in flight).
        """
        for info in self._inflight:
            if self._queues.profiles[info.profile].admission is not None:
                self._inflight.record(ObservedEvent(REGROUPED, None, None), Scope(only_uid=info.uid))
        for info in [*(self._queues if needs is None else self._queues.index.having(needs)), *self._inflight]:
            shape = shape_of(info)
            if shape is not info.pod_info.shape:
                info.pod_info.shape = shape
                info.skippable = False
                if info.group is not None:
                    self._mover.regroup(info)
            elif info.group is not None and info.group.admission_keys and self._queues.group_key(info) != info.group.key:
                self._mover.regroup(info)

    # The scheduling loop.

    def pop(self) -> QueuedPodInfo | None:
        """Return the next pod to try; None: wait, then call again. Its failed plugins are cleared and it is in flight from now on."""
        for _ in range(_MAX_UNTRIED):
            info = self._queues.remove_head()
            if info is None:
                return None
            if info.uid in self._inflight.pods:
                log.error("a pod in flight was in the queue as well, the second one is dropped", pod=info.key, uid=info.uid)
                self._queues.count_rejectors(info, -1)
                self._mover.release_probe_pod(info)
            elif info.skippable and self._mover.return_untried(info):
                self._mover.release_probe_pod(info)
            else:
                info.attempts += 1
                return self._start_flight(info)
        return None

    def take(self, key: str, first: QueuedPodInfo | None = None) -> QueuedPodInfo | None:
        """Return this pod from whichever queue it is in, its nomination kept; None if it is in no queue. No attempt is counted.

        first: the popped pod of its group; its attempts and the time of its first one become this pod's (frameworkext.md §4 item 1).
        """
        info = self._queues.get(key)
        if info is None or info.uid in self._inflight.pods:
            return None
        self._queues.remove(info)
        if first is not None:
            info.attempts, info.initial_attempt_timestamp = first.attempts, first.initial_attempt_timestamp
        return self._start_flight(info)

    def item_of(self, pod: PodInfo) -> QueuedPodInfo | None:
        """Return what the queue knows of the pod, waiting or in flight."""
        flying = self._inflight.pods.get(pod.uid)
        return self._queues.get(pod.key) if flying is None else flying[1]

    async def wait_not_empty(self) -> None:
        """Return when `pop` may return a pod, but let other tasks run at least once."""
        await asyncio.sleep(0)
        while not self._queues.poppable:
            self._queues.arrivals.clear()
            await self._queues.arrivals.wait()

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> QueuePlace:
        """Return a pod whose attempt failed to the queue, with the outcome written into it. Its new place is returned."""
        waiting = self._queues.get(info.key)
        if waiting is not None:
            log.error("a pod returned to the queue but is there already", pod=info.key, uid=info.uid, place=waiting.place.value)
            self._inflight.finish(info.uid)
            return waiting.place
        if info.refused:
            info.unschedulable_count += 1
            info.consecutive_errors_count = 0
        else:
            info.consecutive_errors_count += 1
        self._queues.stamp(info, self._clock.now())
        self._queues.count_rejectors(info, 1)
        self._mover.requeue_failed(info, self._inflight.missed(info.uid))
        self._inflight.finish(info.uid)
        return info.place

    def done(self, uid: str) -> None:
        """End the flight of a pod that is not going to return: the events since its pop are no longer kept for it."""
        self._inflight.finish(uid)

    # Events and time.

    def move_all(self, event: ClusterEvent, old: Object | None, new: Object | None, scope: Scope = ALL_PODS) -> None:
        """Move the unschedulable pods that the event may help. Plugin state and the node table must show it already. O(affected groups)."""
        unschedulable, in_flight = len(self._queues.unschedulable), len(self._inflight.pods)
        if not unschedulable and not in_flight:
            return  # a start brings tens of thousands of events
        if self._is_registered(event):
            observed = ObservedEvent(event, old, new)
            if unschedulable:
                self._mover.move_all(observed, scope)
            if in_flight:
                self._inflight.record(observed, scope)

    def announce(self, event: ClusterEvent, key: AdmissionKey) -> None:
        """Move the pods that wait under this key and may be admitted now. The plugin must answer so already. O(groups under the key).

        The event is the reason that metrics and histories name; no plugin need have registered it.
        """
        self._mover.announce(event, key)
        if self._inflight.pods:
            self._inflight.record(ObservedEvent(event, None, None), Scope(admission=key))

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods to the active queue, backoff or not, if they pass PreEnqueue. One in flight is retried if its attempt fails."""
        for pod in pods:
            info = self._queues.get(pod.key)
            if pod.uid in self._inflight.pods:
                self._inflight.record(ObservedEvent(FORCE_ACTIVATE, None, pod.pod), Scope(only_uid=pod.uid))
            elif info is not None and info.place is not ACTIVE:
                info.skippable = False
                self._queues.enter_active(info, FORCE_ACTIVATE.label)

    def next_flush(self) -> float | None:
        """Return when `flush_backoff` is due: a whole second, or None if nothing backs off."""
        ends = [end for end in (self._queues.backoff.next_expiry(), self._mover.preemption_backoff.next_expiry()) if end is not None]
        return min(ends, default=None)

    def call_on_backoff(self, hook: Callable[[], None]) -> None:
        """Call the hook whenever a backoff has begun, so that a timer can be set to `next_flush`."""
        self._queues.on_backoff = hook

    def flush_backoff(self, now: float) -> None:
        """Move pods whose backoff is over at `now` to the active queue."""
        for info in self._queues.backoff.pop_expired(now):
            self._queues.enter_active(info, BACKOFF_COMPLETE)
        self._mover.flush_preemption(now)

    def next_timeout(self) -> float:
        """Return a moment before which `flush_unschedulable` has nothing to do, whichever pods fail meanwhile. O(groups)."""
        oldest = [group.oldest for group in self._queues.unschedulable.groups if not group.gating_plugin]
        return min([*oldest, self._clock.now()]) + self._settings.max_in_unschedulable

    def flush_unschedulable(self, now: float) -> None:
        """Move ungated pods that have been unschedulable too long; of a shape group one at a time, until an attempt fails."""
        self._mover.flush(now, self._settings.max_in_unschedulable)

    # Nominations.

    @property
    def nominator(self) -> Nominator:
        """The nominations, to read; write through `nominate`."""
        return self._queues.nominator

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod that exists and is not bound; "" withdraws. A nominated pod leaves its shape group."""
        if not node and pod.uid not in self._queues.nominator.nominations:
            return
        self._queues.nominator.set(pod, node)
        info = self._queues.get(pod.key)
        if info is not None and info.uid == pod.uid and info.place is UNSCHEDULABLE:
            self._mover.regroup(info)

    # Reading the state.

    @property
    def in_flight(self) -> list[QueuedPodInfo]:
        return list(self._inflight)

    def inflight_events(self) -> Mapping[str, int]:
        """Return the gauge inflight_events by event label."""
        return self._inflight.events_by_label()

    def sizes(self) -> Sizes:
        queues = self._queues
        gated = queues.unschedulable.gated
        return Sizes(len(queues.active), len(queues.backoff), len(queues.unschedulable) - gated, gated)

    def pending(self) -> list[QueuedPodInfo]:
        """Return the pods in all queues, the active ones first and in order."""
        queues = self._queues
        return [*queues.active.in_order(), *queues.backoff, *queues.unschedulable]

    def waiting(self) -> list[QueuedPodInfo]:
        """Return the pods in all queues, in any order."""
        return list(self._queues)

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._inflight.pods

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return the pod if it is in a queue."""
        return self._queues.get(key)

    def group_of(self, pod: PodInfo) -> UnschedulableGroup | None:
        """Return the group in which the pod waits, if it does."""
        info = self._queues.get(pod.key)
        return None if info is None else info.group

    def where(self, key: str) -> tuple[QueuePlace, float]:
        """Return where the pod is and since when (seconds since the epoch); (QueuePlace.NONE, 0) if the queue does not know it."""
        info = self._queues.get(key) or next((info for info in self._inflight if info.key == key), None)
        return (info.place, info.since) if info is not None else (NOWHERE, 0.0)

    def history(self, key: str) -> list[Transition]:
        """Return the pod's remembered transitions, oldest first."""
        return self._queues.history(key)

    def check_invariants(self) -> None:
        """Raise AssertionError, with the pod's history, if any pod is lost, in two queues, or out of order."""
        check(self._queues, self._inflight)

    def _is_registered(self, event: ClusterEvent) -> bool:
        known = self._registered.get(event)
        if known is None:
            known = self._registered[event] = any(registry.registered(event) for registry in self._queues.registries.values())
        return known

    def _add(self, pod: PodInfo, event: ClusterEvent) -> None:
        now = self._clock.now()
        info = QueuedPodInfo(pod, now)
        self._queues.stamp(info, now)
        self._queues.enter_active(info, event.label)

    def _update_unschedulable(self, info: QueuedPodInfo, old: PodInfo, new: PodInfo) -> None:
        """Evaluate the hints of the pod's own rejectors for each change. No probe: whoever changed the pod wants to see the result.

        But a pod that stands for a gang goes on waiting where it is another member that has to fit: the condition that says so is a change.
        """
        if not info.gated:
            self._queues.nominator.update(old, new)
        self._mover.update(info, new)
        if info.group is not None and self._mover.gang_still_refused(info.group, info, {}):
            return
        for event in pod_update_events(old, new):
            if info.group is None:
                return  # moved by an earlier event
            result = self._mover.evaluate_for(info, ObservedEvent(event, old.pod, new.pod), own=True)
            if result.strategy is not SKIP:
                self._mover.requeue(info, result.strategy, event.label)

    def _nomination_ended(self, pod: PodInfo) -> None:
        self.move_all(ASSIGNED_POD_DELETE, pod.pod, None, Scope(max_priority=pod.priority))

    def _start_flight(self, info: QueuedPodInfo) -> QueuedPodInfo:
        if info.unschedulable_plugins or info.pending_plugins:
            self._queues.count_rejectors(info, -1)
            info.unschedulable_plugins = set()
            info.pending_plugins = set()
        info.rejected_in_filter = False
        info.admission_plugin = ""
        info.gating_plugin = info.gating_message = ""
        info.after_flush, info.flushed, info.skippable = info.flushed, False, False
        info.popped_at = self._mover.activations
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self._clock.now()  # taken while gated
        self._inflight.start(info)
        self._queues.mark(info, IN_FLIGHT, POD_POPPED)
        if info.probe_pod_of is not None:
            self._mover.release_probe_pod(info)
        return info
