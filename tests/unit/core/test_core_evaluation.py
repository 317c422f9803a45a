"""Evaluations: asking only about rows that changed gives what asking about all would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from koordsched._core.change import NodeChange
from koordsched._core.evaluation import Evaluation
from koordsched._core.scratch import Scratch
from koordsched._core.table import NodeTable

ALL, USAGE, TAINTS = int(NodeChange.ALL), int(NodeChange.USAGE), int(NodeChange.TAINTS)
NONE, MAX, MAX_REVERSE, CUSTOM = range(4)
LOG_SIZE = 1 << 16

Answer = Callable[[int], int]  # row -> code or score


class Filter(NamedTuple):
    answer: Answer
    reads: int = ALL


class Scorer(NamedTuple):
    answer: Answer
    mode: int = NONE
    weight: int = 1
    reads: int = ALL


class Bench:
    """A table with one evaluation of functions, and which rows each round asked them about."""

    def __init__(self, rows: int, filters: Sequence[Filter] = (), scorers: Sequence[Scorer] = (), scratch: Scratch | None = None) -> None:
        self.table = NodeTable()
        for _ in range(rows):
            self.table.set_live(self.table.acquire_row(), True)
        self.scratch = scratch or Scratch()
        self.filters, self.scorers = list(filters), list(scorers)
        self.evaluation = self.new_evaluation()
        self.asked: list[tuple[str, list[int]]] = []

    def new_evaluation(self) -> Evaluation:
        evaluation = Evaluation(self.table, self.scratch)
        evaluation.configure(
            [each.reads for each in self.filters],
            [each.reads for each in self.scorers],
            [each.mode for each in self.scorers],
            [each.weight for each in self.scorers],
        )
        return evaluation

    def filter(self, evaluation: Evaluation | None = None) -> list[int]:
        """Run the filters' part of a round; return the feasible rows."""
        evaluation = evaluation or self.evaluation
        self.asked = []
        f = evaluation.first_filter()
        while f >= 0:
            rows = evaluation.work_rows().tolist()
            self.asked.append((f"filter {f}", rows))
            f = evaluation.store_codes(np.array([self.filters[f].answer(row) for row in rows], np.int32))
        feasible: list[int] = evaluation.feasible_rows().tolist()
        return feasible

    def rank(self, evaluation: Evaluation | None = None) -> int:
        """Run the scorers' part; return what `rank` does."""
        evaluation = evaluation or self.evaluation
        s = evaluation.first_scorer()
        while s >= 0:
            rows = evaluation.work_rows().tolist()
            self.asked.append((f"scorer {s}", rows))
            s = evaluation.store_scores(np.array([self.scorers[s].answer(row) for row in rows], np.int64))
        return evaluation.rank()

    def totals(self) -> dict[int, int]:
        """Run a whole round; return the total of each feasible row."""
        rows = self.filter()
        assert self.rank() == -1
        return {row: self.evaluation.scores(row)[1] for row in rows}

    def winners(self) -> list[int]:
        best, ties = self.evaluation.best()
        return [self.evaluation.pick(best, k) for k in range(ties)]


def passes(_row: int) -> int:
    return 0


# Filters


def test_the_first_round_asks_each_filter_about_what_the_earlier_ones_passed() -> None:
    bench = Bench(4, [Filter(lambda row: row == 1), Filter(lambda row: 5 * (row == 3))])
    assert bench.filter() == [0, 2]
    assert bench.asked == [("filter 0", [0, 1, 2, 3]), ("filter 1", [0, 2, 3])]
    assert [bench.evaluation.verdict(row) for row in range(4)] == [(-1, 0), (0, 1), (-1, 0), (1, 5)]


def test_a_round_without_changes_asks_no_plugin() -> None:
    bench = Bench(3, [Filter(passes)], [Scorer(passes)])
    bench.totals()
    assert bench.totals() == {0: 0, 1: 0, 2: 0}
    assert bench.asked == []
    assert not bench.evaluation.feasible_changed
    assert not bench.evaluation.verdict_changed


