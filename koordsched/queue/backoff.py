"""The backoff queue (framework.md §3.3), and the shape groups that wait for a backoff before an attempt at preemption."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING

from koordsched.backoff import grown
from koordsched.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.queue.profile import QueueSettings
    from koordsched.queue.queued_pod import QueuedPodInfo, UnschedulableGroup


class BackoffQueue:
    """Pods by the second at which their backoff ends.

    A refused pod may be popped early when no other pod is active, one that failed with an error may not, to spare an API server that is in
    trouble; so each kind has its heap. Expiries are whole seconds, so that pods that fail within one second keep their order.
    """

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._rejected: PodHeap[QueuedPodInfo] = PodHeap()  # podBackoffQ
        self._failed: PodHeap[QueuedPodInfo] = PodHeap()  # podErrorBackoffQ

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self._rejected
        yield from self._failed

    @property
    def may_pop_early(self) -> bool:
        return self._settings.pop_from_backoff and len(self._rejected) > 0

    def duration(self, info: QueuedPodInfo) -> float:
        """Return the pod's backoff in seconds: initial * 2^(n-1) up to the maximum for the n-th failure in a row; 0 before the first."""
        settings = self._settings
        return grown(settings.initial_backoff, settings.max_backoff, info.consecutive_errors_count or info.unschedulable_count)

    def expiry(self, info: QueuedPodInfo) -> float:
        """Return the last whole second of the pod's backoff, 0 if it never failed; cached in the pod until its next failure."""
        if info.backoff_expiry is None:
            duration = self.duration(info)
            info.backoff_expiry = float(math.floor(info.timestamp + duration)) if duration else 0.0
        return info.backoff_expiry

    def is_backing_off(self, info: QueuedPodInfo, now: float) -> bool:
        """Answer whether the backoff lasts. The second of the expiry still counts, as in kube-scheduler: the wait is in (d, d + 1]."""
        expiry = self.expiry(info)
        return expiry > 0 and math.floor(now) <= expiry

    def add(self, info: QueuedPodInfo) -> None:
        heap = self._rejected if info.refused else self._failed
        heap.add((self.expiry(info), *info.sort_key), info)

    def remove(self, key: str) -> None:
        if self._rejected.remove(key) is None:
            self._failed.remove(key)

    def pop_early(self) -> QueuedPodInfo | None:
        """Remove and return the refused pod whose backoff ends first, over or not; None if there is none or the settings forbid it."""
        return self._rejected.pop() if self.may_pop_early else None

    def pop_expired(self, now: float) -> Iterator[QueuedPodInfo]:
        """Remove and yield the pods whose backoff is over, refused ones first."""
        for heap in (self._rejected, self._failed):
            while (info := heap.peek()) is not None and not self.is_backing_off(info, now):
                heap.pop()
                yield info

    def next_expiry(self) -> float | None:
        """Return the moment from which `pop_expired` yields a pod; None if no pod backs off."""
        heads = [info for heap in (self._rejected, self._failed) if (info := heap.peek()) is not None]
        return min(self.expiry(info) for info in heads) + 1.0 if heads else None


class PreemptionBackoff:
    """Parked shape groups that fit on no node but may preempt, by the second at which the backoff of their first pod ends.

    Only an attempt can find out whether preemption helps, and it costs a search for victims. On a full cluster nearly every event makes
    preemption look possible, and nearly all of these attempts would fail. So such a pod is not popped early, as pods in the backoff queue
    are, but tried when its backoff is over. An event after which a node fits moves the group before.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, UnschedulableGroup]] = []
        self._count = itertools.count()

    def add(self, group: UnschedulableGroup, expiry: float, label: str) -> None:
        """Let the group, which is not in, wait until this second. label: of the event since which preemption may help."""
        group.preemption_event = label
        heapq.heappush(self._heap, (expiry, next(self._count), group))

    def pop_due(self, now: float) -> Iterator[tuple[UnschedulableGroup, str]]:
        """Remove and yield the groups whose second is over, with their events' labels; not those that moved or lost their pods."""
        while self._heap and self._heap[0][0] < int(now):
            group = heapq.heappop(self._heap)[2]
            if group.preemption_event and group.members:
                label, group.preemption_event = group.preemption_event, ""
                yield group, label

    def next_expiry(self) -> float | None:
        """Return the moment from which `pop_due` may yield a group; None if no group waits."""
        return self._heap[0][0] + 1.0 if self._heap else None
