"""Relay: runs coroutines one after the other in one task for as long as they need not wait, and side by side as soon as they do.

A binding cycle is a task of its own, since it waits for the cluster. Making a task for it costs more than the cycle itself where the answer
is there at once, as on the embedded cluster: so a runner goes on with the next while nothing makes it wait, and has a successor ready who
takes over the moment something does. They begin in the order in which they were added.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from koordsched.tasks import given_up

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Relay:
    """Coroutines that nobody awaits; one that raises is logged and counted. `len` is how many have not ended."""

    def __init__(self) -> None:
        self._waiting: deque[Coroutine[None, None, None]] = deque()
        self._runners: set[asyncio.Task[None]] = set()
        self._successor = False  # a runner has been made that has not begun
        self._running = 0

    def __len__(self) -> int:
        return len(self._waiting) + self._running

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the tasks that run them."""
        return list(self._runners)

    def add(self, work: Coroutine[None, None, None]) -> None:
        """Run this soon."""
        self._waiting.append(work)
        if not self._successor:
            self._make_successor()

    def drop(self) -> list[asyncio.Task[None]]:
        """Forget those that have not begun, and return the tasks of the others, for who cancels them."""
        for work in self._waiting:
            work.close()
        self._waiting.clear()
        return self.tasks

    def _make_successor(self) -> None:
        self._successor = True
        self._runners.add(asyncio.get_running_loop().create_task(self._run()))

    async def _run(self) -> None:
        self._successor = False
        try:
            while self._waiting:
                work = self._waiting.popleft()
                if self._waiting and not self._successor:
                    self._make_successor()
                self._running += 1
                try:
                    await work
                except Exception as error:  # noqa: BLE001  # what comes after it is to run nevertheless
                    given_up("binding cycle", error)
                finally:
                    self._running -= 1
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._runners.discard(task)  # not in a done callback: that is one more turn of the loop for each pod
