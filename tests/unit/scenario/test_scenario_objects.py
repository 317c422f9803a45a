"""`{i}` and `${now}` in strings."""

from __future__ import annotations

import pytest

from koordsched.scenario.objects import bad_template, with_index, with_now

NEW_YEAR = 1767225600.0  # 2026-01-01T00:00:00Z


def test_the_index_is_replaced_in_keys_and_values_with_and_without_width() -> None:
    body = {"metadata": {"name": "p-{i}", "labels": {"l{i}": "{i:03d}"}}, "list": ["{i}{i}"], "number": 5}
    assert with_index(body, 7) == {"metadata": {"name": "p-7", "labels": {"l7": "007"}}, "list": ["77"], "number": 5}


def test_other_braces_stay() -> None:
    assert with_index({"annotation": '{"cpuset": {"ix": 1}}', "odd": "{i:x}"}, 1) == {"annotation": '{"cpuset": {"ix": 1}}', "odd": "{i:x}"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${now}", "2026-01-01T00:00:00Z"),
        ("${now-90s}", "2025-12-31T23:58:30Z"),
        ("${now+2m}", "2026-01-01T00:02:00Z"),
        ("${now+1h30m}", "2026-01-01T01:30:00Z"),
        ('{"t": "${now}"} and ${now+1s}', '{"t": "2026-01-01T00:00:00Z"} and 2026-01-01T00:00:01Z'),
        ("now", "now"),
    ],
)
def test_now_becomes_a_time_in_utc(text: str, expected: str) -> None:
    assert with_now({"a": [text]}, NEW_YEAR) == {"a": [expected]}


@pytest.mark.parametrize("text", ["${now-}", "${now+2}", "${nowadays}", "${now", "${now*2s}", "${now-2 minutes}"])
def test_a_time_that_cannot_be_read_is_found_with_its_path(text: str) -> None:
    assert list(bad_template({"spec": [{"at": text}, "${now}"]}, "given[0]")) == [("given[0].spec[0].at", text)]


def test_the_input_is_not_changed() -> None:
    body = {"a": ["{i} ${now}"]}
    with_index(body, 1)
    with_now(body, NEW_YEAR)
    assert body == {"a": ["{i} ${now}"]}
