"""Measures with the garbage collector as serving has it, and prints beside the table what a benchmark measured that is no duration."""

from __future__ import annotations

import gc
from typing import Any

from koordsched.serve.command import GC_THRESHOLDS


def pytest_configure() -> None:
    gc.set_threshold(*GC_THRESHOLDS)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    session = getattr(config, "_benchmarksession", None)
    for benchmark in session.benchmarks if session is not None else ():
        if benchmark.extra_info:
            facts = ", ".join(f"{key} {value}" for key, value in benchmark.extra_info.items())
            terminalreporter.write_line(f"{benchmark.name}: {facts}")
