"""Why a text is no label key or value, in the words of k8s.io/apimachinery."""

from __future__ import annotations

import pytest

from koordsched.api.names import extended_resource_problems, label_key_problems, label_value_problems

NAME = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"


@pytest.mark.parametrize("key", ["a", "A.b_c-9", "example.com/MyName", "a" * 63])
def test_a_label_key_is_a_name_with_an_optional_domain(key: str) -> None:
    assert label_key_problems(key) == []


@pytest.mark.parametrize(
    ("key", "problems"),
    [
        ("", ["name part must be non-empty", f"name part {NAME}"]),
        ("-a", [f"name part {NAME}"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("/a", ["prefix part must be non-empty"]),
        ("Example.com/a", ["prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"]),
        (f"{'a.' * 127}/a", ["prefix part must be no more than 253 bytes"]),
        ("a/b/c", [f"a valid label key {NAME}"]),
        ("_/!", ["prefix part a lowercase RFC 1123 subdomain", f"name part {NAME}"]),
    ],
)
def test_a_text_that_is_no_label_key_has_every_reason(key: str, problems: list[str]) -> None:
    found = label_key_problems(key)
    assert [text[: len(problem)] for text, problem in zip(found, problems, strict=True)] == problems


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ("", []),
        ("a.b", []),
        ("a" * 64, ["must be no more than 63 bytes"]),
        ("a/b", ["a valid label must be an empty string or consist of alphanumeric characters"]),
    ],
)
def test_a_label_value_is_empty_or_a_name(value: str, problems: list[str]) -> None:
    assert [text[: len(problem)] for text, problem in zip(label_value_problems(value), problems, strict=True)] == problems


def test_an_extended_resource_has_a_domain_of_its_own() -> None:
    assert extended_resource_problems("nvidia.com/gpu") == []
    assert extended_resource_problems("kubernetes.io/gpu") == ["is an invalid extended resource name"]
    assert len(extended_resource_problems("a b/c")) == 1
