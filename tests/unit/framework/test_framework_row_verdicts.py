"""RowVerdicts: what filters say of some rows, answered as an evaluation of all rows answers it."""

from __future__ import annotations

import numpy as np

from koordsched.framework.row_verdicts import NO_VERDICTS, RowVerdicts


def rows(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(numbers, np.int32)


# Row 2 passes, 4 is refused by filter 1 with code 7, 5 passes, 9 by filter 0 with code 3, and 11 by filter 1 with code 7.
VERDICTS = RowVerdicts(rows(2, 4, 5, 9, 11), rows(-1, 1, -1, 0, 1), rows(0, 7, 0, 3, 7))


def test_each_row_has_the_first_filter_that_refused_it_and_rows_beside_them_have_none() -> None:
    assert {row: VERDICTS.verdict(row) for row in range(13)} == dict.fromkeys(range(13), (-1, 0)) | {4: (1, 7), 9: (0, 3), 11: (1, 7)}
    assert [row for row in range(13) if VERDICTS.is_feasible(row)] == [2, 5]


def test_rows_that_pass_are_found_among_others_in_their_order() -> None:
    assert VERDICTS.feasible.tolist() == [2, 5]
    assert VERDICTS.feasible_among(rows(5, 4, 2, 12)).tolist() == [5, 2]
    assert VERDICTS.feasible_among(rows()).tolist() == []


def test_refusals_are_counted_by_filter_and_code() -> None:
    assert VERDICTS.histogram() == [(0, 3, 1), (1, 7, 2)]
    assert [part.tolist() for part in VERDICTS.refusals()] == [[4, 9, 11], [1, 0, 1], [7, 3, 7]]
    assert NO_VERDICTS.histogram() == []


def test_verdicts_are_equal_when_all_rows_and_answers_are() -> None:
    same = RowVerdicts(VERDICTS.rows.copy(), VERDICTS.filters.copy(), VERDICTS.codes.copy())
    assert same == VERDICTS
    for changed in (
        RowVerdicts(rows(2, 4, 5, 9, 12), VERDICTS.filters, VERDICTS.codes),
        RowVerdicts(VERDICTS.rows, rows(-1, 1, -1, 1, 1), VERDICTS.codes),
        RowVerdicts(VERDICTS.rows, VERDICTS.filters, rows(0, 7, 0, 3, 8)),
        NO_VERDICTS,
    ):
        assert changed != VERDICTS
    assert VERDICTS != "verdicts"
