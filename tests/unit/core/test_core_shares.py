"""Shares of counts, added up and rounded, and their normalisation."""

from __future__ import annotations

import numpy as np
import pytest
from support.counted import LABELS, counts_of, flags, rows, table_of

from koordsched._core.counts import Domains, RowCounts
from koordsched._core.shares import Shares, normalize_to_least


def test_rows_get_shares_where_they_have_the_key() -> None:
    table, zone = table_of(1, 2, 0, 1)
    counts = counts_of(table, 4, 1, 8, 2)
    by_zone, own = Shares(table), Shares(table)
    by_zone.add_domains(Domains(table, zone).sum(counts), 0.5, 2.0)
    assert by_zone.scores(rows(0, 1, 2, 3)).tolist() == [5, 3, 0, 5]  # 6 / 2 + 2, 1 / 2 + 2
    own.add_rows(counts, zone, 3.0, 1.0)
    assert own.scores(rows(3, 2, 0)).tolist() == [7, 0, 13]
    assert Shares(table).scores(rows(0, 1)).tolist() == [0, 0]


@pytest.mark.parametrize("own_first", [True, False])
def test_shares_are_added_up_before_they_are_rounded(own_first: bool) -> None:
    table, zone = table_of(1, 2, 0, 1)
    rack = table.new_attribute()
    table.set_attribute(rack, 1, 5, LABELS)
    counts = counts_of(table, 4, 1, 8, 2)
    shares, sums = Shares(table), Domains(table, zone).sum(counts)
    if own_first:
        shares.add_rows(counts, rack, 0.3, 0.0)
        shares.add_domains(sums, 0.2, 0.0)
    else:
        shares.add_domains(sums, 0.2, 0.0)
        shares.add_rows(counts, rack, 0.3, 0.0)
    assert shares.scores(rows(0, 1, 2, 3)).tolist() == [1, 1, 0, 1]  # 1.2, 0.5, nothing, 1.2
    shares.add_domains(sums, 0.2, 0.1)
    assert shares.scores(rows(0, 1, 2, 3)).tolist() == [3, 1, 0, 3]  # 2.5, 0.8


def test_own_counts_are_those_of_the_moment_and_sums_are_not() -> None:
    table, zone = table_of(1, 1)
    counts = counts_of(table, 1, 1)
    shares = Shares(table)
    shares.add_rows(counts, zone, 1.0, 0.0)
    shares.add_domains(Domains(table, zone).sum(counts), 10.0, 0.0)
    counts.add(1, 1)
    assert shares.scores(rows(0, 1)).tolist() == [21, 22]


def test_a_domain_that_is_newer_than_the_sums_counts_nothing() -> None:
    table, zone = table_of(1, 1)
    shares = Shares(table)
    shares.add_domains(Domains(table, zone).sum(counts_of(table, 3)), 2.0, 1.0)
    table.set_attribute(zone, 1, 9, LABELS)
    assert shares.scores(rows(0, 1)).tolist() == [7, 1]


def test_many_rows_score_as_each_of_them_alone() -> None:
    table, zone = table_of(*(1 + row % 7 for row in range(1500)))
    shares = Shares(table)
    shares.add_domains(Domains(table, zone).sum(counts_of(table, *range(1500))), 0.01, 4.0)
    every = shares.scores(np.arange(1500, dtype=np.int32))
    assert every.tolist() == [shares.scores(rows(row))[0] for row in range(1500)]


@pytest.mark.parametrize(
    ("share", "whole"),
    [(0.5, 1), (1.5, 2), (2.5, 3), (2.4999, 2), (-0.5, -1), (-1.4, -1), (7.0, 7), (0.49999999999999994, 0), (1.4999999999999998, 1)],
)
def test_halves_are_rounded_away_from_zero(share: float, whole: int) -> None:
    table, zone = table_of(1)
    shares = Shares(table)
    shares.add_rows(counts_of(table), zone, 1.0, share)
    assert shares.scores(rows(0)).tolist() == [whole]


def test_rows_that_take_no_part_score_nothing() -> None:
    table, zone = table_of(1, 1, 1)
    shares = Shares(table)
    shares.add_rows(counts_of(table, 1, 2, 3), zone, 1.0, 0.0)
    assert shares.scores(rows(1, 0, 2), flags(0, 1)).tolist() == [2, 0, 0]
    assert normalize_to_least(np.array([4, 0, 8]), rows(0, 1, 2), flags(1, 0, 1)).tolist() == [100, 0, 50]
    assert normalize_to_least(np.array([0, 0]), rows(0, 1), flags(0, 0)).tolist() == [0, 0]


def test_the_least_score_is_the_best() -> None:
    # 100 * (7 + 3 - s) // 7
    assert normalize_to_least(np.array([3, 5, 7]), rows(0, 1, 2)).tolist() == [100, 71, 42]
    assert normalize_to_least(np.array([0, 0]), rows(0, 1)).tolist() == [100, 100]


def test_quotients_of_huge_scores_are_exact() -> None:
    most = 3 * 10**16  # 100 * most is beyond what a double holds
    assert normalize_to_least(np.array([most, 10**16, 2 * 10**16 + 1]), rows(0, 1, 2)).tolist() == [33, 100, 66]


def test_what_does_not_belong_together_is_refused() -> None:
    table, zone = table_of(1, 2)
    other, other_zone = table_of(1)
    shares = Shares(table)
    with pytest.raises(ValueError, match="another table"):
        shares.add_rows(RowCounts(other), zone, 1.0, 0.0)
    with pytest.raises(ValueError, match="another table"):
        shares.add_domains(Domains(other, other_zone).sum(RowCounts(other)), 1.0, 0.0)
    with pytest.raises(IndexError, match=r"attribute 7 of \d+"):
        shares.add_rows(RowCounts(table), 7, 1.0, 0.0)
    with pytest.raises(TypeError, match="flags must be a contiguous uint8 vector"):
        shares.scores(rows(0, 1), np.ones(2, np.int64))
    with pytest.raises(TypeError, match="scores must be a contiguous int64 vector"):
        normalize_to_least(np.ones(2), rows(0, 1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="3 scores for 2 rows"):
        normalize_to_least(np.ones(3, np.int64), rows(0, 1))