def test_only_plugins_that_read_a_change_are_asked_about_the_row_again() -> None:
    bench = Bench(3, [Filter(passes, USAGE), Filter(passes, TAINTS)], [Scorer(passes, reads=USAGE)])
    bench.totals()
    bench.table.mark(1, TAINTS)
    bench.totals()
    assert bench.asked == [("filter 1", [1])]
    bench.table.mark(2, USAGE)
    bench.totals()
    assert bench.asked == [("filter 0", [2]), ("scorer 0", [2])]


def test_a_change_that_no_plugin_reads_makes_no_row_dirty() -> None:
    bench = Bench(3, [Filter(passes, USAGE)])
    bench.filter()
    bench.table.mark(1, TAINTS)
    assert bench.evaluation.first_filter() == -1


def test_plugins_that_read_nothing_are_asked_about_a_row_that_is_another_node_now() -> None:
    bench = Bench(3, [Filter(passes, reads=0)], [Scorer(lambda row: 10 + row, reads=0)])
    bench.totals()
    bench.table.set_live(1, False)
    assert bench.totals() == {0: 10, 2: 12}
    bench.table.set_live(1, True)
    assert bench.totals() == {0: 10, 1: 11, 2: 12}
    assert bench.asked == [("filter 0", [1]), ("scorer 0", [1])]


def test_a_row_that_goes_and_comes_back_between_two_rounds_is_asked_about_anew() -> None:
    offset = {"": 0}
    bench = Bench(2, [Filter(passes, USAGE)], [Scorer(lambda row: offset[""] + row, reads=0)])
    bench.totals()
    offset[""] = 50  # the node in the row is another one
    bench.table.set_live(1, False)
    bench.table.set_live(1, True)
    assert bench.totals() == {0: 0, 1: 51}


def test_a_filter_that_was_spared_is_asked_once_the_earlier_one_passes() -> None:
    full = {0, 1}
    bench = Bench(2, [Filter(lambda row: row in full, USAGE), Filter(lambda row: row == 1, TAINTS)])
    assert bench.filter() == []
    full.clear()
    bench.table.mark(0, USAGE)
    bench.table.mark(1, USAGE)
    assert bench.filter() == [0]
    assert bench.asked == [("filter 0", [0, 1]), ("filter 1", [0, 1])]


def test_rows_that_come_and_go_change_what_is_feasible() -> None:
    bench = Bench(2, [Filter(passes)])
    bench.filter()
    bench.table.set_live(0, False)
    assert bench.filter() == [1]
    assert (bench.evaluation.feasible_changed, bench.evaluation.feasible_count) == (True, 1)
    bench.table.set_live(bench.table.acquire_row(), True)
    assert bench.filter() == [1, 2]
    assert bench.asked == [("filter 0", [2])]
    assert bench.evaluation.verdict(0) == bench.evaluation.verdict(500) == bench.evaluation.verdict(-1) == (-1, 0)


def test_another_reason_changes_the_verdict_but_not_what_is_feasible() -> None:
    codes = {0: 1, 1: 0}
    bench = Bench(2, [Filter(lambda row: codes[row])])
    bench.filter()
    codes[0] = 2
    bench.table.mark(0, USAGE)
    bench.filter()
    assert (bench.evaluation.verdict_changed, bench.evaluation.feasible_changed) == (True, False)


def test_a_table_that_grows_between_rounds_is_evaluated_anew() -> None:
    bench = Bench(64, [Filter(lambda row: row % 2)])
    bench.filter()
    assert bench.rank() == -1  # ends the round
    for _ in range(6):
        bench.table.set_live(bench.table.acquire_row(), True)
    assert bench.filter() == list(range(0, 70, 2))
    assert bench.asked == [("filter 0", list(range(70)))]


def test_a_log_that_does_not_reach_back_means_starting_over() -> None:
    codes = dict.fromkeys(range(3), 0)
    bench = Bench(3, [Filter(lambda row: codes[row], USAGE)])
    bench.filter()
    codes[2] = 1
    bench.table.mark(2, USAGE)
    for _ in range(LOG_SIZE):
        bench.table.mark(0, TAINTS)
    assert bench.filter() == [0, 1]
    assert bench.asked == [("filter 0", [0, 1, 2])]


