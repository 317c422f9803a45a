"""Seconds of a leader election: the three that an operator sets, and what follows from them."""

from __future__ import annotations

import math

import msgspec


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
