"""Pace: keeps the serving thread to a share of the time, since what it computes is taken from scheduling: both need Python's one lock.

CPU time that the thread has used beyond its share is waited for before the next request is answered, one after the other. What handshakes,
reading requests and probes take counts as well, although nothing holds them up: probes have time limits and cost less than reading them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE = 0.1
"""CPU seconds of the serving thread a second."""
SAVED_SECONDS = 0.5
"""What time without requests leaves for a burst; and the most that the thread may owe, lest a burst keeps others out for long."""

LEAST_REST = 0.001


class Pace:
    """`cpu` returns the CPU seconds that the thread has used, `now` the seconds of its loop."""

    def __init__(self, cpu: Callable[[], float], now: Callable[[], float]) -> None:
        self._cpu = cpu
        self._now = now
        self._left = SAVED_SECONDS
        self._counted = cpu(), now()
        self._turn = asyncio.Lock()  # first come, first served

    async def wait(self) -> None:
        """Wait until it is this request's turn and the thread is within its share."""
        async with self._turn:
            rest = self._rest()
            while rest > 0:
                await asyncio.sleep(max(rest, LEAST_REST))
                rest = self._rest()

    def _rest(self) -> float:
        """Return for how many seconds the thread should do nothing."""
        (cpu, now), self._counted = self._counted, (self._cpu(), self._now())
        left = self._left + SHARE * (self._counted[1] - now) - (self._counted[0] - cpu)
        self._left = max(-SAVED_SECONDS, min(SAVED_SECONDS, left))
        return -self._left / SHARE
