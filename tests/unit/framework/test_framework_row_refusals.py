"""Refusals of single rows: what is asked of them by row, and in groups."""

from __future__ import annotations

import numpy as np

from koordsched.framework.row_refusals import NO_REFUSALS, RowRefusals
from koordsched.framework.status import Status, unschedulable

FULL, BUSY = unschedulable("full"), unschedulable("busy")


def groups(refusals: RowRefusals) -> list[tuple[Status, list[int]]]:
    return [(status, rows.tolist()) for status, rows in refusals.groups()]


def test_equal_refusals_make_one_group() -> None:
    refusals = RowRefusals.of({7: FULL, 2: BUSY, 5: unschedulable("full")})
    assert groups(refusals) == [(FULL, [7, 5]), (BUSY, [2])]
    assert [refusals.get(row) for row in (7, 5, 2, 3)] == [FULL, FULL, BUSY, None]
    assert (5 in refusals, 3 in refusals, len(refusals)) == (True, False, 3)


def test_codes_are_explained_once_each() -> None:
    asked: list[int] = []

    def explain(code: int) -> Status:
        asked.append(code)
        return unschedulable(f"short of {code}")

    rows, codes = np.array([3, 1, 4, 9], np.int32), np.array([2, 1, 2, 2], np.int32)
    mixed = RowRefusals.of_codes(rows, codes, explain)
    assert groups(mixed) == [(unschedulable("short of 1"), [1]), (unschedulable("short of 2"), [3, 4, 9])]
    alike = RowRefusals.of_codes(rows[codes == 2], codes[codes == 2], explain)
    assert groups(alike) == [(unschedulable("short of 2"), [3, 4, 9])]
    assert asked == [1, 2, 2]
    assert groups(RowRefusals.of_codes(rows[:0], codes[:0], explain)) == []


def test_joined_refusals_answer_for_the_rows_of_both() -> None:
    joined = RowRefusals.of({1: FULL}).joined(RowRefusals.of({2: BUSY, 3: FULL}))
    assert [joined.get(row) for row in (1, 2, 3)] == [FULL, BUSY, FULL]
    assert groups(joined) == [(FULL, [1, 3]), (BUSY, [2])]
    assert groups(NO_REFUSALS.joined(joined)) == groups(joined.joined(NO_REFUSALS)) == groups(joined)
