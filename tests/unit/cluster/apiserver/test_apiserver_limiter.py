"""The token bucket in virtual time: burst, rate, order and priority."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.virtual_loop import run_virtual, settle

from koordsched.cluster.apiserver.limiter import Priority, RateLimiter

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock


class Turnstile:
    """Requests named by letters, and when (seconds since the start) each went through."""

    def __init__(self, clock: VirtualClock, qps: float, burst: int) -> None:
        self.passed: list[tuple[str, float]] = []
        self._clock = clock
        self._start = clock.now()
        self._limiter = RateLimiter(qps, burst)

    def come(self, name: str, priority: Priority = Priority.HIGH) -> asyncio.Task[None]:
        return asyncio.create_task(self._pass(name, priority))

    async def _pass(self, name: str, priority: Priority) -> None:
        await self._limiter.acquire(priority)
        self.passed.append((name, round(self._clock.now() - self._start, 6)))


def test_a_burst_goes_through_at_once_and_the_rest_at_the_rate() -> None:
    async def body(clock: VirtualClock) -> None:
        gate = Turnstile(clock, qps=2.0, burst=3)
        await asyncio.gather(*[gate.come(name) for name in "abcdef"])
        assert gate.passed == [("a", 0.0), ("b", 0.0), ("c", 0.0), ("d", 0.5), ("e", 1.0), ("f", 1.5)]

    run_virtual(body)


def test_tokens_are_saved_up_to_the_burst() -> None:
    async def body(clock: VirtualClock) -> None:
        gate = Turnstile(clock, qps=1.0, burst=2)
        await asyncio.gather(*[gate.come(name) for name in "ab"])
        await asyncio.sleep(100)
        await asyncio.gather(*[gate.come(name) for name in "cde"])
        assert gate.passed[2:] == [("c", 100.0), ("d", 100.0), ("e", 101.0)]

    run_virtual(body)


def test_what_is_of_low_priority_goes_after_all_others_in_order_of_arrival() -> None:
    async def body(clock: VirtualClock) -> None:
        gate = Turnstile(clock, qps=1.0, burst=1)
        low, high = Priority.LOW, Priority.HIGH
        order = [("a", low), ("e1", low), ("b1", high), ("e2", low), ("b2", high)]
        await asyncio.gather(*[gate.come(name, priority) for name, priority in order])
        assert [name for name, _ in gate.passed] == ["a", "b1", "b2", "e1", "e2"]

    run_virtual(body)


def test_one_that_gives_up_costs_no_token() -> None:
    async def body(clock: VirtualClock) -> None:
        gate = Turnstile(clock, qps=1.0, burst=1)
        first, impatient, last = gate.come("a"), gate.come("b"), gate.come("c")
        await settle()
        impatient.cancel()
        await asyncio.gather(first, last)
        assert gate.passed == [("a", 0.0), ("c", 1.0)]

    run_virtual(body)


def test_one_that_is_cancelled_in_the_moment_it_is_served_gives_its_token_back() -> None:
    async def body(clock: VirtualClock) -> None:
        gate = Turnstile(clock, qps=1.0, burst=1)
        first, served, last = gate.come("a"), gate.come("b"), gate.come("c")
        await settle()
        asyncio.get_running_loop().call_later(1.0, served.cancel)  # after the limiter's own timer, before the task runs
        await asyncio.gather(first, last)
        assert gate.passed == [("a", 0.0), ("c", 1.0)]
        assert served.cancelled()

    run_virtual(body)


def test_a_negative_rate_is_no_limit() -> None:
    async def body(clock: VirtualClock) -> None:
        gate = Turnstile(clock, qps=-1.0, burst=1)
        await asyncio.gather(*[gate.come(str(i)) for i in range(1000)])
        assert {at for _, at in gate.passed} == {0.0}

    run_virtual(body)


def test_zero_means_the_defaults_of_kube_scheduler() -> None:
    async def body(clock: VirtualClock) -> None:
        gate = Turnstile(clock, qps=0.0, burst=0)
        await asyncio.gather(*[gate.come(str(i)) for i in range(102)])
        assert [at for _, at in gate.passed] == [0.0] * 100 + [0.02, 0.04]

    run_virtual(body)
