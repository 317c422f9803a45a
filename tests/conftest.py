"""What holds for every test: no wall clock in hypothesis, one fixed set of examples in CI, and which build is under test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

import koordsched

settings.register_profile("developer", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


def pytest_report_header() -> str:
    return f"koordsched: {Path(koordsched.__file__).parent}"


@pytest.fixture(autouse=True)
def _logs_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo that an earlier test ran a command that logs errors only: a process has one log."""
    monkeypatch.setattr("koordsched.log._quiet", False)
