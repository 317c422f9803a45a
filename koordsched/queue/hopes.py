"""Hopes: shape groups whose pods fit nowhere, but that may make room by evicting others.

Only an attempt can tell whether they really may, and it costs a search for victims. On a full cluster nearly every event gives such hope
and nearly all of it is vain, so they are not tried early, as a pod may be when nothing else is to do, but when the backoff of their first
pod is over. Until then they stay asleep in their group: an event after which a node fits wakes them as it wakes everybody.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.queue.unschedulable import Group


class Hopes:
    """Groups by the second in which a backoff ends. One that has lost its hope or its members meanwhile is passed over."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Group]] = []
        self._count = itertools.count()

    def add(self, group: Group, expiry: float, label: str) -> None:
        """Let the group, which has none yet, hope since the event of this label until this second."""
        group.hope = label
        heapq.heappush(self._heap, (expiry, next(self._count), group))

    def pop_due(self, now: float) -> Iterator[tuple[Group, str]]:
        """Take the groups whose second is over, with the labels of their events."""
        while self._heap and self._heap[0][0] < int(now):
            group = heapq.heappop(self._heap)[2]
            if group.hope and group.members:
                label, group.hope = group.hope, ""
                yield group, label

    def next_expiry(self) -> float | None:
        """Return the moment from which `pop_due` may have something to give; None when nobody hopes."""
        return self._heap[0][0] + 1.0 if self._heap else None
