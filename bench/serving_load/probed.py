"""`python -m serving_load.probed FILE ...`: koord-scheduler, with its loop's lag while it schedules written to a file when it ends."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path

import msgspec

from koordsched.cli import main
from koordsched.serve import command
from koordsched.serve.process import Process

PERIOD = 0.005
MILLI, NANO = 1e3, 1e9
THREADS_EVERY = 100  # looks
LATE = (0.01, 0.02, 0.05)


class Lags(msgspec.Struct):
    """How late the loop was, in milliseconds: at most, on average, and how often by more than some.

    `own_` leaves out for how long the kernel counted the loop's thread as ready and let it wait for a CPU that others had. With two cores
    for the scheduler, etcd, kube-apiserver, the load and the bench this is most of what is late, without the load as well. What is left is
    the loop's own work and its waiting for Python's lock, at most 5 ms too much.
    """

    looks: int = 0
    mean_ms: float = 0.0
    max_ms: float = 0.0
    over_ms: dict[str, int] = {}
    own_mean_ms: float = 0.0
    own_max_ms: float = 0.0
    own_over_ms: dict[str, int] = {}
    thread_cpu_seconds: dict[str, float] = {}  # since the first look, by the thread's name


def waited_for_a_cpu() -> float:
    """Return for how many seconds this thread has been ready and not running, as the kernel counts it."""
    _, waited, _ = Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()
    return int(waited) / NANO


def cpu_of_threads() -> dict[str, float]:
    """Return the CPU seconds of each thread by its name and id."""
    return {
        f"{thread.name} {thread.ident}": time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.ident is not None
    }


class Probed(Process):
    """A serving process that is looked at."""

    async def run(self) -> int:
        looking = asyncio.create_task(self._look())
        try:
            return await super().run()
        finally:
            looking.cancel()
            Path(sys.argv[0]).write_bytes(msgspec.json.encode(self._lags))  # noqa: ASYNC240  # at the end

    async def _look(self) -> None:
        none = {f"{MILLI * late:g}": 0 for late in LATE}
        self._lags = lags = Lags(over_ms=dict(none), own_over_ms=dict(none))
        total = own_total = 0.0
        before: dict[str, float] = {}
        while True:
            waited, due = waited_for_a_cpu(), time.perf_counter() + PERIOD
            await asyncio.sleep(PERIOD)
            late = time.perf_counter() - due
            if self._scheduler is None or self._scheduler._loop_task is None:
                continue  # it has not begun to schedule
            own = max(0.0, min(late, late + PERIOD - (waited_for_a_cpu() - waited)))
            total, own_total = total + late, own_total + own
            lags.looks += 1
            lags.mean_ms, lags.max_ms = MILLI * total / lags.looks, max(lags.max_ms, MILLI * late)
            lags.own_mean_ms, lags.own_max_ms = MILLI * own_total / lags.looks, max(lags.own_max_ms, MILLI * own)
            if lags.looks == 1:
                before = cpu_of_threads()
            elif lags.looks % THREADS_EVERY == 0:
                lags.thread_cpu_seconds |= {name: round(cpu - before.get(name, 0.0), 2) for name, cpu in cpu_of_threads().items()}
            for limit in LATE:
                lags.over_ms[f"{MILLI * limit:g}"] += late > limit
                lags.own_over_ms[f"{MILLI * limit:g}"] += own > limit


if __name__ == "__main__":
    del sys.argv[0]
    setattr(command, "Process", Probed)  # noqa: B010  # it is not for others, but this is about its inside
    sys.exit(main(sys.argv[1:]))
