"""Time as an argument: the virtual loop jumps, clocks count from their epoch, timestamps are Kubernetes'."""

from __future__ import annotations

import asyncio

import pytest

from koordsched.clock import VIRTUAL_EPOCH, RealClock, VirtualClock, VirtualTimeLoop, parse_rfc3339, rfc3339


def test_hours_of_sleep_pass_at_once_and_in_order() -> None:
    rung: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        rung.append((name, clock.now() - VIRTUAL_EPOCH))

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, seconds in (("late", 7200.0), ("early", 0.5), ("middle", 60.0)):
                tasks.create_task(sleeper(name, seconds))

    loop = VirtualTimeLoop()
    clock = VirtualClock(loop)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    assert rung == [("early", 0.5), ("middle", 60.0), ("late", 7200.0)]


def test_time_stands_still_while_callbacks_run() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        readings = []
        for _ in range(100):
            await asyncio.sleep(0)
            readings.append(loop.time())
        return readings

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(main()) == [0.0] * 100


def test_waiting_for_what_can_never_happen_is_an_error() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    loop = VirtualTimeLoop()
    task = loop.create_task(main())
    with pytest.raises(RuntimeError, match="nothing can ever happen"):
        loop.run_until_complete(task)
    task.cancel()
    loop.call_soon(lambda: None)
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_a_virtual_clock_counts_from_its_epoch() -> None:
    loop = VirtualTimeLoop()
    loop.seconds += 1.5
    assert VirtualClock(loop, 100.0).now() == 101.5
    assert rfc3339(VirtualClock(loop).now()) == "2026-01-01T00:00:01Z"
    loop.close()


def test_the_measuring_reading_is_real_even_of_a_virtual_clock() -> None:
    loop = VirtualTimeLoop()
    clock = VirtualClock(loop)
    before = clock.perf()
    loop.seconds += 1e9
    assert 0 <= clock.perf() - before < 1e9
    assert RealClock().perf() >= before
    loop.close()


def test_uptime_is_the_virtual_time_or_grows() -> None:
    loop = VirtualTimeLoop()
    clock = VirtualClock(loop, epoch=1e9)
    loop.seconds = 7.5
    assert clock.uptime() == 7.5
    loop.close()
    before = RealClock().uptime()
    assert before <= RealClock().uptime() < before + 3600


def test_the_real_clock_is_past_the_day_this_was_written() -> None:
    assert RealClock().now() > parse_rfc3339("2025-01-01T00:00:00Z")


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "1970-01-01T00:00:00Z"), (1767225599.999, "2025-12-31T23:59:59Z")])
def test_timestamps_are_utc_and_whole_seconds(seconds: float, text: str) -> None:
    assert rfc3339(seconds) == text
    assert parse_rfc3339(text) == int(seconds)


def test_timestamps_with_an_offset_or_fractions_are_read() -> None:
    assert parse_rfc3339("1970-01-01T01:00:00.250000+01:00") == 0.25
    with pytest.raises(ValueError, match="yesterday"):
        parse_rfc3339("yesterday")
