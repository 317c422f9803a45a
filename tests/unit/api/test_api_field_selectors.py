from __future__ import annotations

from typing import Any

import pytest

from koordsched.api.selectors import SelectorError, parse_field_selector

POD = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"hostNetwork": True}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a", True),
        ("metadata.name=b", False),
        ("metadata.name!=b", True),
        ("spec.nodeName=", True),
        ("spec.nodeName!=", False),
        ("status.phase!=Succeeded,status.phase!=Failed", True),
        ("status.phase!=Succeeded,status.phase!=Running", False),
        ("metadata.name=a,,metadata.namespace=default,", True),
        ("spec.hostNetwork=true", True),
        ("spec.unschedulable=false", True),
        ("metadata.name.deeper=", True),
    ],
)
def test_a_field_selector_matches_by_dotted_path(text: str, matches: bool) -> None:
    assert parse_field_selector(text).matches(POD) is matches


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (r"metadata.name=a\,b", "a,b"),
        (r"metadata.name=a\=b", "a=b"),
        ("metadata.name=a\\\\b", "a\\b"),
        (r"metadata.name=a\,b,status.phase=", "a,b"),
    ],
)
def test_a_backslash_lets_a_value_contain_separators(text: str, name: str) -> None:
    assert parse_field_selector(text).matches({"metadata": {"name": name}})
    assert not parse_field_selector(text).matches({"metadata": {"name": "a"}})


@pytest.mark.parametrize("text", ["metadata.name", "=a", "metadata.name=a=b", "metadata.name=a\\", r"metadata.name=a\b"])
def test_a_term_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value).startswith(f'field selector "{text}": ')


@pytest.mark.parametrize("raw", [{}, {"metadata": None}, {"metadata": []}, {"metadata": {"name": None}}])
def test_a_missing_field_reads_as_empty(raw: dict[str, Any]) -> None:
    assert parse_field_selector("metadata.name=").matches(raw)
