"""Merging hints: who is admitted where, and what is said otherwise (nodenumaresource.md §9).

Masks: 0b01 is NUMA node 0, 0b10 NUMA node 1.
"""

from __future__ import annotations

import pytest

from koordsched._core.numa_facts import Hint, Machine, Merged
from koordsched._core.numa_merge import mask_text, merge_hints
from koordsched.api.koordinator.policies import NumaExclusive, NumaTopologyPolicy

BEST_EFFORT, RESTRICTED, SINGLE = (
    NumaTopologyPolicy.BEST_EFFORT,
    NumaTopologyPolicy.RESTRICTED,
    NumaTopologyPolicy.SINGLE_NUMA_NODE,
)
TWO, FOUR = 0b11, 0b1111
NARROW = [Hint(0b01, 10, True), Hint(0b10, 20, True), Hint(0b11, 30)]
WIDE = [Hint(0b11, 5, True)]


def machine(policy: NumaTopologyPolicy, zones: int = TWO, shared: int = 0, single: int = 0, **others: NumaExclusive) -> Machine:
    return Machine(policy, others.get("exclusive", NumaExclusive.NONE), zones, shared, single)


@pytest.mark.parametrize(
    ("mask", "text"),
    [(0b1, "01"), (0b10, "10"), (0b11, "11"), (0b100, "100"), (0b101, "0101"), (0b1000, "1000"), (0b10000, "10000"), (0b10001, "010001")],
)
def test_masks_are_printed_as_the_reference_prints_them(mask: int, text: str) -> None:
    assert mask_text(mask) == text


def test_the_widest_mask_is_printed_whole() -> None:
    assert mask_text((1 << 64) - 1) == "1" * 64


@pytest.mark.parametrize("policy", [BEST_EFFORT, RESTRICTED, SINGLE])
def test_of_equally_narrow_masks_that_all_prefer_the_one_with_the_highest_score_is_taken(policy: NumaTopologyPolicy) -> None:
    assert merge_hints([{"cpu": NARROW, "memory": NARROW}], machine(policy)) == Merged(0b10, admitted=True)


def test_of_equal_scores_the_lowest_mask_is_taken() -> None:
    hints = [Hint(0b10, 7, True), Hint(0b01, 7, True)]
    assert merge_hints([{"cpu": hints}], machine(SINGLE)).mask == 0b01


def test_a_higher_score_beats_a_lower_mask_of_the_same_width() -> None:
    hints = [Hint(0b0110, 1, True), Hint(0b1001, 9, True)]  # the reference always takes 0b0110 (D9)
    assert merge_hints([{"cpu": hints}], machine(RESTRICTED, FOUR)).mask == 0b1001


def test_single_numa_node_refuses_what_needs_two_and_says_what_was_asked_for() -> None:
    merged = merge_hints([{"memory": WIDE, "cpu": NARROW}], machine(SINGLE))
    assert merged == Merged(None, admitted=False, summary="cpu prefer [01 10] among [01 10 11],memory prefer [11] among [11]")


def test_restricted_joins_what_was_asked_for_with_and() -> None:
    merged = merge_hints([{"memory": WIDE}, {"gpu": NARROW}], machine(RESTRICTED))
    assert merged.summary == "gpu prefer [01 10] among [01 10 11] & memory prefer [11] among [11]"


@pytest.mark.parametrize("policy", [RESTRICTED, SINGLE])
def test_resources_for_which_nothing_would_do_are_named_in_order(policy: NumaTopologyPolicy) -> None:
    merged = merge_hints([{"memory": [], "cpu": [], "gpu": NARROW}], machine(policy))
    assert merged == Merged(None, admitted=False, unsatisfied=("cpu", "memory"))


def test_best_effort_takes_all_zones_when_nothing_would_do_for_some_resource() -> None:
    assert merge_hints([{"cpu": NARROW, "memory": []}], machine(BEST_EFFORT)) == Merged(TWO, admitted=True)


def test_best_effort_takes_all_zones_when_the_resources_do_not_agree() -> None:
    assert merge_hints([{"cpu": [Hint(0b01, 1, True)], "memory": WIDE}], machine(BEST_EFFORT)) == Merged(TWO, admitted=True)


def test_best_effort_takes_a_mask_that_all_have_although_not_all_prefer_it() -> None:
    hints = {"cpu": [Hint(0b0001, 1, True), Hint(0b0011, 1)], "memory": [Hint(0b0011, 1, True)]}
    assert merge_hints([hints], machine(BEST_EFFORT, FOUR)).mask == FOUR  # {0} is narrower, but memory cannot come from it
    hints["cpu"] = [Hint(0b0100, 1, True), Hint(0b0011, 1)]
    assert merge_hints([hints], machine(BEST_EFFORT, FOUR)).mask == 0b0011


@pytest.mark.parametrize("nothing", [{}, {"gpu": None}])
@pytest.mark.parametrize(("policy", "mask"), [(BEST_EFFORT, TWO), (RESTRICTED, TWO), (SINGLE, None)])
def test_who_has_no_hints_takes_anything(nothing: dict[str, None], policy: NumaTopologyPolicy, mask: int | None) -> None:
    assert merge_hints([nothing], machine(policy)) == Merged(mask, admitted=True)
    assert merge_hints([nothing, {"cpu": NARROW}], machine(policy)) == Merged(0b10, admitted=True)


def test_on_a_machine_of_one_zone_single_numa_node_has_no_affinity() -> None:
    assert merge_hints([{"cpu": [Hint(0b1, 1, True)]}], machine(SINGLE, 0b1)) == Merged(None, admitted=True)
    assert merge_hints([{"cpu": [Hint(0b1, 1, True)]}], machine(RESTRICTED, 0b1)) == Merged(0b1, admitted=True)


def test_zones_that_the_machine_does_not_have_cannot_be_taken_from() -> None:
    assert not merge_hints([{"gpu": [Hint(0b100, 1, True)]}], machine(SINGLE)).admitted
    assert merge_hints([{"gpu": [Hint(0b100, 1, True), Hint(0b10, 1, True)]}], machine(SINGLE)).mask == 0b10


@pytest.mark.parametrize(
    ("mask", "shared", "single", "admitted"),
    [
        (0b01, 0b01, 0, False),  # alone on a NUMA node that is shared
        (0b11, 0, 0b10, False),  # on several, of which one belongs to a pod alone
        (0b11, 0b01, 0, True),
        (0b11, 0b11, 0, True),
        (0b01, 0, 0b01, True),
        (0b01, 0b10, 0, True),
    ],
)
def test_exclusivity_keeps_pods_of_one_numa_node_and_pods_of_several_apart(mask: int, shared: int, single: int, *, admitted: bool) -> None:
    hints = [{"cpu": [Hint(mask, 1, True)]}]
    required = machine(RESTRICTED, shared=shared, single=single, exclusive=NumaExclusive.REQUIRED)
    assert merge_hints(hints, required).admitted is admitted
    assert merge_hints(hints, required._replace(exclusive=NumaExclusive.PREFERRED)).admitted
