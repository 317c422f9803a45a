"""Tests of the serving process: on a real loop with real sockets, and an API server in memory."""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from koordsched.clock import RealClock
from koordsched.log import Style, set_verbosity, verbosity, write_logs


class Lines:
    """What was logged, one mapping a line."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, level: str) -> list[str]:
        return [line["msg"] for line in self.all() if line["level"] == level]


@pytest.fixture(autouse=True)
def _memory_as_before() -> Iterator[None]:
    """Let the collector look again at what a process took for permanent."""
    yield
    gc.unfreeze()


@pytest.fixture
def logged() -> Iterator[Lines]:
    """What is logged during the test."""
    lines, before = Lines(), verbosity()
    write_logs(Style("json", RealClock().now, lines.stream))
    yield lines
    write_logs(None)
    set_verbosity(before)
