"""What holds for every test: no wall clock in hypothesis, one fixed set of examples in CI, and which build is under test."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

import koordsched

settings.register_profile("developer", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


def pytest_report_header() -> str:
    return f"koordsched: {Path(koordsched.__file__).parent}"
