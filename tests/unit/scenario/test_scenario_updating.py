"""`test --update`: what was seen takes the place of what was expected, and nothing else in the file changes."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordsched.cli import main
from koordsched.scenario.rewriting import NotRewritten, flow, rewritten
from koordsched.scenario.updating import Correction

HEAD = """# A file's first comment stays.
name: places-pods
why: >-
  Folded text
  stays folded.
given:
- {kind: Node, metadata: {name: n1, labels: {zone: "a"}}, status: {allocatable: {cpu: "2"}}}
steps:
- create:
  - {kind: Pod, metadata: {name: a}, resources: {requests: {cpu: 1}}}
  - {kind: Pod, metadata: {name: b}, resources: {requests: {cpu: 5}}}
"""


@pytest.fixture(autouse=True)
def _loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.log._quiet", False)


def updated(folder: Path, expectations: str, code: int = 0) -> list[str]:
    """Return the changed lines of a scenario that ends with this, old and new ones; afterwards it passes."""
    file = folder / "s.yaml"
    file.write_text(HEAD + expectations)
    assert main(["test", str(file), "--update"]) == code
    after = file.read_text()
    if code == 0:
        assert main(["test", str(file)]) == 0
    lines = difflib.ndiff((HEAD + expectations).splitlines(), after.splitlines())
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize(
    ("expected", "changed"),
    [
        ("pods: {a: {node: n2}}", ["pods: {a: {node: n1}}"]),
        ("pods: {a: {node: {in: [n2, n3]}}}", ["pods: {a: {node: n1}}"]),
        ("pods: {a: {pending: true}}", ["pods: {a: {node: n1}}"]),
        ("pods: {a: {gone: true, annotations: {x: null}}}", ["pods: {a: {node: n1, annotations: {x: null}}}"]),
        ("pods: {b: {node: n1}}", ["pods: {b: {pending: '0/1 nodes are available: 1 Insufficient cpu.'}}"]),
        ("pods: {b: {pending: taints}}", ["pods: {b: {pending: '0/1 nodes are available: 1 Insufficient cpu.'}}"]),
        ("pods: {c: {node: n1}}", ["pods: {c: {gone: true}}"]),
        ("pods: {a: {nominated: n1, node: n1}}", ["pods: {a: {nominated: '', node: n1}}"]),
        ('pods: {a: {annotations: {x: "1"}}}', ["pods: {a: {annotations: {x: null}}}"]),
        ("bound: 2", ["bound: 1"]),
        ("pending: {selector: {}, count: 0}", ["pending: {selector: {}, count: 1}"]),
        (
            "objects: [{kind: Node, name: n1, has: {metadata: {labels: {zone: b}}}}]",
            ["objects: [{kind: Node, name: n1, has: {metadata: {labels: {zone: a}}}}]"],
        ),
        ("objects: [{kind: Node, name: n9, has: {spec: {}}}]", ["objects: [{kind: Node, name: n9, gone: true}]"]),
        ("http: [{path: /nowhere}]", ["http: [{path: /nowhere, status: 404}]"]),
        ("http: [{path: /nowhere, status: 201}]", ["http: [{path: /nowhere, status: 404}]"]),
    ],
)
def test_a_fact_is_corrected(tmp_path: Path, expected: str, changed: list[str]) -> None:
    assert updated(tmp_path, f"- expect: {{{expected}, within: 1s}} # kept\n") == [
        f"- - expect: {{{expected}, within: 1s}} # kept",
        f"+ - expect: {{{changed[0]}, within: 1s}} # kept",
    ]


def test_blocks_keep_their_lines_and_comments(tmp_path: Path) -> None:
    block = """- expect:
    pods:
      # what a does
      a:
        node: n2 # not there
        # and this stays
        pending: false
      b:
        node: n1

    # how many
    bound: 2
    within: 1s
