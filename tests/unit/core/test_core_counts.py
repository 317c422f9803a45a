"""Counts per row, and sums of them over domains."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from support.counted import LABELS, counts_of, flags, rows, table_of

from koordsched._core.change import NodeChange
from koordsched._core.counts import (
    Changes,
    Domains,
    DomainSums,
    RowCounts,
    count_eligible,
    normalize_to_range,
    rows_with_all,
)
from koordsched._core.table import NodeTable


def test_quiet_changes_leave_the_version_alone() -> None:
    table, _ = table_of(1, 1)
    counts = counts_of(table, 2)
    before = counts.version
    counts.add_quietly(1, 3)
    assert (counts.of(1), counts.total, counts.version) == (3, 5, before)
    counts.add(1, -1)
    counts.add_all({0: 1, 1: 2}, times=10)
    assert counts.array()[:2].tolist() == [12, 22]
    assert counts.total == 34
    assert counts.version > before


def test_counts_grow_with_the_table() -> None:
    table, attribute = table_of(1)
    counts = counts_of(table, 5)
    for _ in range(100):
        table.set_attribute(attribute, table.acquire_row(), 2, LABELS)
    assert DomainSums(table, attribute).of(1) == 0
    sums = DomainSums(table, attribute)
    sums.add(counts)
    counts.add(100, 7)
    sums.add(counts)
    assert (sums.of(1), sums.of(2), len(counts.array())) == (10, 7, table.capacity)


def test_a_row_beyond_the_table_is_refused() -> None:
    table, _ = table_of(1)
    with pytest.raises(IndexError, match="row 64 of 64"):
        RowCounts(table).add(64, 1)
    with pytest.raises(IndexError, match="attribute 3 of 1"):
        DomainSums(table, 3)


def test_counts_end_with_their_last_holder() -> None:
    table, _ = table_of(1)
    counts = RowCounts(table)
    reference = weakref.ref(counts)
    del counts
    gc.collect()
    assert reference() is None


def test_domains_sum_eligible_rows_and_leave_out_those_without_the_key() -> None:
    table, attribute = table_of(1, 2, 1, 0, 2, 3)
    counts = counts_of(table, 1, 10, 100, 1000, 5, 7)
    sums = Domains(table, attribute, flags(1, 1, 0, 1, 1)).sum(counts)
    assert ([sums.of(value) for value in range(5)], sums.present, sums.least, sums.total) == ([0, 1, 15, 0, 0], 2, 1, 16)
    same = DomainSums(table, attribute)
    same.add(counts, flags(1, 1, 0, 1, 1))
    assert [same.of(value) for value in range(5)] == [0, 1, 15, 0, 0]
    same.add(counts, weight=-2)
    assert ([same.of(value) for value in range(1, 4)], same.present, same.least) == ([-201, -15, -14], 3, -201)


def test_sums_of_one_domains_do_not_share_what_is_added_later() -> None:
    table, attribute = table_of(1, 2)
    counts, places = counts_of(table, 1, 1), Domains(table, attribute, flags(1, 0))
    first = places.sum(counts)
    first.add(counts)
    assert (first.present, places.present, places.sum(counts).present) == (2, 1, 1)


def test_without_a_domain_the_least_sum_is_very_large() -> None:
    table, attribute = table_of(0, 0)
    assert Domains(table, attribute).sum(counts_of(table, 1)).least == 2**31 - 1


def test_domains_count_among_how_many_of_them_rows_are() -> None:
    table, attribute = table_of(1, 2, 1, 0, 3)
    places = Domains(table, attribute)
    assert places.among(rows(0, 2)) == (1, False)
    assert places.among(rows(0, 1, 3, 4)) == (3, True)
    assert Domains(table, attribute, flags(1, 1)).among(rows(0, 4)) == (1, True)


def test_domains_are_looked_for_until_there_are_no_more_to_find() -> None:
    table, attribute = table_of(1, 2, 1, 0, 2)
    for row in range(5):
        table.set_live(row, True)
    places = Domains(table, attribute)
    assert places.among(rows(0, 1, 2, 3, 4)) == (2, True)
    assert places.among(rows(3, 4, 2)) == (2, True)
    assert places.among(rows(0, 1, 2)) == (2, False)
    table.set_live(3, False)  # no row is left that has none
    assert Domains(table, attribute).among(rows(0, 1, 2, 4)) == (2, False)


def test_refusing_respects_the_codes_that_are_there() -> None:
    table, attribute = table_of(1, 2, 0, 1, 3)
    sums = Domains(table, attribute).sum(counts_of(table, 1, 5))
    codes = np.array([0, 0, 0, 9, 0], np.int32)
    sums.refuse_above(rows(0, 1, 2, 3, 4), codes, 1, 2, 1)
    assert codes.tolist() == [0, 2, 1, 9, 0]


def test_a_value_that_is_newer_than_the_sums_counts_nothing() -> None:
    table, attribute = table_of(1, 1)
    sums = Domains(table, attribute).sum(counts_of(table, 3))
    table.set_attribute(attribute, 1, 9, LABELS)
    codes = np.zeros(2, np.int32)
    sums.refuse_above(rows(0, 1), codes, 2, 2)
    assert codes.tolist() == [2, 0]


def test_scores_are_added_where_there_is_a_domain() -> None:
    table, attribute = table_of(1, 2, 0)
    counts = counts_of(table, 4, 1, 8)
    sums = Domains(table, attribute).sum(counts)
    scores = np.array([1, 1, 1], np.int64)
    sums.add_to(rows(0, 1, 2), scores, -3)
    assert scores.tolist() == [-11, -2, 1]


def test_rows_are_eligible_when_they_have_all_keys() -> None:
    table, zone = table_of(1, 2, 0)
    rack = table.new_attribute()
    table.set_attribute(rack, 0, 1, LABELS)
    table.set_attribute(rack, 2, 1, LABELS)
    found = rows_with_all(table, [zone, rack])
    assert found[:3].tolist() == [1, 0, 0]
    assert rows_with_all(table, [])[:3].tolist() == [1, 1, 1]
    assert count_eligible(rows(0, 1, 2, 63), found) == 1


def test_a_range_of_scores_is_stretched_and_truncated() -> None:
    assert normalize_to_range(np.array([-2, 1, 5])).tolist() == [0, 42, 100]
    assert normalize_to_range(np.array([3, 3])).tolist() == [0, 0]
    assert normalize_to_range(np.array([], np.int64)).tolist() == []


def test_changes_of_other_kinds_are_no_new_version() -> None:
    table, attribute = table_of(1)
    changes = Changes(table, LABELS)
    first = changes.version()
    table.mark(0, int(NodeChange.USAGE))
    assert changes.version() == first
    table.set_attribute(attribute, 0, 2, LABELS)
    second = changes.version()
    assert second != first
    assert changes.version() == second
    for _ in range(2**16 + 1):
        table.mark(0, int(NodeChange.USAGE))
    assert changes.version() != second  # the log does not reach back: it may have been anything


def test_vectors_of_another_kind_are_refused() -> None:
    table, attribute = table_of(1)
    sums = DomainSums(table, attribute)
    with pytest.raises(TypeError, match="contiguous"):
        sums.refuse_above(rows(0), np.zeros(1, np.int64), 1, 1)
    with pytest.raises(ValueError, match="2 values for 1 rows"):
        sums.add_to(rows(0), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="another table"):
        sums.add(RowCounts(NodeTable()))