def test_a_round_that_a_plugin_aborted_leaves_other_evaluations_right() -> None:
    bench = Bench(3, [Filter(lambda row: row == 1)])
    other = bench.new_evaluation()
    bench.filter(other)
    bench.table.mark(1, USAGE)
    assert bench.evaluation.first_filter() == 0  # ... and here the plugin raises
    bench.table.mark(2, USAGE)
    assert bench.filter(other) == [0, 2]
    assert bench.asked == [("filter 0", [1, 2])]
    assert bench.filter() == [0, 2]
    assert bench.asked == [("filter 0", [0, 1, 2])]


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        (np.array([0, -1], np.int32), ValueError),
        (np.array([0], np.int32), ValueError),
        (np.array([0, 0], np.int64), TypeError),
        (np.zeros((2, 1), np.int32), TypeError),
        (np.zeros(4, np.int32)[::2], TypeError),
    ],
    ids=["negative", "length", "type", "dimensions", "stride"],
)
def test_an_answer_that_is_none_is_refused(codes: np.ndarray, error: type[Exception]) -> None:
    bench = Bench(2, [Filter(passes)])
    bench.evaluation.first_filter()
    with pytest.raises(error):
        bench.evaluation.store_codes(codes)


def test_no_answer_at_all_means_that_every_row_passes_and_scores_0() -> None:
    bench = Bench(
        3, [Filter(lambda row: row == 1, USAGE), Filter(lambda row: row == 2, TAINTS)], [Scorer(lambda row: 10 + row, reads=USAGE)]
    )
    assert bench.totals() == {0: 10}
    bench.table.mark(1, USAGE)
    bench.table.mark(2, TAINTS)
    assert bench.evaluation.first_filter() == 0
    assert bench.evaluation.store_codes(None) == 1
    assert bench.evaluation.store_codes(None) == -1
    assert bench.evaluation.feasible_rows().tolist() == [0, 1, 2]
    assert bench.evaluation.first_scorer() == 0
    bench.evaluation.store_scores(None)
    assert bench.evaluation.rank() == -1
    assert [bench.evaluation.scores(row)[1] for row in range(3)] == [10, 0, 0]


def test_64_plugins_of_each_kind_are_enough_and_65_are_refused() -> None:
    bench = Bench(3, [Filter(passes)] * 63 + [Filter(lambda row: row == 1)], [Scorer(lambda _row: 1)] * 64)
    assert bench.totals() == {0: 64, 2: 64}
    assert bench.evaluation.verdict(1) == (63, 1)
    assert bench.totals() == {0: 64, 2: 64}
    assert bench.asked == []
    with pytest.raises(ValueError, match="65 filters and 0 scorers: at most 64"):
        bench.evaluation.configure([ALL] * 65, [], [], [])
    with pytest.raises(ValueError, match="0 filters and 65 scorers"):
        bench.evaluation.configure([], [ALL] * 65, [NONE] * 65, [1] * 65)


# Why not


def test_refusals_are_counted_by_filter_and_code() -> None:
    bench = Bench(6, [Filter(lambda row: row % 3), Filter(lambda row: row == 3)])
    assert bench.filter() == [0]
    assert bench.evaluation.histogram() == [(0, 1, 2), (0, 2, 2), (1, 1, 1)]
    rows, filters, codes = (column.tolist() for column in bench.evaluation.refusals())
    assert (rows, filters, codes) == ([1, 2, 3, 4, 5], [0, 0, 1, 0, 0], [1, 2, 1, 1, 2])


@pytest.mark.parametrize("distinct", [64, 65, 200])
def test_any_number_of_distinct_answers_is_counted(distinct: int) -> None:
    bench = Bench(2 * distinct, [Filter(lambda row: row % distinct + 1)])
    bench.filter()
    assert sorted(bench.evaluation.histogram()) == [(0, code, 2) for code in range(1, distinct + 1)]


# Scores


def test_totals_are_weighted_sums_of_raw_scores() -> None:
    bench = Bench(3, [], [Scorer(lambda row: 10 * row), Scorer(lambda _row: 50, weight=3)])
    assert bench.totals() == {0: 150, 1: 160, 2: 170}
    assert bench.evaluation.scores(2) == ([20, 50], 170)


