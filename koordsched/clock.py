"""Time as an argument.

Nothing in koordsched asks the operating system what time it is: a `Clock` is handed down from the entry point. `RealClock` is for a
cluster; `VirtualClock` follows the time of a `VirtualTimeLoop`, an asyncio loop that jumps to its next timer when nothing is ready, so
that hours of backoff cost nothing and the same input gives the same output. Sleeping is `asyncio.sleep` on either loop.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from contextvars import Context

T = TypeVar("T")

_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # only Linux's counts the time that the machine sleeps
VIRTUAL_EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class Clock(Protocol):
    """What time it is. Handed down to everything that needs to know."""

    def now(self) -> float:
        """Return seconds since the Unix epoch (wall time; virtual in the embedded cluster)."""

    def perf(self) -> float:
        """Return a real, monotonic reading in seconds, only for measuring how long computing takes."""

    def uptime(self) -> float:
        """Return seconds from a fixed moment on, for deadlines that others count on: they pass while this process is stopped and while the
        machine sleeps, and they cannot be set (virtual in the embedded cluster)."""


class RealClock:
    """The operating system's clock."""

    def now(self) -> float:
        return time.time()

    perf = staticmethod(time.perf_counter)  # called many times a pod: no frame of ours in between

    def uptime(self) -> float:
        return time.clock_gettime(_UPTIME)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still while callbacks run and jumps to the next timer when none is ready."""

    def __init__(self) -> None:
        self.seconds = 0.0  # since the loop was made
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.seconds

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """Make a task without asyncio's checks: one is made for every pod that is bound."""
        return asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)


class _JumpingSelector(selectors.SelectSelector):
    """Where the loop would sleep until its next timer, move the loop's time there instead."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task of the embedded cluster waits and no timer is set: nothing can ever happen")
        if timeout > 0:
            self._loop.seconds += timeout
        return []


class VirtualClock:
    """The time of a `VirtualTimeLoop`, counted from a fixed epoch."""

    def __init__(self, loop: VirtualTimeLoop, epoch: float = VIRTUAL_EPOCH) -> None:
        self._loop = loop
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + self._loop.seconds

    def uptime(self) -> float:
        return self._loop.seconds

    perf = staticmethod(time.perf_counter)  # called many times a pod: no frame of ours in between


def rfc3339(seconds: float) -> str:
    """Write seconds since the epoch the way Kubernetes writes metav1.Time: UTC, whole seconds."""
    return _whole_second(int(seconds))


@lru_cache(maxsize=64)
def _whole_second(seconds: int) -> str:  # many writes happen within one second, and strftime is slow
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> float:
    """Read a Kubernetes timestamp into seconds since the epoch; ValueError when it is none."""
    return datetime.fromisoformat(text).timestamp()
