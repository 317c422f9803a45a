"""How long the things of a leader election may take, and until when this process may act as the leader.

The elector's thread writes it, the scheduler's thread reads it right before each request that changes something is sent; each access is one
attribute, so no lock is needed. Time is the clock's `uptime`: it passes while the process is stopped, and it is this process's own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import msgspec

from koordsched.cluster.port import NotLeading

if TYPE_CHECKING:
    from koordsched.clock import Clock


class Timing(msgspec.Struct, frozen=True):
    """LeaderElectionConfiguration's durations, in seconds: lease_duration > renew_deadline > 1.2 * retry_period (config/ holds it)."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @property
    def term(self) -> float:
        """Return how long a leader may lead after it began its last successful renewal.

        client-go tries again a retry period after a success and goes on for the renew deadline. Where that comes close to the lease's
        duration, half of what is left after the renew deadline is kept as a margin.
        """
        return self.renew_deadline + min(self.retry_period, (self.lease_duration - self.renew_deadline) / 2)

    @property
    def last_moment(self) -> float:
        """Return how long after it began its last successful renewal the process may run at all: midway between term and duration."""
        return (self.term + self.lease_duration) / 2

    @property
    def lease_seconds(self) -> int:
        """Return the duration as a Lease has it: whole seconds, never fewer than are meant."""
        return max(1, math.ceil(self.lease_duration))

    @property
    def request_timeout(self) -> float:
        """Return how long one request may take, as client-go has it: so that there is time for another one."""
        return max(1.0, self.renew_deadline / 2)


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
        """End it now: nothing is decided from here on. The guard stays armed: the process may be unable to notice."""
        self._until = -math.inf

    def disarm(self) -> None:
        """Let the process live on after the term, because it is stopping by itself."""
        self.end()
        if self._guard is not None:
            self._guard.disarm()

    def check(self) -> None:
        """Return while it lasts. NotLeading: what is about to be sent must not be."""
        if not self.running:
            raise NotLeading("not sent: this process does not hold the lease, or may have lost it")
