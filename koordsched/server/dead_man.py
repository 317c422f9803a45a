"""DeadMan: ends a process that has lost its lease and cannot notice, because it was stopped or hangs.

A request that was let through may still lie in a buffer of the event loop when the process is stopped, and would go out when it goes on,
long after another scheduler began to lead. So the kernel is told the last moment, anew with each renewal: nothing is executed after it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from koordsched._core import deadman
from koordsched.log import get_logger, line
from koordsched.server.leadership import LOST

if TYPE_CHECKING:
    from koordsched.clock import Clock

log = get_logger(__name__)


class DeadMan:
    """The `Guard` of a serving process, whose event loop runs on the main thread. Without such timers (not Linux) it only says so."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made = False
        self._refused = False

    def arm(self, uptime: float) -> None:
        """Let the process end at this uptime, with the line in its log that every lost lease has."""
        if not self._ready():
            return
        when = self._clock.now() + uptime - self._clock.uptime()
        deadman.arm(uptime, line(__name__, LOST, when, why="the process did not run when it should have renewed it").encode())

    def disarm(self) -> None:
        deadman.disarm()

    def _ready(self) -> bool:
        if not self._made and not self._refused:
            try:
                deadman.make(threading.main_thread().native_id or 0)
                self._made = True
            except OSError as error:
                self._refused = True
                log.warning("no timer ends this process if it is stopped for longer than its lease lasts", err=error.strerror)
        return self._made
