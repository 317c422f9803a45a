"""The text and the parts of "no node": framework.md §2.2."""

from __future__ import annotations

import pytest

from koordsched.framework.diagnosis import Diagnosis, Refusal, fit_error
from koordsched.framework.status import Code, Status, error, unresolvable, unschedulable


def diagnosis_of(*refusals: Refusal) -> Diagnosis:
    plugins = frozenset(refusal.status.plugin for refusal in refusals)
    return Diagnosis(sum(refusal.nodes for refusal in refusals), plugins, refusals, lambda _row: None)


def test_reasons_are_sorted_as_strings_with_their_counts() -> None:
    assert fit_error(17, {"y": 3, "x": 14}) == "0/17 nodes are available: 14 x, 3 y."
    assert fit_error(109, {"b": 9, "a": 100}) == "0/109 nodes are available: 100 a, 9 b."


def test_a_node_can_give_several_reasons() -> None:
    both = unschedulable("Insufficient cpu", "Insufficient memory")
    made = diagnosis_of(Refusal(both, 2), Refusal(unschedulable("Insufficient cpu"), 1))
    assert made.message == "0/3 nodes are available: 2 Insufficient memory, 3 Insufficient cpu."


def test_the_same_reason_of_two_plugins_is_counted_together() -> None:
    made = diagnosis_of(Refusal(unschedulable("full").with_plugin("A"), 1), Refusal(unresolvable("full").with_plugin("B"), 4))
    assert made.message == "0/5 nodes are available: 5 full."
    assert made.plugins == {"A", "B"}


def test_a_pre_filter_refusal_stands_for_all_nodes_without_a_count() -> None:
    status = unresolvable("a", "b").with_plugin("P")
    made = Diagnosis.of_pre_filter(3, frozenset({"P"}), status)
    assert made.message == "0/3 nodes are available: a, b."
    assert (made.pre_filter, made.status_of(7)) == (status, status)


def test_without_any_node_no_plugin_refused() -> None:
    made = Diagnosis.without_nodes()
    assert (made.message, made.plugins, made.status_of(0)) == ("no nodes available to schedule pods", frozenset(), None)


def test_without_reasons_the_text_ends_with_the_colon() -> None:
    assert fit_error(2, {}) == "0/2 nodes are available:"


def test_plugins_that_answered_pending_are_known_by_name() -> None:
    waiting = Status(Code.PENDING, ("soon",), "Gang")
    made = diagnosis_of(Refusal(waiting, 1), Refusal(unschedulable("full").with_plugin("Fit"), 2))
    assert made.pending_plugins == {"Gang"}
    assert Diagnosis.of_pre_filter(1, frozenset({"Gang"}), waiting).pending_plugins == {"Gang"}


@pytest.mark.parametrize(
    ("status", "rejected"),
    [
        (unschedulable("x"), True),
        (unresolvable("x"), True),
        (Status(Code.PENDING), True),
        (error("x"), False),
        (Status(Code.WAIT), False),
        (Status(Code.SKIP), False),
    ],
    ids=lambda value: value.code.value if isinstance(value, Status) else "",
)
def test_unschedulable_unresolvable_and_pending_are_refusals(status: Status, rejected: bool) -> None:
    assert status.rejected is rejected


def test_a_message_joins_the_reasons() -> None:
    assert unschedulable("a", "b").with_plugin("P").message == "a, b"
