"""What holds the lines of a specification's checklist: names of scenarios, and of tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from koordsched.scenario.command import ScenarioOptions, plan_scenarios
from koordsched.scenario.live.limits import REAL_MAX_WAIT, BackendLimits

TESTS = Path(__file__).parents[1]
SPECS = TESTS.parent / "docs" / "spec"


def lines_of(spec: str, section: str, line: str = r"(\d+)\. ") -> list[int]:
    """Return the numbers of the lines of a section (by the beginning of its heading)."""
    checklist = (SPECS / spec).read_text(encoding="utf-8").partition(f"\n## {section}")[2].partition("\n## ")[0]
    return [int(number) for number in re.findall(f"^{line}", checklist, re.MULTILINE)]


def played(*patterns: str) -> set[str]:
    """Return the scenarios of these files that are played on a real control plane, too."""
    files = tuple(str(path) for pattern in patterns for path in sorted((TESTS / "scenarios").glob(pattern)))
    plans, _ = plan_scenarios(ScenarioOptions(paths=files, limits=BackendLimits(max_wait=REAL_MAX_WAIT)))
    return {plan.scenario.name for plan in plans if not plan.skip}


def missing_tests(named: Iterable[str]) -> list[str]:
    """Return which of these tests (path::name) there are not."""
    parts = [(name, *name.split("::")) for name in named]
    return [name for name, path, test in parts if not re.search(rf"def {test}\b", (TESTS / path).read_text("utf-8"))]
