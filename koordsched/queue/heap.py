"""A heap of pods from which any pod can be removed by its key.

Most pods are added in the order in which they leave: such a pod is appended to a sorted run, which costs one comparison; only others go
through the heap. Removal is lazy: an entry that is no longer the pod's own stays until it comes to the front or such entries outnumber the
pods. Equal orders are broken by the pod's `sequence`, so that the order never depends on how the heap was filled.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class HeapPod(Protocol):
    """What the heap reads of a pod."""

    key: str
    sequence: int


PodT = TypeVar("PodT", bound=HeapPod)

SortKey = tuple[float, ...]
"""A pod's order; smaller comes first."""

Entry = tuple[Any, ...]  # the order's parts, sequence, insertion number (unique), pod; flat, since nested tuples compare slowly

_SMALL = 64  # entries; with fewer, removing stale ones is not worth it


class PodHeap(Generic[PodT]):
    """Pods by order, each key at most once. All but `in_order` and iteration are O(log n) amortised."""

    __slots__ = ("_heap", "_inserted", "_live", "_run")

    def __init__(self) -> None:
        self._run: deque[Entry] = deque()  # sorted
        self._heap: list[Entry] = []
        self._live: dict[str, Entry] = {}
        self._inserted = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[PodT]:
        """Yield the pods in no particular order; the heap must not change meanwhile."""
        return (entry[-1] for entry in self._live.values())

    def add(self, order: SortKey, info: PodT) -> None:
        """Put the pod in, or give it a new order if it is in."""
        self._inserted += 1
        entry = (*order, info.sequence, self._inserted, info)
        self._live[info.key] = entry
        run = self._run
        if not run or entry > run[-1]:
            run.append(entry)
        else:
            heapq.heappush(self._heap, entry)

    def remove(self, key: str) -> PodT | None:
        """Take the pod out; None if it is not in."""
        entry = self._live.pop(key, None)
        if entry is None:
            return None
        if len(self._run) + len(self._heap) > max(_SMALL, 2 * len(self._live)):
            self._run = deque(sorted(self._live.values()))
            self._heap.clear()
        info: PodT = entry[-1]
        return info

    def peek(self) -> PodT | None:
        """Return the first pod; None if there is none."""
        front: Sequence[Entry] = self._run
        if not front or self._heap or self._live.get(front[0][-1].key) is not front[0]:  # what _front would return in most calls
            front = self._front()
        return front[0][-1] if front else None

    def pop(self) -> PodT | None:
        """Take the first pod out; None if there is none."""
        front = self._front()
        if not front:
            return None
        entry = heapq.heappop(self._heap) if front is self._heap else self._run.popleft()
        info: PodT = entry[-1]
        del self._live[info.key]
        return info

    def in_order(self) -> list[PodT]:
        """Return all pods, first to last."""
        return [entry[-1] for entry in sorted(self._live.values())]

    def _front(self) -> Sequence[Entry]:
        """Return which of run and heap begins with the first pod, an empty one if there is none."""
        run, heap, live = self._run, self._heap, self._live
        while run and live.get(run[0][-1].key) is not run[0]:
            run.popleft()
        while heap and live.get(heap[0][-1].key) is not heap[0]:
            heapq.heappop(heap)
        return run if run and (not heap or run[0] < heap[0]) else heap
