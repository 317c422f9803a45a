"""The heartbeat of the scheduling loop: lag, stalls, and what the watchdog says of them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs
from support.virtual_loop import run_virtual, running

from koordsched.clock import RealClock
from koordsched.metrics import exposition
from koordsched.server.heartbeat import (
    BEAT_SECONDS,
    FILL_SECONDS,
    LAG_BOUNDS,
    RENEW_SECONDS,
    STALL_SECONDS,
    UNHEALTHY_SECONDS,
    Heartbeat,
    Watchdog,
)
from koordsched.server.process_metrics import ProcessMetrics

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock


class SetClock(RealClock):
    """A clock that a test sets."""

    seconds = 1000.0

    def uptime(self) -> float:
        return self.seconds


class Watched:
    """A loop and its watchdog, with the time in the test's hands."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.heartbeat = Heartbeat(self.clock)
        self.heartbeat.filled()
        self.watchdog = Watchdog(self.heartbeat, self.clock, threading.get_ident())

    def pass_time(self, seconds: float, *, loop_runs: bool) -> None:
        """Let both threads run for so long, or the watchdog's alone."""
        for _ in range(round(seconds / BEAT_SECONDS)):
            self.clock.seconds += BEAT_SECONDS
            if loop_runs:
                self.heartbeat.last = self.clock.seconds
            self.watchdog.look()


def test_a_loop_that_runs_beats_ten_times_a_second_and_counts_its_lag() -> None:
    async def body(clock: VirtualClock) -> list[float]:
        heartbeat = Heartbeat(clock)
        async with running(heartbeat.beat()):
            await asyncio.sleep(10.05)
            assert heartbeat.age < BEAT_SECONDS
            loop: Any = asyncio.get_running_loop()
            loop.seconds += 0.72  # a callback that takes long
            assert heartbeat.age > 0.72
            await asyncio.sleep(0)
            await asyncio.sleep(0.2)
        return [*heartbeat.lags, heartbeat.lag_sum]

    *lags, lag_sum = run_virtual(body)
    assert sum(lags) == 100 + 1 + 1  # in 10.05 s, the late one, and one in 0.2 s
    assert lags[LAG_BOUNDS.index(1)] == 1  # 0.67 s late: between 0.5 and 1 s
    assert lag_sum == pytest.approx(0.67)


def test_the_lag_is_a_histogram() -> None:
    clock = SetClock()
    heartbeat, metrics = Heartbeat(clock), ProcessMetrics()
    heartbeat.lags[LAG_BOUNDS.index(0.05)], heartbeat.lags[-1], heartbeat.lag_sum = 3, 1, 31.5
    metrics.watch_loop(heartbeat)
    text = exposition(metrics.collectors).decode()
    for line in (
        'koord_scheduler_loop_lag_seconds_bucket{le="0.02"} 0.0',
        'koord_scheduler_loop_lag_seconds_bucket{le="0.05"} 3.0',
        'koord_scheduler_loop_lag_seconds_bucket{le="30"} 3.0',
        'koord_scheduler_loop_lag_seconds_bucket{le="+Inf"} 4.0',
        "koord_scheduler_loop_lag_seconds_sum 31.5",
    ):
        assert line in text.splitlines()


def test_a_stall_is_said_once_with_the_loops_stack_and_again_when_it_is_over() -> None:
    watched = Watched()
    with capture_logs() as logs:
        watched.pass_time(5.0, loop_runs=True)
        assert logs == []
        watched.pass_time(STALL_SECONDS - BEAT_SECONDS, loop_runs=False)
        assert logs == []
        watched.pass_time(7.0 - STALL_SECONDS, loop_runs=False)
        assert watched.heartbeat.late
        watched.pass_time(5.0, loop_runs=True)
        assert not watched.heartbeat.late
    began, ended = logs
    assert began["event"] == "the scheduling loop does not run; this is where it is"
    assert "test_a_stall_is_said_once" in began["exception"]
    assert (ended["event"], ended["stalled_seconds"]) == ("the scheduling loop runs again", pytest.approx(7.0))


def test_a_process_that_was_stopped_has_no_stalled_loop() -> None:
    watched = Watched()
    with capture_logs() as logs:
        watched.pass_time(2.0, loop_runs=True)
        watched.clock.seconds += 8.0
        watched.watchdog.look()  # this thread happens to go on first
        watched.pass_time(2.0, loop_runs=True)
    (line,) = logs
    assert (line["event"].partition(":")[0], line["lasted"]) == ("no thread of this process ran", pytest.approx(8.0))


def test_a_long_list_may_take_a_minute_before_the_scheduler_begins() -> None:
    clock = SetClock()
    heartbeat = Heartbeat(clock)
    clock.seconds += FILL_SECONDS
    assert not heartbeat.late
    clock.seconds += 1.0
    assert heartbeat.late
    heartbeat.filled()
    clock.seconds += RENEW_SECONDS - 0.01
    assert not heartbeat.late
    clock.seconds += 0.02
    assert heartbeat.late


def test_without_a_lease_a_stall_is_unhealthy_after_a_minute() -> None:
    clock = SetClock()
    heartbeat = Heartbeat(clock)
    clock.seconds += UNHEALTHY_SECONDS
    assert heartbeat.health() == ""
    clock.seconds += 5.0
    assert heartbeat.health() == "the scheduling loop has not run for 65 s"


STOPPED = """
import asyncio, sys
from koordsched.clock import RealClock
from koordsched.log import Style, write_logs
from koordsched.server.heartbeat import Heartbeat, watching

async def run():
    clock = RealClock()
    heartbeat = Heartbeat(clock)
    heartbeat.filled()
    write_logs(Style("json", clock.now, sys.stdout))
    with watching(heartbeat, clock):
        beating = asyncio.create_task(heartbeat.beat())
        print("running", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.sleep(2)
        beating.cancel()

asyncio.run(run())
"""


def test_stopping_a_process_and_letting_it_go_on_accuses_no_loop() -> None:
    process = subprocess.Popen([sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGSTOP)
    threading.Event().wait(2 * STALL_SECONDS)
    process.send_signal(signal.SIGCONT)
    output, _ = process.communicate("go on\n", timeout=30)
    assert "no thread of this process ran" in output
    assert "does not run; this is where it is" not in output
