"""Kernels of affinity: what they refuse to take, and the edges; tests/property/test_affinity_kernels.py compares them with plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from support.counted import table_of

from koordsched._core.affinity import add_own, any_with, is_unique, occupied, refuse_own, refuse_unless, refuse_where
from koordsched._core.counts import RowCounts
from koordsched._core.table import NodeTable

ZERO = np.zeros(3, np.int32)
ROWS = np.arange(3, dtype=np.int32)


def counts_of(table: NodeTable, *amounts: int) -> RowCounts:
    counts = RowCounts(table)
    counts.add_all(dict(enumerate(amounts)))
    return counts


def test_a_key_is_unique_when_no_value_stands_twice_and_rows_without_it_do_not_matter() -> None:
    assert is_unique(*table_of(1, 2, 0, 0, 3))
    assert not is_unique(*table_of(1, 2, 1))


def test_a_domain_is_occupied_when_any_counter_counts_in_it_and_no_domain_never_is() -> None:
    table, zone = table_of(1, 2, 0, 3)
    counters = [counts_of(table, 0, 0, 5, 0), counts_of(table, 2, 0, 0, 0)]
    assert occupied(table, zone, counters) == bytes([0, 1, 0, 0])
    assert occupied(table, zone, []) == bytes(4)
    assert any_with(counters[1], zone)
    assert not any_with(counters[0], zone)


def test_rows_of_domains_that_are_newer_than_the_flags_hold_nothing() -> None:
    table, zone = table_of(1, 7, 0)
    where, unless, missing = ZERO.copy(), ZERO.copy(), ZERO.copy()
    refuse_where(table, zone, bytes([0, 1]), ROWS, where, 2)
    refuse_unless(table, zone, bytes([0, 1]), ROWS, unless, 3)
    refuse_unless(table, zone, None, ROWS, missing, 4)
    assert (where.tolist(), unless.tolist(), missing.tolist()) == ([2, 0, 0], [0, 3, 3], [0, 0, 4])


def test_a_row_that_was_refused_keeps_its_reason() -> None:
    table, zone = table_of(1, 1, 1)
    codes = np.array([9, 0, 0], np.int32)
    refuse_own(counts_of(table, 1, 1, 0), zone, ROWS, codes, 5, holding=True)
    assert codes.tolist() == [9, 5, 0]
    refuse_own(counts_of(table, 1, 1, 0), zone, ROWS, codes, 6, holding=False)
    assert codes.tolist() == [9, 5, 6]


def test_a_row_without_the_key_gets_no_score() -> None:
    table, zone = table_of(1, 0, 2)
    scores = np.array([1, 1, 1], np.int64)
    add_own(counts_of(table, 2, 2, 0), zone, ROWS, scores, -3)
    assert scores.tolist() == [-5, 1, 1]


def test_wrong_columns_and_answers_are_refused() -> None:
    table, zone = table_of(1, 2, 3)
    with pytest.raises(IndexError, match="attribute 1 of 1"):
        is_unique(table, 1)
    with pytest.raises(ValueError, match="another table"):
        occupied(table, zone, [counts_of(table_of(1)[0], 1)])
    with pytest.raises(ValueError, match="expected 3 int32 codes"):
        refuse_where(table, zone, b"", ROWS, np.zeros(2, np.int32), 1)
    with pytest.raises(ValueError, match="expected 3 int64 scores"):
        add_own(counts_of(table, 1), zone, ROWS, np.zeros(3, np.int32), 1)
