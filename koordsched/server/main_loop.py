"""MainLoop: how the serving thread reads and changes what belongs to the event loop on which the component works.

Code of `server` calls it the main loop; logs, health checks and metrics, which operators read, the scheduling loop.

That loop changes its state (of the scheduler: cache, queue, metrics) without locks, so what needs a consistent view runs there, in slices
(`koordsched.slices`). Everything else, such as encoding an answer, stays in the serving thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from koordsched.server.http import text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

T = TypeVar("T")

ANSWER_SECONDS = 10.0
"""How long a loop may take to answer: what Prometheus waits for a scrape."""
DOES_NOT_ANSWER = text(503, f"the scheduling loop has not answered for {ANSWER_SECONDS:.0f} s\n")


class MainLoopBusyError(Exception):
    """The main loop has not answered in time."""


class MainLoop:
    """The loop and the thread that make this object. On that loop itself, as in a simulation, work is simply done."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self._cpu_clock = time.pthread_getcpuclockid(self.thread)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the loop's thread has used."""
        return time.clock_gettime(self._cpu_clock)

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float = ANSWER_SECONDS) -> T:
        """Run a coroutine function on the main loop; MainLoopBusyError when it has not ended in time."""
        if asyncio.get_running_loop() is self.loop:
            return await work()
        ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self.loop))
        try:
            return await asyncio.wait_for(ended, seconds)
        except TimeoutError:
            if ended.cancelled():
                raise MainLoopBusyError from None
            raise

    async def call(self, work: Callable[[], T]) -> T:
        """Call a function that takes next to nothing on the main loop; MainLoopBusyError as with `run`."""

        async def called() -> T:
            return work()

        return await self.run(called)
