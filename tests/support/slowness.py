"""How much slower than alone on its core a process is here and now: what tests allow for that promise seconds."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

PAUSE_SECONDS, WORK_SECONDS = 0.1, 0.002


class Slowness:
    """Does a little work all the while, and sets what it took against the CPU time it used: 1 on an idle machine, 3 where two wait for it.

    A context; `factor` is that of all its time.
    """

    def __init__(self) -> None:
        self._took = self._used = WORK_SECONDS
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def factor(self) -> float:
        return max(1.0, self._took / self._used)

    def _measure(self) -> None:
        while not self._ending.wait(PAUSE_SECONDS):
            began, cpu = time.perf_counter(), time.thread_time()
            while (used := time.thread_time() - cpu) < WORK_SECONDS:
                pass
            self._took += time.perf_counter() - began
            self._used += used
