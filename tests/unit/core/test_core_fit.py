from __future__ import annotations

import numpy as np
import pytest

from koordsched._core.fit import MAX_IDS, UNRESOLVABLE, filter_fit
from koordsched._core.table import NodeTable, Request


def table(*rows: tuple[dict[int, int], dict[int, int]]) -> NodeTable:
    """Make a table of rows given as (allocatable, requested)."""
    made = NodeTable()
    made.ensure_resources(6)
    for allocatable, requested in rows:
        row = made.acquire_row()
        made.set_allocatable(row, allocatable)
        if requested:
            made.add(row, Request(list(requested), list(requested.values()), 0, 0))
        made.set_live(row, True)
    return made


def codes(made: NodeTable, request: dict[int, int]) -> list[int]:
    found: list[int] = filter_fit(made, Request(list(request), list(request.values()), 0, 0), made.live_rows()).tolist()
    return found


def test_a_row_with_exactly_enough_left_fits() -> None:
    assert codes(table(({0: 2, 1: 4000}, {0: 1, 1: 3000})), {0: 1, 1: 1000}) == [0]


def test_each_short_amount_sets_the_bit_of_its_place_in_the_request() -> None:
    row = ({0: 1, 1: 4000, 2: 100, 4: 8}, {0: 1, 1: 3001, 4: 8})
    assert codes(table(row), {0: 1, 1: 1000, 2: 100, 4: 1}) == [0b1011]


def test_an_amount_beyond_the_empty_row_is_unresolvable() -> None:
    assert codes(table(({0: 9, 1: 4000}, {})), {0: 1, 1: 4001}) == [0b10 | UNRESOLVABLE]


def test_the_number_of_pods_is_never_unresolvable() -> None:
    assert codes(table(({}, {})), {0: 1}) == [0b1]


def test_a_row_without_the_resource_is_unresolvable() -> None:
    assert codes(table(({0: 9}, {})), {0: 1, 5: 1}) == [0b10 | UNRESOLVABLE]


def test_only_the_rows_asked_about_are_answered_in_their_order() -> None:
    made = table(({0: 9}, {}), ({}, {}), ({0: 9}, {}))
    answer = filter_fit(made, Request([0], [1], 0, 0), np.array([2, 1], np.int32))
    assert answer.dtype == np.int32
    assert answer.tolist() == [0, 1]


def test_no_rows_no_answers() -> None:
    assert filter_fit(table(), Request([0], [1], 0, 0), np.array([], np.int32)).tolist() == []


def test_int64_limits_do_not_overflow() -> None:
    most = 2**63 - 1
    assert codes(table(({0: 9, 2: most}, {2: most})), {0: 1, 2: most}) == [0b10]


def test_more_resources_than_a_code_has_bits_for_are_refused() -> None:
    made = NodeTable()
    made.ensure_resources(MAX_IDS + 1)
    too_many = Request(list(range(MAX_IDS + 1)), [1] * (MAX_IDS + 1), 0, 0)
    with pytest.raises(ValueError, match="31 resources"):
        filter_fit(made, too_many, made.live_rows())


def test_the_last_possible_resource_still_has_its_bit() -> None:
    made = NodeTable()
    made.ensure_resources(MAX_IDS)
    row = made.acquire_row()
    made.set_allocatable(row, dict.fromkeys(range(MAX_IDS - 1), 1))
    made.set_live(row, True)
    request = Request(list(range(MAX_IDS)), [1] * MAX_IDS, 0, 0)
    assert filter_fit(made, request, made.live_rows()).tolist() == [1 << 29 | UNRESOLVABLE]


def test_a_resource_that_the_table_does_not_have_is_refused() -> None:
    made = table()
    with pytest.raises(IndexError, match="resource 6 of 6"):
        filter_fit(made, Request([0, 6], [1, 1], 0, 0), made.live_rows())


@pytest.mark.parametrize("rows", [np.array([0], np.int64), np.array([[0]], np.int32), np.arange(4, dtype=np.int32)[::2]])
def test_rows_of_another_form_are_refused(rows: np.ndarray) -> None:
    with pytest.raises(TypeError, match="contiguous int32"):
        filter_fit(table(({0: 9}, {})), Request([0], [1], 0, 0), rows)
