"""A heap of waiting pods from which any pod can be taken by its key.

Removal is lazy: an entry that is no longer the pod's own stays in the heap until it comes to the top or the dead outnumber the living.
Equal orders are broken by `QueuedPodInfo.sequence`, so that the order never depends on how the heap was filled.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from koordsched.queue.queued_pod import QueuedPodInfo, SortKey

if TYPE_CHECKING:
    from collections.abc import Iterator

Entry = tuple[Any, ...]  # the order's parts, sequence, number of the insertion (never equal), pod; flat, since nested tuples compare slowly

_SMALL = 64  # entries; below it dead ones are not worth removing


class PodHeap:
    """Pods by order, each key at most once. All but `in_order` and iteration are O(log n) amortised."""

    __slots__ = ("_entries", "_inserted", "_live")

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._live: dict[str, Entry] = {}
        self._inserted = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: str) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Yield the pods in no particular order; the heap must not change meanwhile."""
        return (entry[-1] for entry in self._live.values())

    def add(self, order: SortKey, info: QueuedPodInfo) -> None:
        """Put the pod in, or give it a new order if it is in."""
        self._inserted += 1
        entry = (*order, info.sequence, self._inserted, info)
        self._live[info.key] = entry
        heapq.heappush(self._entries, entry)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod out; None if it is not in."""
        entry = self._live.pop(key, None)
        if entry is None:
            return None
        if len(self._entries) > _SMALL and len(self._entries) > 2 * len(self._live):
            self._entries = list(self._live.values())
            heapq.heapify(self._entries)
        info: QueuedPodInfo = entry[-1]
        return info

    def peek(self) -> QueuedPodInfo | None:
        """Return the first pod; None if there is none."""
        entries, live = self._entries, self._live
        while entries:
            entry = entries[0]
            info: QueuedPodInfo = entry[-1]
            if live.get(info.key) is entry:
                return info
            heapq.heappop(entries)
        return None

    def pop(self) -> QueuedPodInfo | None:
        """Take the first pod out; None if there is none."""
        info = self.peek()
        if info is not None:
            heapq.heappop(self._entries)
            del self._live[info.key]
        return info

    def in_order(self) -> list[QueuedPodInfo]:
        """Return all pods, first to last."""
        return [entry[-1] for entry in sorted(self._live.values())]
