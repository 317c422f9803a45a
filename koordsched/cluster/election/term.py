"""Until when this process may act as the leader.

The elector's thread writes it, the scheduler's thread reads it right before each request that changes something is sent; each access is one
attribute, so no lock is needed. Time is the clock's `uptime`: it passes while the process is stopped, and it is this process's own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from koordsched.cluster.port import NotLeading

if TYPE_CHECKING:
    from koordsched.clock import Clock
    from koordsched.cluster.election.timing import Timing


class TermWatchdog(Protocol):
    """Ends the process at a moment unless a later one is set: whatever the process is doing then, or is prevented from doing."""

    def arm(self, uptime: float) -> None: ...

    def disarm(self) -> None: ...


class LeaderTerm:
    """A term of leadership; over before it has begun."""

    def __init__(self, clock: Clock, timing: Timing, guard: TermWatchdog | None = None) -> None:
        self.renewed = -math.inf  # uptime at the beginning of the last request that succeeded
        self._clock = clock
        self._timing = timing
        self._guard = guard
        self._until = -math.inf

    @property
    def left(self) -> float:
        """Return how many seconds it still lasts; zero or less: it is over."""
        return self._until - self._clock.uptime()

    @property
    def running(self) -> bool:
        return self.left > 0.0

    def extend(self, renewed: float) -> None:
        """Let it last until its time after this uptime, at which a successful request was begun."""
        self.renewed = renewed
        if self._guard is not None:
            self._guard.arm(renewed + self._timing.last_moment)
        self._until = renewed + self._timing.term

    def end(self) -> None:
        """End it now: nothing is decided from here on. The guard stays armed, for there may be who does not notice."""
        self._until = -math.inf

    def disarm(self) -> None:
        """Let the process live on, because it stops of its own accord."""
        self.end()
        if self._guard is not None:
            self._guard.disarm()

    def check(self) -> None:
        """Return while it lasts. NotLeading: what is about to be sent must not be."""
        if not self.running:
            raise NotLeading("not sent: this process does not hold the lease, or may have lost it")
