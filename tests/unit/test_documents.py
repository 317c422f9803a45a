"""Documents hold what they say: their scenarios pass, and the texts that they quote are the scheduler's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from koordsched.cli import main
from koordsched.framework.topologymanager import UNALIGNED, UNSATISFIED
from koordsched.plugins.nodenumaresource import reasons

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
ELSEWHERE = {"writing-plugins.md"}  # its scenarios are those of a plugin that is installed apart, and tested there
SCENARIO = re.compile(r"^```yaml\n(name: .*?)^```$", re.MULTILINE | re.DOTALL)


def scenarios() -> list[tuple[str, str]]:
    """Return the scenarios in the documents, each with where it stands."""
    return [
        (f"{path.relative_to(ROOT)}-{number}", text)
        for path in (README, *sorted(DOCS.rglob("*.md")))
        if path.name not in ELSEWHERE
        for number, text in enumerate(SCENARIO.findall(path.read_text(encoding="utf-8")))
    ]


def test_there_are_scenarios_in_the_documents() -> None:
    assert {"README.md-0", "docs/scenarios.md-0", "docs/plugins/nodenumaresource.md-0"} <= {name for name, _ in scenarios()}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in scenarios()])
def test_a_documents_scenario_passes(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    code = main(["test", str(tmp_path / "scenario.yaml")])
    assert (code, capsys.readouterr().out.splitlines()[-1]) == (0, "1 passed, 0 failed")


def test_the_readme_shows_what_the_demo_prints(capsys: pytest.CaptureFixture[str]) -> None:
    shown = README.read_text(encoding="utf-8").partition("`make demo` prints")[2].split("```")[1]
    lines = [line.split() for line in shown.splitlines() if line]  # how wide columns are depends on how long a decision took
    assert main(["simulate", str(ROOT / "examples" / "demo")]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(lines) > 10
    assert [line for line in lines if line not in printed] == []


def test_every_refusal_of_nodenumaresource_is_explained() -> None:
    page = (DOCS / "plugins" / "nodenumaresource.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `([^`]+)`", page.partition("## What refused pods report")[2], flags=re.MULTILINE)
    fixed = [text for status in (*reasons.FIXED.values(), reasons.NO_ZONES) for text in status.reasons]
    parts = [text.partition("{")[0] for text in (*fixed, reasons.INSUFFICIENT, UNSATISFIED, UNALIGNED)]
    assert len(parts) > 10
    assert [part for part in parts if not any(text.startswith(part) for text in explained)] == []
