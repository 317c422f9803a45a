"""SchedulingQueue: the pods that wait to be scheduled (framework.md §3).

A state machine without awaits: one scheduling loop pops, event handlers add, update, delete and move; nothing else runs in between. Time
is the Clock's; the caller runs `flush_backoff` at `next_flush()` and `flush_unschedulable` every 30 s. A pod handed out by `pop` or `take`
is in flight until `done` or `add_unschedulable_if_not_present`. `PodInfo.shape` must be set before a pod is given to `add` or `update`.
What must always hold is in `invariants`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from koordsched.log import get_logger
from koordsched.queue.event_detection import pod_update_events
from koordsched.queue.events import (
    ASSIGNED_POD_DELETE,
    BACKOFF_COMPLETE,
    EVERYBODY,
    FORCE_ACTIVATE,
    POD_POPPED,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_UPDATE,
    ClusterEvent,
    Scope,
)
from koordsched.queue.hints import SKIP, Change, Oracle
from koordsched.queue.inflight import InFlight
from koordsched.queue.invariants import check
from koordsched.queue.profile import NoMetrics, QueueMetrics, QueueProfile, QueueSettings
from koordsched.queue.queued_pod import ACTIVE, BACKOFF, IN_FLIGHT, NOWHERE, UNSCHEDULABLE, Place, QueuedPodInfo
from koordsched.queue.sub_queues import SubQueues
from koordsched.queue.waking import Waker

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.clock import Clock
    from koordsched.queue.history import Step
    from koordsched.queue.nominator import Nominator

log = get_logger(__name__)

_MAX_SENT_BACK = 1000  # pods that one pop sends back without an attempt before it lets other tasks run; about 10 ms


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
        settings: QueueSettings | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._clock = clock
        self._settings = settings or QueueSettings()
        self._metrics = metrics or NoMetrics()
        self._queues = SubQueues(clock, profiles, self._settings, self._metrics)
        self._inflight = InFlight()
        self._waker = Waker(self._queues, Oracle(clock, self._metrics), self._metrics)
        self._registered: dict[ClusterEvent, bool] = {}
        self._cycle = 0

    # Pods come, change and go.

    def add(self, pod: PodInfo) -> None:
        """Add a new pending pod of one of the profiles."""
        waiting = self._queues.get(pod.key)
        if waiting is not None:
            self.update(waiting.pod_info, pod)
        else:
            self._add(pod, UNSCHEDULABLE_POD_ADD)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Follow a change of a pending, not assumed pod; one that is nowhere is added. The same resourceVersion is ignored."""
        version = new.pod.metadata.resource_version
        if old.uid != new.uid:  # deleted and created again, and the watch missed it
            self.delete(old)
            self.add(new)
        elif not version or version != old.pod.metadata.resource_version:
            self._update(old, new)
            lost_nomination = old.pod.status.nominated_node_name not in {"", new.pod.status.nominated_node_name}
            if lost_nomination:
                self._nomination_went_away(old)

    def delete(self, pod: PodInfo) -> None:
        """Forget a pending pod that was deleted. One in flight stays so until its attempt ends."""
        self.forget(pod)
        if pod.pod.status.nominated_node_name:
            self._nomination_went_away(pod)

    def forget(self, pod: PodInfo) -> None:
        """Forget a pod without telling the others: somebody bound it."""
        self._queues.nominator.remove(pod.uid)
        info = self._queues.get(pod.key)
        if info is not None and info.uid == pod.uid:
            self._queues.remove(info)
            self._queues.count_rejectors(info, -1)
            self._queues.mark(info, NOWHERE, "Deleted")
            self._waker.release_scout(info)

    def reshape(self, shape_of: Callable[[QueuedPodInfo], Hashable | None]) -> None:
        """Give every pod, in flight or not, the shape that it has by now. One that waits for an event then waits among others. O(pods)."""
        for info in [*self._queues, *self._inflight]:
            shape = shape_of(info)
            if shape is not info.pod_info.shape:
                info.pod_info.shape = shape
                info.skippable = False
                if info.group is not None:
                    self._waker.regroup(info)

    # The scheduling loop.

    def pop(self) -> QueuedPodInfo | None:
        """Hand out the next pod to try; None: wait, then ask again. Its failed plugins are cleared and it is in flight from now on."""
        for _ in range(_MAX_SENT_BACK):
            info = self._queues.remove_head()
            if info is None:
                return None
            if info.uid in self._inflight.pods:
                log.error("a pod in flight was in the queue as well, the second one is dropped", pod=info.key, uid=info.uid)
                self._queues.count_rejectors(info, -1)
                self._waker.release_scout(info)
            elif info.skippable and self._waker.turn_back(info):
                self._waker.release_scout(info)
            else:
                info.attempts += 1
                return self._hand_out(info)
        return None

    def take(self, key: str) -> QueuedPodInfo | None:
        """Hand out this very pod, wherever it waits, without counting an attempt (the members of a gang); None if it does not wait."""
        info = self._queues.get(key)
        if info is None or info.uid in self._inflight.pods:
            return None
        self._queues.remove(info)
        return self._hand_out(info)

    async def wait_not_empty(self) -> None:
        """Return when `pop` may have something, but let other tasks run at least once."""
        await asyncio.sleep(0)
        while not self._queues.poppable:
            self._queues.arrivals.clear()
            await self._queues.arrivals.wait()

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> Place:
        """Take a pod back whose attempt failed, with the outcome written into it; return where it went."""
        waiting = self._queues.get(info.key)
        if waiting is not None:
            log.error("a pod came back to the queue but is there already", pod=info.key, uid=info.uid, place=waiting.place.value)
            self._inflight.finish(info.uid)
            return waiting.place
        if info.refused:
            info.unschedulable_count += 1
            info.consecutive_errors_count = 0
        else:
            info.consecutive_errors_count += 1
        self._queues.stamp(info, self._clock.now())
        self._queues.count_rejectors(info, 1)
        self._waker.come_back(info, self._inflight.missed(info.uid))
        self._inflight.finish(info.uid)
        return info.place

    def done(self, uid: str) -> None:
        """End the pod's flight: it was decided upon and will not come back for the events it missed."""
        self._inflight.finish(uid)

    # Events and time.

    def move_all(self, event: ClusterEvent, old: Object | None, new: Object | None, scope: Scope = EVERYBODY) -> None:
        """Tell the waiting pods what happened; plugin state and the node table must show it already. O(affected groups)."""
        if not self._is_registered(event):
            return
        somebody_waits, somebody_flies = len(self._queues.unschedulable), len(self._inflight.pods)
        if somebody_waits or somebody_flies:  # a quiet cluster starts with tens of thousands of events
            change = Change(event, old, new)
            if somebody_waits:
                self._waker.move_all(change, scope)
            if somebody_flies:
                self._inflight.record(change, scope)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods that wait to the active queue, backoff or not; PreEnqueue applies. One in flight is retried if it fails."""
        for pod in pods:
            info = self._queues.get(pod.key)
            if pod.uid in self._inflight.pods:
                self._inflight.record(Change(FORCE_ACTIVATE, None, pod.pod), Scope(only_uid=pod.uid))
            elif info is not None and info.place is not ACTIVE:
                info.skippable = False
                self._queues.enter_active(info, FORCE_ACTIVATE.label)

    def next_flush(self) -> float | None:
        """Return when `flush_backoff` is due: a whole second, or None when nobody backs off."""
        ends = [end for end in (self._queues.backoff.next_expiry(), self._waker.hopes.next_expiry()) if end is not None]
        return min(ends, default=None)

    def call_on_backoff(self, hook: Callable[[], None]) -> None:
        """Call the hook whenever a pod has begun to back off, so that a timer can be set to `next_flush`."""
        self._queues.on_backoff = hook

    def flush_backoff(self, now: float) -> None:
        """Move pods whose backoff is over at `now` to the active queue."""
        for info in self._queues.backoff.pop_expired(now):
            self._queues.enter_active(info, BACKOFF_COMPLETE)
        self._waker.try_hopeful(now)

    def next_timeout(self) -> float:
        """Return a moment before which `flush_unschedulable` has nothing to do, whoever fails meanwhile. O(groups)."""
        waiting = [group.oldest for group in self._queues.unschedulable.groups if not group.gating_plugin]
        return min([*waiting, self._clock.now()]) + self._settings.max_in_unschedulable

    def flush_unschedulable(self, now: float) -> None:
        """Retry ungated pods that have waited too long; of a shape that failed one at a time until one fails again."""
        self._waker.flush(now, self._settings.max_in_unschedulable)

    # Nominations.

    @property
    def nominator(self) -> Nominator:
        """The nominations, to read; write through `nominate`."""
        return self._queues.nominator

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod that exists and is not bound; "" withdraws. A nominated pod no longer shares the fate of its shape."""
        if not node and pod.uid not in self._queues.nominator:
            return
        self._queues.nominator.set(pod, node)
        info = self._queues.get(pod.key)
        if info is not None and info.uid == pod.uid and info.place is UNSCHEDULABLE:
            self._waker.regroup(info)

    # To look at.

    @property
    def scheduling_cycle(self) -> int:
        """How many pods have been handed out."""
        return self._cycle

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
        """Return the pod if it waits in a queue."""
        return self._queues.get(key)

    def alike(self, pod: PodInfo) -> Iterator[QueuedPodInfo]:
        """Yield the unschedulable pods that share the fate of this pod's shape. The queue must not change meanwhile."""
        info = self._queues.get(pod.key)
        group = info.group if info is not None else None
        if group is not None and group.by_shape:
            yield from group.members

    def where(self, key: str) -> tuple[Place, float]:
        """Return where the pod is and since when (seconds since the epoch); (Place.NONE, 0) if the queue does not know it."""
        info = self._queues.get(key) or next((info for info in self._inflight if info.key == key), None)
        return (info.place, info.since) if info is not None else (NOWHERE, 0.0)

    def story(self, key: str) -> list[Step]:
        """Return what the queue remembers of the pod's way, oldest first."""
        return self._queues.history.story(key)

    def check_invariants(self) -> None:
        """Raise AssertionError, with the pod's story, if any pod is lost, in two queues, or out of order."""
        check(self._queues, self._inflight)

    def _is_registered(self, event: ClusterEvent) -> bool:
        known = self._registered.get(event)
        if known is None:
            known = self._registered[event] = any(book.registered(event) for book in self._queues.books.values())
        return known

    def _add(self, pod: PodInfo, event: ClusterEvent) -> None:
        now = self._clock.now()
        info = QueuedPodInfo(pod, now)
        self._queues.stamp(info, now)
        self._queues.enter_active(info, event.label)

    def _update(self, old: PodInfo, new: PodInfo) -> None:
        info = self._queues.get(new.key)
        if new.uid in self._inflight.pods:
            for event in pod_update_events(old, new):
                if self._is_registered(event):
                    self._inflight.record(Change(event, old.pod, new.pod), Scope(only_uid=new.uid))
        elif info is None:
            self._add(new, UNSCHEDULABLE_POD_UPDATE)
        elif info.place is ACTIVE or info.place is BACKOFF:
            self._queues.nominator.update(old, new)
            self._queues.replace(info, new)
            info.skippable = False
        else:
            self._update_unschedulable(info, old, new)

    def _update_unschedulable(self, info: QueuedPodInfo, old: PodInfo, new: PodInfo) -> None:
        """Ask the pod's own rejectors about each change. No probe: who changes a pod wants to see what comes of it."""
        if not info.gated:
            self._queues.nominator.update(old, new)
        self._waker.update(info, new)
        for event in pod_update_events(old, new):
            if info.group is None:
                return  # moved by an earlier one
            opinion = self._waker.ask_own(info, Change(event, old.pod, new.pod))
            if opinion.verdict is not SKIP:
                self._waker.requeue(info, opinion.verdict, event.label)

    def _nomination_went_away(self, pod: PodInfo) -> None:
        self.move_all(ASSIGNED_POD_DELETE, pod.pod, None, Scope(max_priority=pod.priority))

    def _hand_out(self, info: QueuedPodInfo) -> QueuedPodInfo:
        self._cycle += 1
        if info.unschedulable_plugins or info.pending_plugins:
            self._queues.count_rejectors(info, -1)
            info.unschedulable_plugins = set()
            info.pending_plugins = set()
        info.rejected_in_filter = False
        info.gating_plugin = info.gating_message = ""
        info.after_flush, info.flushed, info.skippable = info.flushed, False, False
        info.popped_at = self._waker.now_number
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self._clock.now()  # taken while gated
        self._inflight.start(info)
        self._queues.mark(info, IN_FLIGHT, POD_POPPED)
        if info.scout_of is not None:
            self._waker.release_scout(info)
        return info