def test_scores_are_a_share_of_the_largest_rounded_down() -> None:
    raw = {0: 7, 1: 3, 2: 0}
    bench = Bench(3, [], [Scorer(raw.__getitem__, MAX, 2)])
    assert bench.totals() == {0: 200, 1: 84, 2: 0}  # 100 * 3 // 7 = 42


def test_reversed_scores_are_100_less_that_share() -> None:
    raw = {0: 7, 1: 3, 2: 0}
    bench = Bench(3, [], [Scorer(raw.__getitem__, MAX_REVERSE)])
    assert bench.totals() == {0: 0, 1: 58, 2: 100}


@pytest.mark.parametrize(("mode", "total"), [(MAX, 0), (MAX_REVERSE, 100)])
def test_scores_that_are_all_zero_are_worst_or_best(mode: int, total: int) -> None:
    assert Bench(2, [], [Scorer(passes, mode)]).totals() == {0: total, 1: total}


def test_a_new_largest_score_changes_every_total() -> None:
    raw = dict.fromkeys(range(100), 10)
    bench = Bench(100, [], [Scorer(lambda row: raw[row], MAX, reads=USAGE)])
    assert set(bench.totals().values()) == {100}
    raw[99] = 40
    bench.table.mark(99, USAGE)
    assert bench.totals() == {**dict.fromkeys(range(99), 25), 99: 100}
    assert bench.asked == [("scorer 0", [99])]
    raw[99] = 5
    bench.table.mark(99, USAGE)
    assert bench.totals() == {**dict.fromkeys(range(99), 100), 99: 50}


def test_the_largest_score_is_that_of_a_feasible_row() -> None:
    refused = set()
    bench = Bench(2, [Filter(lambda row: row in refused)], [Scorer(lambda row: 10 + 30 * row, MAX)])
    assert bench.totals() == {0: 25, 1: 100}
    refused.add(1)
    bench.table.mark(1, USAGE)
    assert bench.totals() == {0: 100}


def test_quotients_of_huge_scores_are_exact() -> None:
    raw = {0: 3 * 10**16, 1: 10**16 - 1}  # 100 * raw is beyond what a double holds
    assert Bench(2, [], [Scorer(raw.__getitem__, MAX)]).totals() == {0: 100, 1: 33}


def test_a_custom_normalisation_replaces_the_raw_scores() -> None:
    bench = Bench(3, [], [Scorer(lambda row: 1000 * row, CUSTOM, 2)])
    rows = np.array(bench.filter(), np.int32)
    scorer = bench.evaluation.first_scorer()
    assert bench.evaluation.store_scores(np.array([0, 1000, 2000], np.int64)) == -1
    assert bench.evaluation.raw_scores(scorer, rows).tolist() == [0, 1000, 2000]
    bench.evaluation.store_normalized(scorer, rows, np.array([1, 2, 3], np.int64))
    assert bench.evaluation.rank() == -1
    assert [bench.evaluation.scores(row) for row in range(3)] == [([0], 2), ([1000], 4), ([2000], 6)]
    with pytest.raises(ValueError, match="2 scores for 3 rows"):
        bench.evaluation.store_normalized(scorer, rows, np.array([1, 2], np.int64))


def test_a_second_custom_normalisation_corrects_the_totals_of_all_rows() -> None:
    raw = {0: 5, 1: 6, 2: 7}
    bench = Bench(3, [], [Scorer(lambda row: raw[row], reads=USAGE), Scorer(lambda row: row, CUSTOM, 2, TAINTS)])
    rows = np.array(bench.filter(), np.int32)
    normalize_and_rank(bench, rows, 10, 20, 30)
    assert [bench.evaluation.scores(row)[1] for row in range(3)] == [25, 46, 67]
    raw[1] = 0
    bench.table.mark(1, USAGE)
    bench.filter()
    bench.evaluation.forget_scorer(1)
    normalize_and_rank(bench, rows, 90, 20, 1)
    assert [bench.evaluation.scores(row)[1] for row in range(3)] == [185, 40, 9]
    assert bench.asked == [("scorer 0", [1]), ("scorer 1", [0, 1, 2])]
    assert bench.winners() == [0]


