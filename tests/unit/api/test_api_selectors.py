from __future__ import annotations

import pytest

from koordsched.api.meta import LabelSelector, LabelSelectorRequirement
from koordsched.api.selectors import (
    EVERYTHING,
    NOTHING,
    SelectorError,
    label_selector_matcher,
    map_matcher,
    parse_label_selector,
    requirement_error,
    requirement_matches,
)


def needs(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key, operator, values)


@pytest.mark.parametrize(
    ("operator", "values", "value", "matches"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a", "b"), "c", False),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "", False),
        ("Gt", ("4",), "5", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("4",), None, False),
        ("Gt", ("4",), "5.5", False),
        ("Gt", ("4",), "five", False),
        ("Gt", ("four",), "5", False),
        ("Gt", ("4", "3"), "5", False),
        ("Gt", ("-1",), "+0", True),
        ("Gt", ("1",), "1_0", False),
        ("Gt", ("1",), "9223372036854775808", False),
        ("Lt", ("10",), "9", True),
        ("Lt", ("10",), "10", False),
        ("Equals", ("a",), "a", False),
    ],
)
def test_an_operator_means_what_it_means_in_kubernetes(operator: str, values: tuple[str, ...], value: str | None, matches: bool) -> None:
    assert requirement_matches(operator, values, value) is matches


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        (needs("disk", "In", "ssd"), None),
        (needs("disk", "NotIn", "ssd", ""), None),
        (needs("example.com/disk", "Exists"), None),
        (needs("cores", "Gt", "5"), None),
        (needs("", "Exists"), 'key: "" is not a label key'),
        (needs("a b", "Exists"), 'key: "a b" is not a label key'),
        (needs("disk", "Equals", "x"), 'operator: "Equals" is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt'),
        (needs("disk", "In"), "values: at least one is required with In"),
        (needs("disk", "NotIn"), "values: at least one is required with NotIn"),
        (needs("disk", "Exists", "x"), "values: none are allowed with Exists"),
        (needs("disk", "DoesNotExist", "x"), "values: none are allowed with DoesNotExist"),
        (needs("cores", "Gt"), "values: exactly one integer is required with Gt"),
        (needs("cores", "Lt", "1", "2"), "values: exactly one integer is required with Lt"),
        (needs("cores", "Lt", "x"), "values: exactly one integer is required with Lt"),
        (needs("cores", "Gt", "-5"), 'values: "-5" is not a label value'),
        (needs("disk", "In", "-x"), 'values: "-x" is not a label value'),
    ],
)
def test_a_node_selector_requirement_says_why_it_cannot_be_understood(requirement: LabelSelectorRequirement, problem: str | None) -> None:
    assert requirement_error(requirement) == problem


def test_an_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert label_selector_matcher(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.everything
    assert label_selector_matcher(LabelSelector()) == EVERYTHING
    assert EVERYTHING.everything
    assert EVERYTHING.matches(None)


def test_all_requirements_of_a_selector_must_hold() -> None:
    matcher = label_selector_matcher(LabelSelector({"app": "web"}, (needs("tier", "In", "a", "b"), needs("old", "DoesNotExist"))))
    assert matcher.matches({"app": "web", "tier": "b", "other": "x"})
    assert not matcher.matches({"app": "db", "tier": "b"})
    assert not matcher.matches({"app": "web", "tier": "c"})
    assert not matcher.matches({"app": "web", "tier": "a", "old": ""})
    assert not matcher.matches(None)


def test_selectors_that_mean_the_same_are_equal_and_hash_equal() -> None:
    one = label_selector_matcher(LabelSelector({"a": "1"}, (needs("b", "In", "y", "x"), needs("b", "In", "x", "y"))))
    other = label_selector_matcher(LabelSelector({}, (needs("b", "In", "x", "y"), needs("a", "In", "1"))))
    assert one == other
    assert hash(one) == hash(other)
    assert one != label_selector_matcher(LabelSelector({"a": "2"}))


def test_a_requirement_can_be_added_to_a_matcher() -> None:
    matcher = label_selector_matcher(LabelSelector({"app": "web"})).with_requirement(needs("version", "In", "2"))
    assert matcher == map_matcher({"version": "2", "app": "web"})
    assert NOTHING.with_requirement(needs("version", "In", "2")) is NOTHING


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (LabelSelector({}, (needs("a", "In", "b"), needs("a", "Near"))), r'^matchExpressions\[1\]\.operator: "Near" is not one of'),
        (LabelSelector({}, (needs("a", "Gt", "1"),)), r'operator: "Gt" is not one of In, NotIn, Exists, DoesNotExist$'),
        (LabelSelector({}, (needs("a", "In"),)), r"matchExpressions\[0\]\.values: at least one is required"),
        (LabelSelector({"a b": "c"}), r'^matchLabels: "a b" is not a label key'),
        (LabelSelector({"a": "c d"}), r'^matchLabels\[a\]: "c d" is not a label value'),
    ],
)
def test_a_selector_that_cannot_be_understood_is_named(selector: LabelSelector, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        label_selector_matcher(selector)


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("", LabelSelector()),
        ("  ", LabelSelector()),
        ("a=b", LabelSelector({"a": "b"})),
        ("a==b", LabelSelector({"a": "b"})),
        ("a = b , c", LabelSelector({"a": "b"}, (needs("c", "Exists"),))),
        ("a!=b", LabelSelector({}, (needs("a", "NotIn", "b"),))),
        ("!a", LabelSelector({}, (needs("a", "DoesNotExist"),))),
        ("a in (b,c),d", LabelSelector({}, (needs("a", "In", "b", "c"), needs("d", "Exists")))),
        ("a notin(b)", LabelSelector({}, (needs("a", "NotIn", "b"),))),
        ("a=", LabelSelector({"a": ""})),
        ("a in ()", LabelSelector({"a": ""})),
        ("a in (b,)", LabelSelector({}, (needs("a", "In", "b", ""),))),
        ("a in (,b)", LabelSelector({}, (needs("a", "In", "b", ""),))),
        ("in", LabelSelector({}, (needs("in", "Exists"),))),
        ("x.io/a=b.c", LabelSelector({"x.io/a": "b.c"})),
    ],
)
def test_the_text_form_means_the_same_as_the_structured_one(text: str, selector: LabelSelector) -> None:
    assert parse_label_selector(text) == label_selector_matcher(selector)


def test_the_text_form_can_compare_integers() -> None:
    matcher = parse_label_selector("cores>4,cores<8")
    assert [cores for cores in range(10) if matcher.matches({"cores": str(cores)})] == [5, 6, 7]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,", "found the end, expected a requirement after ','"),
        (",a", "found ',', expected a label key or '!'"),
        ("a b", "found 'b', expected one of = == != in notin < >"),
        ("a in b", "found 'b', expected '('"),
        ("a in (b", "found the end, expected ')'"),
        ("a in (b c)", "found 'c', expected ')'"),
        ("a=b=c", "found '=', expected ','"),
        ("a=(", "found '(', expected a value"),
        ("!", "found the end, expected a label key after '!'"),
        ("A_/b", 'key: "A_/b" is not a label key'),
        ("a>b", "values: exactly one integer is required with Gt"),
        ("a=-b", 'values: "-b" is not a label value'),
    ],
)
def test_text_that_is_no_selector_is_refused_with_what_was_found(text: str, found: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value) == f'label selector "{text}": {found}'
