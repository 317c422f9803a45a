"""Pods in flight, and the events since they were popped (framework.md §3.3).

A pod that is being scheduled is in no queue, so an event cannot move it. Events are therefore kept until every pod popped before them is
done; when such a pod fails, they are evaluated for it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from koordsched.queue.events import POD_POPPED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.queue.events import ObservedEvent, Scope
    from koordsched.queue.queued_pod import QueuedPodInfo


class InFlightEvent(NamedTuple):
    """An event that happened while pods were in flight, and the pods it concerns."""

    number: int  # position in the one order of pops and events
    observed: ObservedEvent
    scope: Scope


class InFlight:
    """Pods popped and not done, and the events since the oldest of them was popped."""

    def __init__(self) -> None:
        self.pods: OrderedDict[str, tuple[int, QueuedPodInfo]] = OrderedDict()  # oldest first, by uid; OrderedDict finds the first in O(1)
        self._events: deque[InFlightEvent] = deque()
        self._number = 0

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (info for _, info in self.pods.values())

    @property
    def events(self) -> int:
        """How many events are kept."""
        return len(self._events)

    def events_by_label(self) -> dict[str, int]:
        """Return the gauge inflight_events: how many pods and events of each label are kept. O(events)."""
        return {POD_POPPED: len(self.pods), **Counter(kept.observed.event.label for kept in self._events)}

    def start(self, info: QueuedPodInfo) -> None:
        """Keep events for this pod from now on."""
        self._number += 1
        self.pods[info.uid] = (self._number, info)

    def record(self, observed: ObservedEvent, scope: Scope) -> None:
        """Keep the event if any pod is in flight."""
        if self.pods:
            self._number += 1
            self._events.append(InFlightEvent(self._number, observed, scope))

    def missed(self, uid: str) -> list[InFlightEvent] | None:
        """Return the events since the pod was popped, oldest first; None if it is not in flight."""
        found = self.pods.get(uid)
        if found is None:
            return None
        events: list[InFlightEvent] = []
        for event in reversed(self._events):
            if event.number < found[0]:
                break
            events.append(event)
        events.reverse()
        return events

    def finish(self, uid: str) -> None:
        """Remove the pod, and the events before which no other pod in flight was popped."""
        if self.pods.pop(uid, None) is None or not self._events:
            return
        oldest = next(iter(self.pods.values()))[0] if self.pods else self._number + 1
        while self._events and self._events[0].number < oldest:
            self._events.popleft()
