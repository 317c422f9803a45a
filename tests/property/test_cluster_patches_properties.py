"""Patches: equal to a naive twin that copies everything, and never a change in place."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koordsched.cluster.memory.patches import merge_patch, strategic_merge_patch

SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x", "y"])
KEYS = st.sampled_from(["a", "b", "spec", "status"])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8)


def naive_merge(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word for word."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = deepcopy(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = naive_merge(result.get(name), value)
    return result


@given(JSON, JSON)
def test_a_merge_patch_equals_the_naive_one_and_changes_nothing_in_place(target: Any, patch: Any) -> None:
    before = deepcopy(target)
    assert merge_patch(target, patch) == naive_merge(target, patch)
    assert target == before


@given(JSON, JSON)
def test_applying_a_merge_patch_twice_is_applying_it_once(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) is once or not isinstance(once, dict | list)


@given(JSON, JSON)
def test_a_strategic_patch_without_merge_keys_is_a_merge_patch(target: Any, patch: Any) -> None:
    before = deepcopy(target)
    assert strategic_merge_patch(target, patch) == naive_merge(target, patch)
    assert target == before


CONDITIONS = st.lists(st.sampled_from(["Ready", "PodScheduled", "Other"]), unique=True).flatmap(
    lambda types: st.tuples(
        *(st.fixed_dictionaries({"type": st.just(kind), "status": st.sampled_from(["True", "False"])}) for kind in types)
    )
)


@given(CONDITIONS, CONDITIONS)
def test_merging_conditions_keeps_one_of_each_type_and_the_patches_state(old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
    merged = strategic_merge_patch({"conditions": list(old)}, {"conditions": list(new)})["conditions"]
    expected = {item["type"]: item["status"] for item in (*old, *new)}
    assert {item["type"]: item["status"] for item in merged} == expected
    assert len(merged) == len(expected)
