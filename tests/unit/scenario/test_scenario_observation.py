"""The subset rule."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched.scenario.observation import contains, missing

YES: list[tuple[Any, Any]] = [
    ({"a": 1, "b": 2}, {"a": 1}),
    ({"a": {"b": [1, {"c": 2, "d": 3}]}}, {"a": {"b": [{"c": 2}]}}),
    ([1, 2, 3], [1, 3]),
    ([1, 2, 3], []),
    ({}, {}),
    ({"a": None}, {"a": None}),
    ({}, {"a": None}),
    (1, 1.0),
    ("x", "x"),
]
NO: list[tuple[Any, Any, str]] = [
    ({"a": 1}, {"a": 2}, "a is 1"),
    ({"a": 1}, {"b": 1}, "no b"),
    ([1, 2, 3], [3, 1], "[1, 2, 3]"),
    ([1], [1, 1], "[1]"),
    ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, "a.b.c is 1"),
    ({"a": {"b": [1]}}, {"a": {"b": [2]}}, "a.b is [1]"),
    ({"a": {}}, {"a": {"b": 1}}, "no a.b"),
    ({"a": 1}, {"a": None}, "a is 1"),
    (1, True, "1"),
    (True, 1, "True"),
    ("1", 1, "'1'"),
    ([], {}, "[]"),
    (None, {}, "None"),
]


@pytest.mark.parametrize(("seen", "expected"), YES)
def test_a_part_is_contained(seen: Any, expected: Any) -> None:
    assert contains(seen, expected)
    assert missing(seen, expected) == ""


@pytest.mark.parametrize(("seen", "expected", "said"), NO)
def test_anything_else_is_not_contained_and_said_where(seen: Any, expected: Any, said: str) -> None:
    assert not contains(seen, expected)
    assert missing(seen, expected) == said
