"""What `test` prints and writes: JUnit XML, and differences on a terminal."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from koordsched.cli import main
from koordsched.scenario.expectations import Mismatch
from koordsched.scenario.junit import junit
from koordsched.scenario.runner import ScenarioResult

SCENARIO = "name: %s\nwhy: w\nsteps: [{expect: {bound: %d, within: 1s}}]\n"


@pytest.fixture(autouse=True)
def _loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.log._quiet", False)


@pytest.fixture
def scenarios(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(SCENARIO % ("fails", 1) + "---\n" + SCENARIO % ("passes", 0))
    (tmp_path / "b.yaml").write_text("name: skipped\nwhy: w\nsteps: [{wait: 100s}]\n")
    return tmp_path


def test_results_are_written_as_junit_xml_by_file(scenarios: Path) -> None:
    written = scenarios / "results.xml"
    assert main(["test", "--junit", str(written), "--max-wait", "60s", str(scenarios)]) == 1
    root = ET.fromstring(written.read_text())
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("skipped")) == ("testsuites", "3", "1", "1")
    assert [(suite.get("name"), suite.get("tests")) for suite in root] == [(f"{scenarios}/a.yaml", "2"), (f"{scenarios}/b.yaml", "1")]
    cases = {case.get("name"): case for case in root.iter("testcase")}
    (failure,) = cases["fails"]
    assert (failure.tag, failure.get("message")) == ("failure", "steps[0].expect: within 1s: bound: expected 1 pods, seen 0")
    assert failure.text == "steps[0].expect: within 1s\nbound: expected 1 pods, seen 0"
    assert list(cases["passes"]) == []
    (skipped,) = cases["skipped"]
    assert skipped.get("message") == "it lets 100s pass, more than 60s"
    assert all(float(case.get("time", "")) >= 0 for case in cases.values())


def test_what_xml_cannot_hold_is_replaced() -> None:
    result = ScenarioResult("a", "seen \x1b[1m \ud800", where="seen \x1b", origin="f.yaml: document 1")
    assert ET.fromstring(junit([(result, 0.5)])).find(".//failure").get("message") == "seen \ufffd[1m \ufffd"  # type: ignore[union-attr]


def test_a_file_of_results_that_cannot_be_written_is_said_before_anything_runs(scenarios: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--junit", "/no/such/folder/r.xml", str(scenarios)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "/no/such/folder/r.xml: cannot be written: No such file or directory\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("term", "no_color", "coloured"), [("xterm", "", True), ("xterm", "1", False), ("dumb", "", False)])
def test_differences_are_lines_in_colours_on_a_terminal_that_wants_them(
    scenarios: Path, monkeypatch: pytest.MonkeyPatch, term: str, no_color: str, coloured: bool
) -> None:
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert main(["test", str(scenarios / "a.yaml")]) == 1
    lines = out.getvalue().splitlines()
    if coloured:
        assert lines == [
            "\x1b[1;31mFAIL\x1b[0m fails: steps[0].expect: within 1s",
            "  bound",
            "    expected  \x1b[32m1 pods\x1b[0m",
            "    seen      \x1b[31m0\x1b[0m",
            "\x1b[32mPASS\x1b[0m passes",
            "1 passed, 1 failed",
        ]
    else:
        assert lines == ["FAIL fails: steps[0].expect: within 1s: bound: expected 1 pods, seen 0", "PASS passes", "1 passed, 1 failed"]


def test_a_difference_of_no_object_is_stated_without_one() -> None:
    assert str(Mismatch("", "the cluster to answer", "no answer")) == "expected the cluster to answer, seen no answer"
    assert str(Mismatch("default/a", "on n1", "not bound")) == "default/a: expected on n1, seen not bound"
