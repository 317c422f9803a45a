"""The backoff queue: pods that may be tried again when their penalty is over (framework.md §3.3).

Two heaps, because a refused pod may be popped early when nothing else is to do, and one that failed with an error may not: hammering an
API server that is in trouble helps nobody. Expiries are whole seconds, so that pods that fail within one second keep their order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from koordsched.backoff import grown
from koordsched.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.queue.profile import QueueSettings
    from koordsched.queue.queued_pod import QueuedPodInfo


class BackoffQueue:
    """Pods by the second at which their backoff ends."""

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._rejected = PodHeap()  # podBackoffQ
        self._failed = PodHeap()  # podErrorBackoffQ

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, key: str) -> bool:
        return key in self._rejected or key in self._failed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self._rejected
        yield from self._failed

    @property
    def may_pop_early(self) -> bool:
        return self._settings.pop_from_backoff and len(self._rejected) > 0

    def duration(self, info: QueuedPodInfo) -> float:
        """Return the pod's penalty in seconds: initial * 2^(n-1) up to the maximum for the n-th failure in a row; 0 before the first."""
        settings = self._settings
        return grown(settings.initial_backoff, settings.max_backoff, info.consecutive_errors_count or info.unschedulable_count)

    def expiry(self, info: QueuedPodInfo) -> float:
        """Return the last whole second of the pod's backoff, 0 if it never failed; cached in the pod until its next failure."""
        if info.backoff_expiry is None:
            duration = self.duration(info)
            info.backoff_expiry = float(math.floor(info.timestamp + duration)) if duration else 0.0
        return info.backoff_expiry

    def is_backing_off(self, info: QueuedPodInfo, now: float) -> bool:
        """Answer whether the penalty lasts. The second of the expiry still counts, as in kube-scheduler: the wait is in (d, d + 1]."""
        expiry = self.expiry(info)
        return expiry > 0 and math.floor(now) <= expiry

    def add(self, info: QueuedPodInfo) -> None:
        heap = self._rejected if info.refused else self._failed
        heap.add((self.expiry(info), *info.sort_key), info)

    def remove(self, key: str) -> None:
        if self._rejected.remove(key) is None:
            self._failed.remove(key)

    def pop_early(self) -> QueuedPodInfo | None:
        """Take the refused pod whose backoff ends first, over or not; None if there is none or the settings forbid it."""
        return self._rejected.pop() if self.may_pop_early else None

    def pop_expired(self, now: float) -> Iterator[QueuedPodInfo]:
        """Take the pods whose backoff is over, refused ones first."""
        for heap in (self._rejected, self._failed):
            while (info := heap.peek()) is not None and not self.is_backing_off(info, now):
                heap.pop()
                yield info

    def next_expiry(self) -> float | None:
        """Return the moment from which `pop_expired` has something to give; None when nobody backs off."""
        heads = [info for heap in (self._rejected, self._failed) if (info := heap.peek()) is not None]
        return min(self.expiry(info) for info in heads) + 1.0 if heads else None
