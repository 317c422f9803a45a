"""bench/mutate/equivalent.yaml names code that exists: after a rename or an edit an entry would excuse nothing, or be forgotten."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ENTRIES: list[dict[str, Any]] = yaml.safe_load((ROOT / "bench/mutate/equivalent.yaml").read_text())


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yield all functions, nested ones too, by their qualified names as bench/mutate has them."""
    for statement in body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{statement.name}"
            if not isinstance(statement, ast.ClassDef):
                yield name, statement
            yield from functions(statement.body, f"{name}.")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["mutant"])
def test_an_equivalent_mutant_changes_lines_of_a_function_that_exists_under_the_key_of_that_change(entry: dict[str, Any]) -> None:
    path, function, digest = entry["mutant"].split(":")
    source = (ROOT / path).read_text()
    found = dict(functions(ast.parse(source).body)).get(function)
    assert found is not None, "no such function"
    lines = {line.strip() for line in source.splitlines()[found.lineno - 1 : found.end_lineno]}
    taken_away = [line[1:] for line in entry["change"] if line.startswith("-")]
    assert taken_away
    assert lines.issuperset(taken_away)
    assert digest == hashlib.sha256("\n".join([path, function, *entry["change"]]).encode()).hexdigest()[:8]


def test_every_mutant_is_listed_once_with_a_reason() -> None:
    assert len({entry["mutant"] for entry in ENTRIES}) == len(ENTRIES)
    assert all(entry["why"] for entry in ENTRIES)