@pytest.mark.parametrize("bad", [-1, 101, -(2**63)])
def test_a_custom_score_outside_0_to_100_names_its_scorer_whenever_it_comes(bad: int) -> None:
    bench = Bench(2, [], [Scorer(passes), Scorer(passes, CUSTOM, 2)])
    rows = np.array(bench.filter(), np.int32)
    normalize_and_rank(bench, rows, 1, 2)
    bench.filter()
    bench.evaluation.store_normalized(1, rows, np.array([3, bad], np.int64))
    assert (bench.evaluation.rank(), bench.evaluation.invalid_score) == (1, bad)


def normalize_and_rank(bench: Bench, rows: np.ndarray, *normalized: int) -> None:
    """Run the scorers' part with scorer 1's scores normalised to these."""
    s = bench.evaluation.first_scorer()
    while s >= 0:
        asked = bench.evaluation.work_rows().tolist()
        bench.asked.append((f"scorer {s}", asked))
        s = bench.evaluation.store_scores(np.array([bench.scorers[s].answer(row) for row in asked], np.int64))
    bench.evaluation.store_normalized(1, rows, np.array(normalized, np.int64))
    assert bench.evaluation.rank() == -1


def test_scores_are_stored_by_row_in_whatever_order_the_rows_changed() -> None:
    raw = dict(enumerate([1, 2, 3, 4, 5]))
    bench = Bench(5, [], [Scorer(lambda row: raw[row])])
    bench.totals()
    for row in (0, 2, 1, 3):  # as many as there are from the first to the last
        raw[row] += 10 * row
        bench.table.mark(row, USAGE)
    assert bench.totals() == {0: 1, 1: 12, 2: 23, 3: 34, 4: 5}
    asked = np.array([0, 2, 1, 3], np.int32)
    assert bench.evaluation.raw_scores(0, asked).tolist() == [1, 23, 12, 34]
    assert bench.evaluation.raw_scores(0, np.array([1, 2, 3], np.int32)).tolist() == [12, 23, 34]


def test_a_forgotten_scorer_is_asked_about_a_row_that_was_not_feasible_then() -> None:
    offset, refused = [0], set[int]()
    bench = Bench(3, [Filter(lambda row: row in refused, TAINTS)], [Scorer(lambda row: row + offset[0], reads=USAGE)])
    bench.totals()
    refused.add(1)
    bench.table.mark(1, TAINTS)
    bench.filter()
    offset[0] = 10
    bench.evaluation.forget_scorer(0)
    assert bench.rank() == -1
    refused.clear()
    bench.table.mark(1, TAINTS)
    assert bench.totals() == {0: 10, 1: 11, 2: 12}
    with pytest.raises(IndexError, match="scorer 1 of 1"):
        bench.evaluation.forget_scorer(1)


@pytest.mark.parametrize("bad", [-1, 101])
def test_a_score_outside_0_to_100_names_its_scorer(bad: int) -> None:
    raw = {0: 5, 1: bad}
    bench = Bench(2, [], [Scorer(passes), Scorer(raw.__getitem__)])
    bench.filter()
    assert bench.rank() == 1
    assert bench.evaluation.invalid_score == bad


def test_a_negative_score_is_invalid_after_normalising_too() -> None:
    bench = Bench(2, [], [Scorer(lambda row: 100 if row else -50, MAX)])
    bench.filter()
    assert (bench.rank(), bench.evaluation.invalid_score) == (0, -50)


def test_the_score_of_a_refused_row_is_never_invalid() -> None:
    raw = {0: 5, 1: 100}
    refused = set()
    bench = Bench(2, [Filter(lambda row: row in refused, TAINTS)], [Scorer(lambda row: raw[row], reads=USAGE)])
    bench.totals()
    refused.add(1)
    raw[1] = 999
    bench.table.mark(1, TAINTS)
    bench.table.mark(1, USAGE)
    assert bench.totals() == {0: 5}


