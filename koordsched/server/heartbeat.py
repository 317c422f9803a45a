"""The main loop's heartbeat: whether the loop that decides runs, seen from other threads; and the thread that logs when it does not.

The loop writes down ten times a second that it runs, and how late it was. The elector's thread renews the lease only while it does
([decision 5](../../docs/decisions/0005-leader-election-and-fencing.md)): a plugin that blocks, or a log that is not read any more, makes a
leader that decides nothing. Each access is one attribute, so no lock is needed.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from bisect import bisect_left
from contextlib import contextmanager
from traceback import format_stack
from typing import TYPE_CHECKING

from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.clock import Clock

log = get_logger(__name__)

BEAT_SECONDS = 0.1
RENEW_SECONDS = 0.3
"""The lease is not renewed while the loop has not run for so long. Such a pause is nothing unusual, and a renewal that comes a little later
costs nothing; but from the last renewal on a standby has to wait for the whole duration of the lease."""
STALL_SECONDS = 1.0
"""A loop that has not run for so long stalls, and the log says so."""
FILL_SECONDS = 60.0
"""Takes the place of both until the initial lists have been handled: a long list takes its time, and a standby would need as much."""
UNHEALTHY_SECONDS = 60.0
"""A loop that has not run for so long is not alive: the kubelet is to start the process anew, if no lease ends it before that."""
LAG_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Heartbeat:
    """When a loop ran last (the clock's uptime), and how late its beats were, by LAG_BOUNDS (the last count: later)."""

    def __init__(self, clock: Clock) -> None:
        self.last = clock.uptime()
        self._filled = False
        self.lags = [0] * (len(LAG_BOUNDS) + 1)
        self.lag_sum = 0.0
        self._clock = clock

    async def beat(self) -> None:
        """Beat until cancelled: a task of the loop."""
        self.last = self._clock.uptime()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            now = self._clock.uptime()
            lag = max(0.0, now - self.last - BEAT_SECONDS)
            self.last = now
            self.lags[bisect_left(LAG_BOUNDS, lag)] += 1
            self.lag_sum += lag

    def filled(self) -> None:
        """Note that the initial lists have been handled: from now on the loop is not to pause for long."""
        self.last = self._clock.uptime()
        self._filled = True

    @property
    def age(self) -> float:
        """Return for how many seconds the loop has not run."""
        return self._clock.uptime() - self.last

    @property
    def late(self) -> bool:
        """Whether the loop has not run for longer than a leader's may."""
        return self.age > (RENEW_SECONDS if self._filled else FILL_SECONDS)

    @property
    def stall_seconds(self) -> float:
        """Return how long a pause has to be to be called a stall."""
        return STALL_SECONDS if self._filled else FILL_SECONDS

    def health(self) -> str:
        """Return what is wrong: the loop has not run for very long."""
        age = self.age
        return f"the scheduling loop has not run for {age:.0f} s" if age > UNHEALTHY_SECONDS else ""


class Watchdog:
    """Logs that a loop stalls, with its stack, and when it goes on. `look` is to be called at every BEAT_SECONDS by another thread.

    A stall counts in looks, not in time: while this thread does not run either, because the process is stopped or native code holds the
    interpreter's lock, the loop is not to blame.
    """

    def __init__(self, heartbeat: Heartbeat, clock: Clock, thread: int) -> None:
        self._heartbeat = heartbeat
        self._clock = clock
        self._thread = thread  # the loop's, by its identifier
        self._beat = heartbeat.last
        self._looked = clock.uptime()
        self._silent = 0  # looks since the beat that was seen last
        self._said = False

    def look(self) -> None:
        heartbeat, now = self._heartbeat, self._clock.uptime()
        beat, before, self._looked = heartbeat.last, self._looked, now
        if now - before > STALL_SECONDS:
            log.warning("no thread of this process ran: it was stopped, or native code held its interpreter", lasted=round(now - before, 3))
        if beat != self._beat:
            if self._said:
                log.warning("the scheduling loop runs again", stalled_seconds=round(beat - self._beat, 3))
            self._beat, self._silent, self._said = beat, 0, False
            return
        self._silent += 1
        if not self._said and self._silent * BEAT_SECONDS > heartbeat.stall_seconds:
            self._said = True
            frame = sys._current_frames().get(self._thread)
            stack = "".join(format_stack(frame)).rstrip() if frame is not None else ""
            log.warning("the scheduling loop does not run; this is where it is", seconds=round(now - beat, 3), exception=stack)


@contextmanager
def watching(heartbeat: Heartbeat, clock: Clock) -> Iterator[None]:
    """Watch the loop of this thread, by another one, for the length of a block."""
    ended = threading.Event()
    watchdog = Watchdog(heartbeat, clock, threading.get_ident())

    def watch() -> None:
        while not ended.wait(BEAT_SECONDS):
            watchdog.look()

    threading.Thread(target=watch, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        ended.set()  # not joined: a thread that cannot write its line would keep the process from ending