"""
    assert updated(tmp_path, block) == [
        "-         node: n2 # not there",
        "+         node: n1 # not there",
        "-         node: n1",
        "+         {pending: '0/1 nodes are available: 1 Insufficient cpu.'}",
        "-     bound: 2",
        "+     bound: 1",
    ]


def test_each_block_of_each_document_is_corrected_where_it_stands(tmp_path: Path) -> None:
    more = "- expect: {bound: 1}\n- delete: [{kind: Pod, name: a}]\n- expect: {bound: 7, within: 1s}\n"
    other = "---\n---\nname: other\nwhy: w\nsteps: [{expect: {bound: 3, within: 1s}}]\n"
    assert updated(tmp_path, more + other) == [
        "- - expect: {bound: 7, within: 1s}",
        "+ - expect: {bound: 0, within: 1s}",
        "- steps: [{expect: {bound: 3, within: 1s}}]",
        "+ steps: [{expect: {bound: 0, within: 1s}}]",
    ]


def test_relations_are_not_corrected_and_their_block_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert updated(tmp_path, "- expect: {bound: 2, samenode: [[a, b]], within: 1s}\n", code=1) == []
    assert "FAIL places-pods: steps[1].expect: within 1s: bound: expected 2 pods, seen 1" in capsys.readouterr().out


def test_without_the_option_nothing_is_written_and_a_scenario_that_holds_stays(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(HEAD + "- expect: {bound: 2, within: 1s}\n")
    assert main(["test", str(file)]) == 1
    assert file.read_text() == HEAD + "- expect: {bound: 2, within: 1s}\n"
    assert updated(tmp_path, "- expect: {bound: 1}\n") == []


def test_what_was_corrected_is_said_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: a\nwhy: w\nsteps: [{expect: {bound: 2, within: 1s}}]\n---\nname: b\nwhy: w\nsteps: [{expect: {bound: 0}}]\n"
    )
    assert main(["test", "--update", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["UPDATE a: steps[0].expect.bound is 0", "PASS b", "1 passed, 0 failed, 1 updated"]


def test_standard_input_cannot_be_updated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--update", "-"]) == 2
    assert capsys.readouterr().err == "--update: standard input cannot be written; name files\n"


def test_a_value_that_stands_elsewhere_is_not_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("name: a\nwhy: w\nsteps: [{expect: &block {bound: 2, within: 1s}}, {expect: *block}]\n")
    assert main(["test", "--update", str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: cannot be corrected: steps.1.expect.bound is an alias of what stands elsewhere\n"


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "n-1.a/b_c",
        "true",
        "1",
        "1.5",
        "null",
        "",
        "it's",
        "a: b",
        "# x",
        "a, b",
        "tab\t",
        "line\nbreak",
        "ü",
        1,
        True,
        None,
        ["a", 1],
        {"a b": {"c": []}},
    ],
)
def test_a_value_in_one_line_is_read_as_it_was(value: Any) -> None:
    assert yaml.safe_load(f"key: {flow(value)}") == {"key": value}
    assert yaml.safe_load(f"[{flow(value)}, 1]") == [value, 1]


def test_json_stays_json() -> None:
    text = '{"steps": [{"expect": {"pods": {"a": {"node": "n2"}}}}]}'
    path = ("steps", 0, "expect", "pods", "a", "node")
    assert rewritten(text, [(1, Correction(path, "it's"))], as_json=True) == text.replace("n2", "it's")


def test_a_correction_that_would_take_an_anchor_away_is_not_made() -> None:
    with pytest.raises(NotRewritten, match="the text would not be read as it is meant"):
        rewritten("a: &one {b: 1}\nc: *one\n", [(1, Correction(("a",), 2))])


def test_a_document_that_is_not_there_is_not_corrected() -> None:
    with pytest.raises(NotRewritten, match="document 2 is empty"):
        rewritten("a: 1\n", [(2, Correction(("a",), 2))])
    with pytest.raises(NotRewritten, match="b is not there as it was read"):
        rewritten("a: 1\n", [(1, Correction(("b",), 2))])
