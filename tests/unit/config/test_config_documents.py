"""Text to plain values: what YAML 1.1 as Kubernetes reads it means, and what is refused with its path and line."""

from __future__ import annotations

import math
from typing import Any

import pytest

from koordsched.yamltext.building import resolve
from koordsched.yamltext.documents import Document
from koordsched.yamltext.reading import MAX_DEPTH, MAX_VALUES, read_documents


def read(text: str) -> Document:
    (document,) = read_documents(text)
    return document


def problems(text: str) -> list[tuple[str, str, int | None]]:
    return [(problem.path, problem.text, problem.line) for document in read_documents(text) for problem in document.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("yes", True),
        ("off", False),
        ("12", 12),
        ("-3", -3),
        ("1_000", 1000),
        ("0x10", 16),
        ("0X1f", 31),
        ("-0B11", -3),
        ("0O17", 15),
        ("010", 8),
        ("0b101", 5),
        ("-0x1", -1),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".inf", math.inf),
        ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"),
        ("1.2.3", "1.2.3"),
        ("trUe", "trUe"),
        ("cpu", "cpu"),
        ("-", "-"),
    ],
)
def test_a_plain_scalar_means_what_kubernetes_reads(text: str, value: Any) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_quotes_and_the_tag_str_make_any_scalar_a_text() -> None:
    assert read('["1", \'true\', !!str 2, !!int "3"]').value == ["1", "true", "2", 3]


def test_json_is_read_as_it_is() -> None:
    assert read('{\n\t"a": [1, 2.5, "x\\u00e9", null, true]\n}').value == {"a": [1, 2.5, "xé", None, True]}


def test_every_value_knows_its_line() -> None:
    lines = read("a:\n  b:\n  - 1\n  - c: 2\n").lines
    assert (lines["a.b"], lines["a.b[0]"], lines["a.b[1].c"]) == (3, 3, 4)


def test_a_key_given_twice_is_refused_with_both_lines_and_the_first_value_stays() -> None:
    text = "a:\n  b: 1\n  c: 2\n  b: 3\n"
    assert problems(text) == [("a.b", '3: strict decoding error: duplicate field "a.b", first given on line 2', 4)]
    assert read(text).value == {"a": {"b": 1, "c": 2}}


def test_aliases_repeat_a_value_and_merging_yields_to_own_keys() -> None:
    document = read("base: &base {a: 1, b: 2}\nuse:\n  <<: *base\n  b: 3\nboth: {<<: [*base, {c: 4}]}\nsame: *base\n")
    assert document.problems == ()
    assert document.value["use"] == {"a": 1, "b": 3}
    assert document.value["both"] == {"a": 1, "b": 2, "c": 4}
    assert document.value["same"] == {"a": 1, "b": 2}


def test_merging_what_is_no_mapping_is_refused() -> None:
    assert problems("a:\n  <<: 5\n") == [("a.<<", "5: expected a mapping or a list of mappings", 2)]


def test_an_alias_of_nothing_or_of_what_it_stands_in_is_refused() -> None:
    text = "alias *x names no anchor that is complete before it"
    assert problems("a: *x\n") == [("a", text, 1)]
    assert problems("a: &x [*x]\n") == [("a[0]", text, 1)]


def test_an_alias_bomb_costs_a_message() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12))
    # l4 holds 21,111 values and 23,456 stand before l5: its fourth l4 is too much
    text = f"the document has more than {MAX_VALUES} values when its aliases are unfolded"
    assert problems(f"l0: &l0 [x]\n{levels}\n") == [("l5[3]", text, None)]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_costs_a_message(opening: str) -> None:
    (problem,) = problems(opening * 5000)
    assert problem[1] == f"nested more than {MAX_DEPTH} levels deep"


def test_keys_become_text_and_other_keys_are_refused() -> None:
    assert read("1: a\ntrue: b\n").value == {"1": "a", "true": "b"}
    assert problems("? [1]\n: 2\n") == [("", "expected a text as a key, not a mapping or a list", 1)]
    assert problems("a: &x b\n*x : 2\n") == [("", "expected a text as a key, not an alias", 2)]


@pytest.mark.parametrize("tagged", ["!!binary aGk=", "!!int x", "!mine 3", "!!float true"])
def test_a_tag_that_does_not_fit_is_refused(tagged: str) -> None:
    (problem,) = problems(f"a: {tagged}\n")
    assert problem[0] == "a"
    assert "cannot be read with tag" in problem[1]


def test_a_syntax_error_is_the_problem_of_its_document() -> None:
    first, second = read_documents("a: 1\n---\nb: 'x\n")
    assert first.value == {"a": 1}
    assert second.number == 2
    (problem,) = second.problems
    assert (problem.path, problem.text) == ("line 4, column 1", "not valid YAML: found unexpected end of stream")


def test_a_control_character_is_a_syntax_error() -> None:
    ((path, text, _),) = problems("a: \x00")
    assert path == "(root)"
    assert text.startswith("not valid YAML: unacceptable character")
