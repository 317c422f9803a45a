"""A token bucket in front of the API server: clientConnection.qps and burst, as client-go's flowcontrol counts them.

A request takes a token before it is sent; a watch takes one for all its life. When tokens are short, requests wait in the order in which
they came, those of LOW priority after all others. Only the running loop's time is looked at.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import IntEnum

from koordsched.tasks import call_later

DEFAULT_QPS = 50.0
DEFAULT_BURST = 100
_WHOLE = 1.0 - 1e-9  # tokens are a sum of many small refills


class Priority(IntEnum):
    """Which requests go first when tokens are short: LOW is for what only reports on scheduling, events and status."""

    HIGH = 0
    LOW = 1


class RateLimiter:
    """Lets `burst` requests through at once and `qps` a second in the long run; qps below 0: all."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps or DEFAULT_QPS
        self._burst = float(burst or DEFAULT_BURST)
        self._tokens = self._burst
        self._refilled = 0.0  # the loop's time
        self._waiting: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Priority)
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, priority: Priority) -> None:
        """Wait for a token."""
        if self.take():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[priority].append(waiter)
        self._serve()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._tokens += 1.0  # it was served and cancelled in the same moment
                self._serve()
            raise

    def take(self) -> bool:
        """Take a token if there is one that is not waited for; answer whether there was."""
        if self._qps < 0:
            return True
        if any(self._waiting):
            return False
        self._refill()
        if self._tokens < _WHOLE:
            return False
        self._tokens -= 1.0
        return True

    def _refill(self) -> None:
        now = asyncio.get_running_loop().time()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._refilled) * self._qps)
        self._refilled = now

    def _serve(self) -> None:
        """Hand out the tokens there are, then come back when there is one more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._refill()
        for queue in self._waiting:
            while queue and (queue[0].done() or self._tokens >= _WHOLE):
                waiter = queue.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    self._tokens -= 1.0
        if any(self._waiting):
            self._timer = call_later((1.0 - self._tokens) / self._qps, self._serve)
