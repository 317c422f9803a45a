"""Scenarios as pytest items, played in process on the embedded cluster."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.embedded import answer

from koordsched.scenario.command import ScenarioOptions, run_tests
from koordsched.scenario.embedded import EmbeddedBackend
from koordsched.scenario.format import load_scenarios

FOLDER = Path("tests/scenarios").absolute()


class ScenarioFile(pytest.File):
    """A file of scenarios."""

    def collect(self) -> Iterator[pytest.Item]:
        for scenario in load_scenarios([str(self.path)]).scenarios:
            yield ScenarioItem.from_parent(self, name=scenario.name)


class ScenarioItem(pytest.Item):
    """One scenario; those whose name begins with its own are played as well."""

    def runtest(self) -> None:
        out, err = io.StringIO(), io.StringIO()
        code = run_tests(ScenarioOptions(paths=(str(self.path),), only=self.name), EmbeddedBackend(answer), out, err)
        assert code == 0, out.getvalue() + err.getvalue()


@cache
def is_scenario_file(path: Path) -> bool:
    return path.suffix == ".yaml" and path.parent == FOLDER
