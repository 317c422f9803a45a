"""What answering may cost, since what it computes is taken from scheduling: both need Python's one lock.

All requests together have a share of the time (`Pace`). Answers that take work to make have a smaller share of their own, and are given
again for a while (`KeptAnswers`): asking often costs the client, not the scheduler.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from koordsched.server.http import Response, text
from koordsched.slices import Slices
from koordsched.tasks import call_later

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    Make = Callable[[Slices], Awaitable[Response]]

SHARE = 0.1
"""CPU seconds a second."""
BUSY_SHARE = 0.05
"""While the main loop has a backlog: whoever waits for its work comes before whoever looks at it."""
SAVED_SECONDS = 0.1
"""What time without requests leaves for a burst, such as a scrape of /metrics and /metrics/resources. At the start nothing is saved yet."""
OWED_SECONDS = 0.25
"""The most that can be owed, so that a burst delays later requests by OWED_SECONDS / SHARE at most."""

LEAST_REST = 0.001
MOST_REST = 1.0
"""Seconds before one answer. Probes are not held up and may use up the share; something else is answered every second still."""


GATHER_SECONDS = 0.02
"""While the main loop has a backlog, requests gather for so long: each time that a thread takes Python's lock the other one stands still
until the kernel gives it a CPU again, which other processes want, too. Probes are later by as much."""
ANSWER_SECONDS = 0.002
"""What has gathered is answered in turns of so long, several turns of the loop."""


class Pace:
    """`cpu` returns the CPU seconds used so far, `now` the seconds of the loop, `is_busy` whether the main loop has a backlog."""

    def __init__(self, cpu: Callable[[], float], now: Callable[[], float], is_busy: Callable[[], bool]) -> None:
        self._cpu = cpu
        self._now = now
        self._is_busy = is_busy
        self._left = 0.0
        self._counted = cpu(), now()
        self._turn = asyncio.Lock()  # first come, first served
        self._sleeps = False  # soon

    def asked(self) -> None:
        """Take notice of a request. While the main loop has a backlog the thread, loop and all, sleeps after a moment of answering."""
        if not self._sleeps and self._is_busy():
            self._sleeps = True
            call_later(ANSWER_SECONDS, self._gather)

    def _gather(self) -> None:
        self._sleeps = False
        time.sleep(GATHER_SECONDS)

    async def wait(self) -> None:
        """Wait until it is this request's turn and no more than the share has been used, MOST_REST at most."""
        async with self._turn:
            end = self._now() + MOST_REST
            rest = self._rest()
            while rest > 0 and self._now() < end:
                await asyncio.sleep(min(max(rest, LEAST_REST), max(end - self._now(), LEAST_REST)))
                rest = self._rest()

    def _rest(self) -> float:
        """Return for how many seconds nothing should be answered."""
        (cpu, now), self._counted = self._counted, (self._cpu(), self._now())
        share = BUSY_SHARE if self._is_busy() else SHARE
        left = self._left + share * (self._counted[1] - now) - (self._counted[0] - cpu)
        self._left = max(-OWED_SECONDS, min(SAVED_SECONDS, left))
        return -self._left / share


OK = 200
MOST_WAITING = 64
"""Different answers that may wait to be made."""
TOO_MANY = text(429, "too many different requests wait for their answers, try again later\n")


class Bounds(msgspec.Struct, frozen=True):
    """`share`: the part of the time that making answers may take. `least_seconds`: how long an answer is kept at least."""

    share: float
    least_seconds: float = 0.0


class KeptAnswers:
    """The answers of one kind of endpoint. `perf` is the clock's."""

    def __init__(self, perf: Callable[[], float], bounds: Bounds) -> None:
        self._perf = perf
        self._bounds = bounds
        self._kept: dict[Hashable, Response] = {}
        self._making: dict[Hashable, asyncio.Task[Response]] = {}
        self._turn: asyncio.Lock | None = None  # of the loop that answers
        self._free_at = 0.0

    async def answer(self, key: Hashable, make: Make) -> Response:
        """Return the answer that is kept under a key, or else the one that `make` returns; only a 200 is kept."""
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        making = self._making.get(key)
        if making is None:
            if len(self._making) >= MOST_WAITING:
                return TOO_MANY
            making = self._making[key] = asyncio.create_task(self._made(key, make))
        return await asyncio.shield(making)  # the others get their answer although the first one has gone

    def forget(self) -> None:
        """Keep nothing of what was made before."""
        self._kept.clear()

    async def _made(self, key: Hashable, make: Make) -> Response:
        try:
            return await self._make(key, make)
        finally:
            del self._making[key]

    async def _make(self, key: Hashable, make: Make) -> Response:
        loop = asyncio.get_running_loop()
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            await asyncio.sleep(max(0.0, self._free_at - loop.time()))
            work = Slices(self._perf)
            try:
                response = await make(work)
            finally:
                rest = work.seconds * (1 / self._bounds.share - 1)
                self._free_at = loop.time() + rest
        if response.status == OK:
            self._kept[key] = response
            call_later(max(rest, self._bounds.least_seconds), self._expire, key, response)
        return response

    def _expire(self, key: Hashable, response: Response) -> None:
        if self._kept.get(key) is response:
            del self._kept[key]
