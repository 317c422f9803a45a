"""LogQueue: lines that are made and written after the cycle that they are about, some at a time, so that scheduling goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from koordsched.log import Verbatim, get_logger
from koordsched.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koordsched.clock import Clock

log = get_logger(__name__)


class LogQueue:
    """Entries that wait to be written, each of a pod; one that finds the queue full is dropped, which is a warning."""

    def __init__(self, what: str, size: int, a_turn: int, clock: Clock) -> None:
        """what: the queue's name in the warning. size: entries that may wait. a_turn: of them written at once."""
        self._what = what
        self._size = size
        self._a_turn = max(a_turn, 1)
        self._clock = clock
        self._entries: deque[Callable[[], Iterable[str]]] = deque()
        self._some = asyncio.Event()

    def put(self, pod: str, lines: Callable[[], Iterable[str]]) -> None:
        """Write these lines later; they are made then, of nothing that may change."""
        if len(self._entries) >= self._size:
            log.warning(f"{self._what} queue is full, dropping {self._what.lower()} for {pod}")
            return
        self._entries.append(lines)
        self._some.set()

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._some.wait()
            work = Slices(self._clock.uptime)
            for _ in range(min(self._a_turn, len(self._entries))):
                for line in self._entries.popleft()():
                    log.info(Verbatim(line))
                    await work.pause()
            if not self._entries:
                self._some.clear()
            await asyncio.sleep(0)