def test_a_scorer_that_is_switched_off_adds_nothing_and_is_asked_when_it_is_switched_on() -> None:
    bench = Bench(2, [], [Scorer(lambda row: row), Scorer(lambda _row: 50)])
    bench.filter()
    bench.evaluation.enable_scorers([True, False])
    assert bench.rank() == -1
    assert bench.asked == [("scorer 0", [0, 1])]
    assert [bench.evaluation.is_enabled(s) for s in range(2)] == [True, False]
    assert bench.winners() == [1]
    bench.evaluation.enable_scorers([True, True])
    assert bench.totals() == {0: 50, 1: 51}
    assert bench.asked == [("scorer 1", [0, 1])]
    with pytest.raises(ValueError, match="1 flags for 2 scorers"):
        bench.evaluation.enable_scorers([True])


def test_a_forgotten_scorer_is_asked_about_every_feasible_row() -> None:
    offset = [0]
    bench = Bench(3, [Filter(lambda row: row == 1)], [Scorer(lambda row: row), Scorer(lambda row: row + offset[0])])
    assert bench.totals() == {0: 0, 2: 4}
    offset[0] = 10
    bench.evaluation.forget_scorer(1)
    assert bench.totals() == {0: 10, 2: 14}
    assert bench.asked == [("scorer 1", [0, 2])]


def test_totals_of_a_round_that_was_never_ranked_are_made_in_the_next_one() -> None:
    score = dict.fromkeys(range(64), 10)
    bench = Bench(64, [Filter(passes)], [Scorer(lambda row: score[row])])
    bench.totals()
    score[5] = 70
    bench.table.mark(5, USAGE)
    bench.filter()  # and no ranking: a probe
    score[9] = 30
    bench.table.mark(9, USAGE)
    assert bench.totals() == {**dict.fromkeys(range(64), 10), 5: 70, 9: 30}
    assert bench.winners() == [5]


def test_rounds_that_were_not_ranked_are_caught_up_with() -> None:
    raw = {0: 1, 1: 2, 2: 3}
    bench = Bench(3, [], [Scorer(lambda row: raw[row])])
    bench.filter()  # one feasible node would be taken unseen: no ranking
    raw[0] = 9
    bench.table.mark(0, USAGE)
    bench.filter()
    bench.table.mark(1, USAGE)
    assert bench.totals() == {0: 9, 1: 2, 2: 3}
    assert bench.winners() == [0]


def test_configuring_anew_forgets_everything() -> None:
    bench = Bench(3, [Filter(lambda row: row == 0)], [Scorer(lambda row: row)])
    bench.totals()
    bench.filters = [Filter(passes), Filter(lambda row: row == 2)]
    bench.scorers = [Scorer(lambda _row: 7), Scorer(lambda _row: 1)]
    bench.evaluation.configure([ALL, ALL], [ALL, ALL], [NONE, NONE], [1, 2])
    assert bench.totals() == {0: 9, 1: 9}


# Choosing


def test_every_row_with_the_best_total_can_be_picked() -> None:
    bench = Bench(200, [Filter(lambda row: row == 70)], [Scorer(lambda row: 9 if row % 70 == 0 else 3)])
    bench.totals()
    assert bench.evaluation.best() == (9, 2)
    assert bench.winners() == [0, 140]
    with pytest.raises(LookupError, match="no such row with total 9"):
        bench.evaluation.pick(9, 2)


def test_without_a_feasible_row_nothing_is_best() -> None:
    bench = Bench(3, [Filter(lambda _row: 1)], [Scorer(passes)])
    assert bench.totals() == {}
    assert bench.evaluation.best() == (0, 0)


def test_the_best_follows_a_row_that_changes() -> None:
    raw = dict.fromkeys(range(130), 10)
    bench = Bench(130, [], [Scorer(lambda row: raw[row])])
    bench.totals()
    for row, score in ((129, 50), (64, 50), (129, 0)):
        raw[row] = score
        bench.table.mark(row, USAGE)
        bench.totals()
    assert bench.winners() == [64]


def test_overruled_rows_sit_out_until_they_are_reinstated() -> None:
    bench = Bench(4, [Filter(lambda row: row == 3)], [Scorer(lambda row: 10 * row, MAX)])
    bench.totals()
    bench.evaluation.overrule(np.array([2, 3], np.int32))
    assert bench.evaluation.feasible_rows().tolist() == [0, 1]
    assert bench.evaluation.feasible_count == 2
    assert bench.rank() == -1
    assert (bench.winners(), bench.evaluation.best()) == ([1], (100, 1))  # normalised without row 2
    bench.evaluation.reinstate(np.array([2, 3], np.int32))
    assert bench.evaluation.verdict(3) == (0, 1)
    assert bench.totals() == {0: 0, 1: 50, 2: 100}


