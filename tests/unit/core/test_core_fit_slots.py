"""How many requests fit a row beside each other, and why not one more."""

from __future__ import annotations

import numpy as np
import pytest

from koordsched._core.fit import filter_fit, fit_after, fit_slots
from koordsched._core.table import NodeTable, Request

PODS, CPU, MEMORY = 0, 1, 2


def table_of(*rows: tuple[int, int, int]) -> tuple[NodeTable, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    table = NodeTable()
    for amounts in rows:
        row = table.acquire_row()
        table.set_allocatable(row, dict(enumerate(amounts)))
    return table, np.arange(len(rows), dtype=np.int32)


def test_slots_are_the_fewest_that_any_amount_allows() -> None:
    table, rows = table_of((10, 8, 100), (10, 9, 30), (2, 100, 100), (10, 1, 100))
    request = Request([PODS, CPU, MEMORY], [1, 2, 10], 2, 10)
    assert fit_slots(table, request, rows, 100).tolist() == [4, 3, 2, 0]
    assert fit_slots(table, request, rows, 3).tolist() == [3, 3, 2, 0]
    table.add(0, request)
    assert fit_slots(table, request, rows, 100).tolist() == [3, 3, 2, 0]


def test_what_keeps_one_more_out_is_what_the_filter_would_say() -> None:
    table, rows = table_of((10, 8, 40), (10, 9, 30), (2, 100, 100))
    request = Request([PODS, CPU, MEMORY], [1, 2, 10], 2, 10)
    slots = fit_slots(table, request, rows, 100)
    codes = fit_after(table, request, rows, slots)
    assert codes.tolist() == [0b110, 0b100, 0b001]
    for row, count in enumerate(slots.tolist()):
        for _ in range(count):
            table.add(row, request)
    assert (filter_fit(table, request, rows) & 0b111).tolist() == codes.tolist()


def test_amounts_that_exceed_what_there_is_leave_no_slot() -> None:
    table, rows = table_of((10, 8, 40))
    table.add(0, Request([PODS, CPU], [1, 9], 9, 1))  # more than the row has
    request = Request([PODS, CPU], [1, 2], 2, 1)
    assert fit_slots(table, request, rows, 5).tolist() == [0]
    assert fit_after(table, request, rows, np.zeros(1, np.int32)).tolist() == [0b10]
    with pytest.raises(ValueError, match="2 numbers for 1 rows"):
        fit_after(table, request, rows, np.zeros(2, np.int32))
