"""What holds for every test: no wall clock in hypothesis, one fixed set of examples in CI, which build is under test, and that no exception
is left to an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import koordsched
from koordsched import tasks

settings.register_profile("developer", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


def pytest_report_header() -> str:
    return f"koordsched: {Path(koordsched.__file__).parent}"


@pytest.fixture(autouse=True)
def _logs_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo that an earlier test ran a command that logs errors only: a process has one log."""
    monkeypatch.setattr("koordsched.log._quiet", False)


@pytest.fixture(autouse=True)
def _no_exception_left_to_the_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test when an event loop, of any thread, gets an exception that nothing else takes: a loop only logs it and goes on.

    The same for what `koordsched.tasks` takes over instead. A test that means it gives its loop a handler of its own
    (`set_exception_handler`), or clears the counts of `tasks` when it has looked at them.
    """
    left: list[dict[str, Any]] = []
    monkeypatch.setattr(asyncio.BaseEventLoop, "default_exception_handler", lambda _loop, context: left.append(context))
    tasks.restarts.clear()
    tasks.failures.clear()
    yield
    assert not tasks.restarts + tasks.failures, "work in the background raised; see the log"
    if left:
        error = AssertionError("an exception was left to the event loop: " + "; ".join(_what_happened(context) for context in left))
        raise error from left[0].get("exception")


def _what_happened(context: dict[str, Any]) -> str:
    rest = [f"{key}: {value!r}" for key, value in context.items() if key != "message"]
    return f"{context['message']} ({', '.join(rest)})"
