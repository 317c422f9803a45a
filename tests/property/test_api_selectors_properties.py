from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from koordsched.api.meta import LabelSelector, LabelSelectorRequirement
from koordsched.api.selectors import SelectorError, label_selector_matcher, parse_field_selector, parse_label_selector, requirement_matches

keys = st.sampled_from(["a", "b", "example.com/c"])
values = st.sampled_from(["", "x", "y", "z"])
labels = st.dictionaries(keys, values)
with_values = st.builds(
    LabelSelectorRequirement, keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=3).map(tuple)
)
without_values = st.builds(LabelSelectorRequirement, keys, st.sampled_from(["Exists", "DoesNotExist"]))
requirements = st.lists(with_values | without_values, max_size=4).map(tuple)
selectors = st.builds(LabelSelector, labels, requirements)


def written(requirement: LabelSelectorRequirement) -> str:
    if requirement.operator in {"In", "NotIn"}:
        return f"{requirement.key} {requirement.operator.lower()} ({','.join(requirement.values)})"
    return requirement.key if requirement.operator == "Exists" else f"!{requirement.key}"


@given(selectors, labels)
def test_a_matcher_selects_what_meets_every_requirement(selector: LabelSelector, found: dict[str, str]) -> None:
    expected = all(found.get(key) == value for key, value in selector.match_labels.items()) and all(
        requirement_matches(r.operator, r.values, found.get(r.key)) for r in selector.match_expressions
    )
    assert label_selector_matcher(selector).matches(found) is expected


@given(selectors)
def test_the_text_form_of_a_selector_compiles_to_the_same_matcher(selector: LabelSelector) -> None:
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()] + [written(r) for r in selector.match_expressions]
    assert parse_label_selector(",".join(parts)) == label_selector_matcher(selector)


@given(st.text(alphabet="ab=!(),<> in\\.", max_size=15) | st.text(max_size=15))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        with suppress(SelectorError):
            parse(text).matches({})


@given(st.text(max_size=10), st.text(max_size=10))
def test_an_escaped_value_is_found_by_a_field_selector(value: str, other: str) -> None:
    escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    selector = parse_field_selector(f"metadata.name={escaped},status.phase=")
    assert selector.matches({"metadata": {"name": value}})
    assert selector.matches({"metadata": {"name": other}}) is (other == value)
