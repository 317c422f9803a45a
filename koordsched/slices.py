"""Slices: work that goes over many objects, done a few milliseconds at a time so that its event loop serves others in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

SLICE_SECONDS = 0.003
PAUSE_SECONDS = 0.001
"""Long enough for another thread that waits for the interpreter's lock to get it: a loop that only yields takes the lock back at once."""


class Slices:
    """One piece of work, with pauses of `pause` seconds. `perf` is the clock's; `seconds` is what has been worked in all slices so far.

    Work is done in a `with` block, which may be entered several times, also on different loops one after the other, and awaits `pause` as
    often as it likes: most calls return at once.
    """

    def __init__(self, perf: Callable[[], float], pause: float = PAUSE_SECONDS) -> None:
        self.seconds = 0.0
        self._pause = pause
        self._perf = perf
        self._begun = perf()

    def __enter__(self) -> Self:
        self._begun = self._perf()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.seconds += self._perf() - self._begun

    @property
    def worked(self) -> float:
        """Return what has been worked up to now. To be asked inside the `with` block."""
        return self.seconds + self._perf() - self._begun

    async def pause(self, ahead: float = 0.0) -> None:
        """Let others run if this slice has been long enough, or would be by `ahead` seconds more."""
        worked = self._perf() - self._begun
        if worked + ahead < SLICE_SECONDS:
            return
        self.seconds += worked
        try:
            await asyncio.sleep(self._pause)
        finally:
            self._begun = self._perf()