def test_the_feasible_ones_among_some_rows_keep_their_order() -> None:
    bench = Bench(5, [Filter(lambda row: row == 3)], [])
    bench.filter()
    assert bench.evaluation.feasible_among(np.array([4, 3, 0, 99, -1, 2], np.int32)).tolist() == [4, 0, 2]
    bench.evaluation.overrule(np.array([4], np.int32))
    assert bench.evaluation.feasible_among(np.array([4, 0], np.int32)).tolist() == [0]


def test_a_row_that_was_never_scored_because_it_was_overruled_is_scored_later() -> None:
    bench = Bench(3, [], [Scorer(lambda row: row)])
    bench.filter()
    bench.evaluation.overrule(np.array([2], np.int32))
    assert bench.rank() == -1
    assert bench.asked == [("scorer 0", [0, 1])]
    bench.evaluation.reinstate(np.array([2], np.int32))
    assert bench.totals() == {0: 0, 1: 1, 2: 2}
    assert bench.asked == [("scorer 0", [2])]


def test_rows_that_changed_in_any_order_are_judged_each_by_its_own_answer() -> None:
    # 1, 3, 2, 4: as many rows as there are from the first to the last, but not in that order.
    refused = {1, 2, 3, 4}
    bench = Bench(6, [Filter(lambda row: row in refused)], [Scorer(lambda row: row)])
    assert bench.filter() == [0, 5]
    refused.remove(3)
    for row in (1, 3, 2, 4):
        bench.table.mark(row, USAGE)
    assert bench.totals() == {0: 0, 3: 3, 5: 5}
    refused |= {5}
    for row in (2, 4, 3, 5):
        bench.table.mark(row, USAGE)
    assert bench.totals() == {0: 0, 3: 3}


def test_a_fresh_round_without_a_feasible_row_is_followed_by_right_ones() -> None:
    refused = {0, 1, 2}
    bench = Bench(3, [Filter(passes), Filter(lambda row: row in refused)], [Scorer(lambda row: row)])
    assert bench.filter() == []
    refused.clear()
    bench.table.mark(2, USAGE)
    assert bench.totals() == {2: 2}
    assert bench.asked == [("filter 0", [2]), ("filter 1", [2]), ("scorer 0", [2])]


def test_a_filter_that_let_all_rows_pass_unasked_may_refuse_later() -> None:
    bench = Bench(4, [Filter(lambda row: 7 * (row == 2))])
    bench.evaluation.first_filter()
    bench.evaluation.store_codes(None)
    bench.table.mark(1, USAGE)
    bench.table.mark(2, USAGE)
    assert bench.filter() == [0, 1, 3]
    assert [bench.evaluation.verdict(row) for row in range(4)] == [(-1, 0), (-1, 0), (0, 7), (-1, 0)]


def test_a_round_without_changes_asks_no_plugin_whatever_another_evaluation_looked_at_meanwhile() -> None:
    bench = Bench(3, [Filter(lambda row: row == 1)], [Scorer(lambda row: row)])
    bench.totals()
    bench.filters = [Filter(passes)]
    other = bench.new_evaluation()
    assert bench.filter(other) == [0, 1, 2]  # ... and is not ranked, so that row 1 stays in the lists
    assert bench.evaluation.is_current()
    bench.asked = []
    assert bench.rank() == -1
    assert bench.asked == []


def test_a_round_that_a_plugin_aborted_hides_no_later_change_from_an_evaluation_that_is_current() -> None:
    refused = {1}
    bench = Bench(3, [Filter(lambda row: row in refused)])
    other = bench.new_evaluation()
    bench.filter(other)
    bench.filter()
    bench.table.mark(1, USAGE)
    assert bench.totals() == {0: 0, 2: 0}
    assert other.first_filter() == 0  # ... and a plugin raises
    assert bench.evaluation.is_current()
    assert bench.rank() == -1
    refused.clear()
    bench.table.mark(1, USAGE)
    assert bench.totals() == {0: 0, 1: 0, 2: 0}
