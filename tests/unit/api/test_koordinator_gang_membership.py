"""Which gang a pod is a member of, and what the gang wants (coscheduling.md §2)."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched.api.koordinator.gang_membership import (
    GANG_NAME,
    GROUPS,
    LIGHTWEIGHT_LABEL,
    LIGHTWEIGHT_MIN,
    MATCH_POLICY,
    MATCH_POLICY_ALIAS,
    MIN_AVAILABLE,
    MODE,
    POD_GROUP_LABEL,
    RANK,
    TOTAL_NUMBER,
    WAITING_TIME,
    gang_name,
    is_in_pod_group,
    rank_of,
    spec_of_member,
    spec_of_pod_group,
)
from koordsched.api.koordinator.gangs import PodGroup, PodGroupSpec
from koordsched.api.meta import ObjectMeta


def meta(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> ObjectMeta:
    return ObjectMeta(name="p", namespace="default", labels=labels or {}, annotations=annotations or {})


def test_the_first_name_that_is_not_empty_counts() -> None:
    every = {POD_GROUP_LABEL: "a", LIGHTWEIGHT_LABEL: "b"}
    assert gang_name(meta(every, {GANG_NAME: "c"})) == "a"
    assert gang_name(meta(every | {POD_GROUP_LABEL: ""}, {GANG_NAME: "c"})) == "b"
    assert gang_name(meta({}, {GANG_NAME: "c"})) == "c"
    assert gang_name(meta()) == ""
    assert is_in_pod_group(meta(every))
    assert not is_in_pod_group(meta({LIGHTWEIGHT_LABEL: "b"}))


@pytest.mark.parametrize(("text", "rank"), [("3", 3), ("0", 0), ("-1", None), ("x", None), ("", None), ("3000000000", None)])
def test_the_index_is_an_int32_of_at_least_zero(text: str, rank: int | None) -> None:
    assert rank_of(meta({}, {RANK: text})) == rank


@pytest.mark.parametrize("text", [None, "", "two", "1.5", "2147483648", " 3"])
def test_a_member_without_a_legal_minimum_says_nothing_of_its_gang(text: str | None) -> None:
    assert spec_of_member(meta({}, {} if text is None else {MIN_AVAILABLE: text})) is None


def test_the_label_with_the_minimum_wins_over_the_annotation() -> None:
    found = spec_of_member(meta({LIGHTWEIGHT_MIN: "2"}, {MIN_AVAILABLE: "5"}))
    assert found is not None
    assert (found.min_available, found.total) == (2, 2)


def spec(**annotations: str) -> Any:
    names = {
        "total": TOTAL_NUMBER,
        "mode": MODE,
        "policy": MATCH_POLICY,
        "alias": MATCH_POLICY_ALIAS,
        "groups": GROUPS,
        "wait": WAITING_TIME,
    }
    found = spec_of_member(meta({}, {MIN_AVAILABLE: "3"} | {names[key]: value for key, value in annotations.items()}))
    assert found is not None
    return found


def test_what_members_say_of_their_gang() -> None:
    found = spec(total="5", mode="NonStrict", policy="only-waiting", groups='["n/b", "n/a"]', wait="30s")
    assert (found.min_available, found.total, found.strict, found.match_policy) == (3, 5, False, "only-waiting")
    assert (found.groups, found.waiting, found.problems) == (("n/a", "n/b"), "30s", ())


def test_the_older_key_of_the_match_policy_counts_where_the_newer_one_is_empty() -> None:
    assert spec(alias="waiting-and-running").match_policy == "waiting-and-running"
    assert spec(policy="only-waiting", alias="waiting-and-running").match_policy == "only-waiting"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("total", "2", f"{TOTAL_NUMBER}: '2' is no number of at least 3; 3 counts"),
        ("total", "many", f"{TOTAL_NUMBER}: 'many' is no number of at least 3; 3 counts"),
        ("mode", "strict", f"{MODE}: 'strict' is neither Strict nor NonStrict; Strict counts"),
        ("policy", "all", f"{MATCH_POLICY}: 'all' is none of once-satisfied, only-waiting, waiting-and-running; the default counts"),
    ],
)
def test_what_cannot_be_used_is_named_and_the_default_counts(field: str, value: str, problem: str) -> None:
    found = spec(**{field: value})
    assert found.problems == (problem,)
    assert (found.total, found.strict, found.match_policy, found.groups) == (3, True, "", ())


def test_a_list_of_gangs_that_is_none_leaves_the_gang_alone() -> None:
    for text in ("[1", '{"a": 1}', '"n/a"', "[1]"):
        found = spec(groups=text)
        assert found.groups == ()
        assert found.problems[0].startswith(GROUPS)
    assert spec(groups="[]").problems == ()


@pytest.mark.parametrize(("seconds", "waiting"), [(90, "90s"), (0, ""), (-5, ""), (None, "")])
def test_a_pod_group_names_its_timeout_in_its_spec_alone(seconds: int | None, waiting: str) -> None:
    group = PodGroup(metadata=meta({}, {WAITING_TIME: "7s"}), spec=PodGroupSpec(min_member=4, schedule_timeout_seconds=seconds))
    found = spec_of_pod_group(group)
    assert (found.min_available, found.total, found.waiting) == (4, 4, waiting)
