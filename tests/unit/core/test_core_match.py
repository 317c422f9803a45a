from __future__ import annotations

import numpy as np
import pytest
from support.known import known

from koordsched._core.change import NodeChange
from koordsched._core.match import Terms, filter_equal
from koordsched._core.table import NodeTable


def table(*columns: list[int]) -> NodeTable:
    """Make a table with these attribute columns; all rows are live."""
    made = NodeTable()
    for _ in columns[0]:
        made.set_live(made.acquire_row(), True)
    for values in columns:
        attribute = made.new_attribute()
        for row, value in enumerate(values):
            made.set_attribute(attribute, row, value, int(NodeChange.LABELS))
    return made


YES_FOR_1 = bytes([0, 1, 0])
NOT_2 = bytes([1, 1, 0])


def test_a_row_matches_when_all_conditions_of_some_term_hold() -> None:
    made = table([1, 1, 2, 0], [1, 2, 1, 0])
    terms = Terms([[(0, YES_FOR_1), (1, YES_FOR_1)], [(0, bytes([0, 0, 1]))]])
    flags = terms.matches(made, made.live_rows())
    assert flags is not None
    assert flags.tolist() == [1, 0, 1, 0]


def test_the_verdict_of_id_0_answers_for_rows_without_a_value() -> None:
    made = table([0, 2])
    codes = Terms([[(0, NOT_2)]]).refuse(made, made.live_rows(), 7)
    assert codes is not None
    assert codes.tolist() == [0, 7]


def test_a_term_without_conditions_matches_all_and_no_terms_match_nothing() -> None:
    made = table([0, 1])
    rows = made.live_rows()
    assert known(Terms([[]]).refuse(made, rows, 1)).tolist() == [0, 0]
    assert known(Terms([]).refuse(made, rows, 1)).tolist() == [1, 1]


def test_attribute_minus_1_is_a_column_that_no_row_has() -> None:
    made = table([1])
    assert known(Terms([[(-1, bytes([1]))]]).matches(made, made.live_rows())).tolist() == [1]
    assert known(Terms([[(-1, bytes([0]))]]).matches(made, made.live_rows())).tolist() == [0]


def test_a_value_beyond_the_verdicts_makes_the_answer_none() -> None:
    made = table([1, 3])
    terms = Terms([[(0, YES_FOR_1)]])
    assert terms.matches(made, made.live_rows()) is None
    assert terms.refuse(made, made.live_rows(), 1) is None
    assert terms.weigh(made, made.live_rows()) is None
    assert known(terms.matches(made, np.array([0], np.int32))).tolist() == [1]


def test_weigh_adds_the_weights_of_all_terms_that_match() -> None:
    made = table([1, 2, 0])
    terms = Terms([[(0, YES_FOR_1)], [(0, NOT_2)], []], [10, 5, 1])
    assert known(terms.weigh(made, made.live_rows())).tolist() == [16, 1, 6]


def test_weights_that_do_not_fit_the_terms_are_refused() -> None:
    with pytest.raises(ValueError, match="1 weights for 2 terms"):
        Terms([[], []], [1])


def test_a_column_that_the_table_does_not_have_is_refused() -> None:
    made = table([1])
    with pytest.raises(IndexError, match="attribute 1 of 1"):
        Terms([[(1, YES_FOR_1)]]).matches(made, made.live_rows())
    with pytest.raises(IndexError, match="attribute -1 of 1"):
        filter_equal(made, -1, 0, made.live_rows())


def test_filter_equal_refuses_rows_with_another_value() -> None:
    made = table([4, 5, 0])
    assert filter_equal(made, 0, 5, made.live_rows()).tolist() == [1, 0, 1]
