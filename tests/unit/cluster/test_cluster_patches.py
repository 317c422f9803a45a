"""Merge patches and strategic merge patches: results by the RFC's and the API conventions' examples, and what is shared with the target."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched.cluster.memory.patches import PatchError, merge_patch, strategic_merge_patch


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        # The examples of RFC 7386, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_gives_what_rfc_7386_says(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


def test_a_merge_patch_that_changes_nothing_returns_the_target_itself() -> None:
    target = {"metadata": {"labels": {"a": "1"}}, "list": [1, {"x": 2}]}
    assert merge_patch(target, {"metadata": {"labels": {"a": "1", "gone": None}}, "list": [1, {"x": 2}]}) is target


def test_a_merge_patch_copies_only_the_changed_path() -> None:
    target = {"metadata": {"labels": {"a": "1"}}, "spec": {"deep": {}}}
    result = merge_patch(target, {"metadata": {"labels": {"b": "2"}}})
    assert result["spec"] is target["spec"]
    assert target == {"metadata": {"labels": {"a": "1"}}, "spec": {"deep": {}}}


def test_true_is_not_one() -> None:
    assert merge_patch({"a": 1}, {"a": True})["a"] is True


def condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status}


def test_a_strategic_patch_merges_conditions_by_type() -> None:
    target = {"conditions": [{**condition("Ready", "True"), "reason": "Up"}, condition("DiskPressure", "False")]}
    result = strategic_merge_patch(target, {"conditions": [condition("Ready", "False"), condition("PodScheduled", "True")]})
    assert result == {
        "conditions": [
            {**condition("Ready", "False"), "reason": "Up"},
            condition("DiskPressure", "False"),
            condition("PodScheduled", "True"),
        ]
    }
    assert result["conditions"][1] is target["conditions"][1]


def test_a_strategic_patch_deletes_a_condition_by_directive() -> None:
    target = {"conditions": [condition("Ready", "True"), condition("PodScheduled", "False")]}
    result = strategic_merge_patch(target, {"conditions": [{"type": "PodScheduled", "$patch": "delete"}]})
    assert result == {"conditions": [condition("Ready", "True")]}


def test_a_strategic_patch_can_replace_a_whole_list() -> None:
    target = {"conditions": [condition("Ready", "True")]}
    patch = {"conditions": [{"$patch": "replace"}, condition("PodScheduled", "False")]}
    assert strategic_merge_patch(target, patch) == {"conditions": [condition("PodScheduled", "False")]}


def test_a_strategic_patch_can_replace_or_delete_an_object() -> None:
    target = {"labels": {"a": "1"}, "annotations": {"b": "2"}}
    patch = {"labels": {"$patch": "replace", "c": "3"}, "annotations": {"$patch": "delete"}}
    assert strategic_merge_patch(target, patch) == {"labels": {"c": "3"}}


def test_element_order_hints_are_accepted() -> None:
    target = {"conditions": [condition("Ready", "True")]}
    patch = {"$setElementOrder/conditions": [{"type": "PodScheduled"}], "conditions": [condition("PodScheduled", "False")]}
    assert [item["type"] for item in strategic_merge_patch(target, patch)["conditions"]] == ["Ready", "PodScheduled"]


def test_finalizers_are_added_to_and_deleted_from() -> None:
    target = {"finalizers": ["a", "b"]}
    assert strategic_merge_patch(target, {"finalizers": ["b", "c"]}) == {"finalizers": ["a", "b", "c"]}
    assert strategic_merge_patch(target, {"$deleteFromPrimitiveList/finalizers": ["a"]}) == {"finalizers": ["b"]}


def test_a_list_without_merge_key_is_replaced() -> None:
    assert strategic_merge_patch({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}) == {"taints": [{"key": "b"}]}


def test_null_deletes_in_a_strategic_patch() -> None:
    assert strategic_merge_patch({"nominatedNodeName": "n1", "phase": "Pending"}, {"nominatedNodeName": None}) == {"phase": "Pending"}


@pytest.mark.parametrize(
    "patch",
    [
        {"conditions": [condition("Ready", "True")]},
        {"$setElementOrder/conditions": [{"type": "Ready"}]},
        {"absent": None, "$deleteFromPrimitiveList/finalizers": ["zz"]},
        {"finalizers": ["a"]},
    ],
)
def test_a_strategic_patch_that_changes_nothing_returns_the_target_itself(patch: dict[str, Any]) -> None:
    target = {"conditions": [{**condition("Ready", "True"), "reason": "Up"}], "finalizers": ["a"]}
    assert strategic_merge_patch(target, patch) is target


def test_an_unknown_directive_is_named() -> None:
    with pytest.raises(PatchError, match=r"\$retainKeys: \['a'\]"):
        strategic_merge_patch({"spec": {"a": 1}}, {"spec": {"$retainKeys": ["a"]}})


def test_an_element_without_its_merge_key_is_shown() -> None:
    with pytest.raises(PatchError, match=r"\{'status': 'True'\} does not contain declared merge key: type"):
        strategic_merge_patch({}, {"conditions": [{"status": "True"}]})
