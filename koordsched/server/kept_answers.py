"""Answers that cost something to make: made once for all who ask at the same time, one after the other, and given again for a while.

After an answer that took some seconds of work nothing is made for a multiple of them. So all that is asked for here together takes at most
a share of the time, however often it is asked for: those who ask wait, or get what was made shortly before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from koordsched.server.response import Response, text
from koordsched.slices import Slices
from koordsched.tasks import call_later

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    Make = Callable[[Slices], Awaitable[Response]]

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
