"""The queue's memory of who went where and why: a bounded ring, asked for one pod's story when somebody wonders."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from koordsched.queue.queued_pod import Place


class Step(NamedTuple):
    """One transition of a pod."""

    time: float  # seconds since the epoch
    key: str
    place: Place  # where it went
    event: str  # why: the label of the metric

    def __str__(self) -> str:
        return f"{self.time:.3f} {self.key} -> {self.place.name} ({self.event})"


class History:
    """The last transitions of all pods together."""

    def __init__(self, length: int = 20_000) -> None:
        self._steps: deque[tuple[float, str, Place, str]] = deque(maxlen=length)  # the fields of a Step, which would cost 1 us to make

    def record(self, time: float, key: str, place: Place, event: str) -> None:
        self._steps.append((time, key, place, event))

    def story(self, key: str) -> list[Step]:
        """Return the pod's remembered transitions, oldest first. O(length of the ring)."""
        return [Step(*step) for step in self._steps if step[1] == key]
