"""Pace: keeps what serves to a share of the time, since what it computes is taken from scheduling: both need Python's one lock.

CPU time that was used beyond the share is waited for before the next request is answered, one after the other. What handshakes, reading
requests and probes take counts as well, although nothing here holds them up: the number of handshakes has a limit of its own
(`connections.Handshakes`), and probes have time limits and cost less than reading them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE = 0.05
"""CPU seconds a second."""
SAVED_SECONDS = 0.1
"""What time without requests leaves for a burst, such as a scrape of /metrics and /metrics/resources. At the start nothing is saved yet."""
OWED_SECONDS = 0.25
"""The most that can be owed, lest a burst keeps others out for long: nobody waits for more than OWED_SECONDS / SHARE on its account."""

LEAST_REST = 0.001


class Pace:
    """`cpu` returns the CPU seconds used so far, `now` the seconds of the loop."""

    def __init__(self, cpu: Callable[[], float], now: Callable[[], float]) -> None:
        self._cpu = cpu
        self._now = now
        self._left = 0.0
        self._counted = cpu(), now()
        self._turn = asyncio.Lock()  # first come, first served

    async def wait(self) -> None:
        """Wait until it is this request's turn and no more than the share has been used."""
        async with self._turn:
            rest = self._rest()
            while rest > 0:
                await asyncio.sleep(max(rest, LEAST_REST))
                rest = self._rest()

    def _rest(self) -> float:
        """Return for how many seconds nothing should be answered."""
        (cpu, now), self._counted = self._counted, (self._cpu(), self._now())
        left = self._left + SHARE * (self._counted[1] - now) - (self._counted[0] - cpu)
        self._left = max(-OWED_SECONDS, min(SAVED_SECONDS, left))
        return -self._left / SHARE
