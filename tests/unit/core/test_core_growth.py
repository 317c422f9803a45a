"""The table and its evaluations while rows are added, and columns that are not there."""

from __future__ import annotations

import numpy as np
import pytest
from support.counted import live_table

from koordsched._core.evaluation import Evaluation
from koordsched._core.scratch import Scratch
from koordsched._core.table import NodeTable


def filter_round(evaluation: Evaluation, code: int) -> None:
    evaluation.first_filter()
    evaluation.store_codes(np.full(len(evaluation.work_rows()), code, np.int32))


def test_growing_keeps_which_scorers_are_switched_on() -> None:
    table = live_table(64)
    evaluation = Evaluation(table, Scratch())
    evaluation.configure([255], [255, 255], [0, 0], [1, 1])
    filter_round(evaluation, 0)
    evaluation.enable_scorers([True, False])
    evaluation.first_scorer()
    evaluation.store_scores(np.zeros(64, np.int64))
    evaluation.rank()
    table.set_live(table.acquire_row(), True)
    filter_round(evaluation, 0)
    assert [evaluation.is_enabled(s) for s in range(2)] == [True, False]


def test_growing_after_a_round_that_was_not_ranked_keeps_to_its_memory() -> None:
    garbage = [np.full(128, 10**9, np.int32) for _ in range(300)]  # what np.empty then returns
    table = live_table(64)
    evaluation = Evaluation(table, Scratch())
    evaluation.configure([255], [], [], [])
    filter_round(evaluation, 1)
    table.set_live(table.acquire_row(), True)
    del garbage
    filter_round(evaluation, 1)
    assert evaluation.histogram() == [(0, 1, 65)]


def test_capacity_is_rounded_up_to_an_odd_number_of_whole_blocks() -> None:
    assert [NodeTable(asked).capacity for asked in (65, 200)] == [192, 320]


def test_a_bit_column_that_is_not_there_is_an_index_error() -> None:
    table = live_table(1)
    table.new_bit()
    for use in (table.count_bits, lambda column: table.has_bit(column, 0)):
        with pytest.raises(IndexError):
            use(1)
