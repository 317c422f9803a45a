"""The kernels of preemption: pods by row, and the dry run on all rows. Amounts: pods (id 0) and cpu (id 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordsched._core.dry_run import DryRun
from koordsched._core.pod_index import PodIndex
from koordsched._core.table import NodeTable, Request


def cpu(milli: int) -> Request:
    return Request([0, 1], [1, milli], milli, 0)


class Rows:
    """Rows of 4000 milli-cores and ten pods each."""

    def __init__(self, count: int = 2) -> None:
        self.table = NodeTable()
        self.index = PodIndex(self.table)
        self.nominated = PodIndex(self.table)
        self.requests: dict[int, Request] = {}
        for _ in range(count):
            row = self.table.acquire_row()
            self.table.set_allocatable(row, {0: 10, 1: 4000})
            self.table.set_live(row, True)

    def request(self, milli: int) -> Request:
        return self.requests.setdefault(milli, cpu(milli))

    def add(self, row: int, pod: str, priority: int, milli: int, **others: Any) -> None:
        """Let a pod run there; others: started, of_daemon_set, budgets."""
        self.table.add(row, self.request(milli))
        self.index.add(row, pod, priority, self.request(milli), **others)

    def dry_run(self, priority: int, milli: int) -> DryRun:
        found = DryRun(self.index, self.nominated, priority, cpu(milli))
        found.refresh()
        return found


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


ORDER = np.arange(64, dtype=np.int32)


def test_victims_are_the_pods_that_cannot_be_put_back_most_important_first() -> None:
    cluster = Rows(1)
    for name, priority, milli in (("a", 5, 1000), ("b", 3, 2000), ("c", 1, 1000)):
        cluster.add(0, name, priority, milli)
    found = cluster.dry_run(9, 3000)
    assert found.codes(rows(0)).tolist() == [0]
    assert found.victims(0) == (["b", "c"], 0)  # a stays: 1000 + 3000 fill the row


def test_pods_of_equal_priority_are_put_back_by_age() -> None:
    cluster = Rows(1)
    cluster.add(0, "young", 1, 2000, started=200.0)
    cluster.add(0, "old", 1, 2000, started=100.0)
    assert cluster.dry_run(9, 2000).victims(0) == (["young"], 0)


def test_no_pod_of_the_same_or_a_higher_priority_is_evicted() -> None:
    cluster = Rows(2)
    cluster.add(0, "same", 9, 4000)
    cluster.add(1, "higher", 10, 2000)
    cluster.add(1, "lower", 1, 1000)
    assert cluster.dry_run(9, 3000).codes(rows(0, 1)).tolist() == [-1, 2]  # row 1: cpu stays short


def test_a_pod_whose_eviction_violates_a_budget_is_put_back_first() -> None:
    cluster = Rows(1)
    cluster.index.set_budgets([0], [(), (0,)])
    cluster.add(0, "free", 5, 2000)
    cluster.add(0, "covered", 1, 2000, budgets=1)
    assert cluster.dry_run(9, 2000).victims(0) == (["free"], 0)
    cluster.index.set_budgets([1], [(), (0,)])
    assert cluster.dry_run(9, 2000).victims(0) == (["covered"], 0)
    cluster.index.set_budgets([0], [(), (0,)])
    assert cluster.dry_run(9, 4000).victims(0) == (["free", "covered"], 1)


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        ([(7, 4000)], [(3, 2000), (3, 2000)], 1),  # the most important victim counts before the number
        ([(3, 2000), (3, 2000)], [(3, 4000)], 1),  # the sum is smaller
        ([(3, 3000), (1, 1000)], [(3, 2000), (2, 2000)], 0),
        ([(3, 4000)], [(3, 4000)], 0),  # the first in the order
    ],
)
def test_the_best_row_has_the_least_rank(first: list[tuple[int, int]], second: list[tuple[int, int]], winner: int) -> None:
    cluster = Rows(2)
    for row, pods in enumerate((first, second)):
        for i, (priority, milli) in enumerate(pods):
            cluster.add(row, f"{row}-{i}", priority, milli)
    assert cluster.dry_run(9, 4000).best(rows(0, 1), ORDER) == winner


def test_victims_of_daemon_sets_count_before_age_and_the_younger_victims_win() -> None:
    cluster = Rows(3)
    cluster.add(0, "agent", 1, 4000, started=900.0, of_daemon_set=True)
    cluster.add(1, "old", 1, 4000, started=100.0)
    cluster.add(2, "young", 1, 4000, started=500.0)
    found = cluster.dry_run(9, 4000)
    assert found.best(rows(0, 1, 2), ORDER) == 2
    assert found.best(rows(0, 1), ORDER) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from(["add", "remove", "clear"])), max_size=60))
def test_the_nonempty_rows_are_those_with_pods_whatever_came_and_went(steps: list[tuple[int, int, str]]) -> None:
    cluster = Rows(6)
    pods = {(row, number): f"{row}/{number}" for row in range(6) for number in range(3)}
    there: dict[str, int] = {}
    for row, number, step in steps:
        pod = pods[row, number]
        if step == "clear" and number == 0:
            cluster.index.clear()
            there.clear()
        elif step == "add" and pod not in there:
            cluster.index.add(row, pod, 5, cluster.request(100))
            there[pod] = row
        elif step == "remove" and pod in there:
            cluster.index.remove(there.pop(pod), pod)
    assert sorted(cluster.index.nonempty_rows().tolist()) == sorted(set(there.values()))


def test_a_nominated_pod_takes_room_from_preemptors_of_the_same_or_a_lower_priority() -> None:
    cluster = Rows(1)
    cluster.add(0, "low", 1, 2000)
    for name, priority, milli in (("mine", 5, 2000), ("other", 4, 1000)):
        cluster.nominated.add(0, name, priority, cluster.request(milli))
    assert [cluster.dry_run(priority, 3000).codes(rows(0)).tolist() for priority in (6, 5, 4)] == [[0], [2], [2]]
    assert [cluster.dry_run(priority, 2000).codes(rows(0)).tolist() for priority in (5, 4)] == [[0], [2]]
    short = cluster.nominated.shortages
    assert [short(rows(0), priority, cpu(500)).tolist() for priority in (4, 5, 6)] == [[2], [2], [0]]
    assert short(rows(0), 4, cpu(1000), "mine").tolist() == [0]


def test_a_nominated_pod_is_no_victim() -> None:
    cluster = Rows(1)
    cluster.nominated.add(0, "nominated", 1, cluster.request(4000))
    assert cluster.dry_run(9, 1000).codes(rows(0)).tolist() == [-1]


def test_nominations_are_followed_row_by_row() -> None:
    cluster = Rows(2)
    for row, pod in enumerate(("a", "b")):
        cluster.add(row, pod, 1, 4000)
    found = cluster.dry_run(5, 3000)
    assert found.codes(rows(0, 1)).tolist() == [0, 0]
    cluster.nominated.add(1, "nominated", 5, cluster.request(2000))
    found.refresh()
    assert found.codes(rows(0, 1)).tolist() == [0, 2]
    cluster.nominated.remove(1, "nominated")
    found.refresh()
    assert found.codes(rows(0, 1)).tolist() == [0, 0]
    cluster.nominated.add(0, "nominated", 5, cluster.request(2000))
    cluster.nominated.clear()
    found.refresh()
    assert found.codes(rows(0, 1)).tolist() == [0, 0]


def test_an_excluded_pod_is_no_victim() -> None:
    cluster = Rows(1)
    cluster.add(0, "stuck", 1, 4000)
    found = cluster.dry_run(9, 1000)
    assert found.codes(rows(0)).tolist() == [0]
    cluster.index.exclude(0, "stuck")
    found.refresh()
    assert found.codes(rows(0)).tolist() == [-1]


def test_changes_are_followed_row_by_row() -> None:
    cluster = Rows(2)
    cluster.add(0, "a", 1, 4000)
    found = cluster.dry_run(9, 1000)
    assert found.codes(rows(0, 1)).tolist() == [0, -1]
    cluster.add(1, "b", 1, 4000)
    cluster.table.subtract(0, cluster.request(4000))
    cluster.index.remove(0, "a")
    found.refresh()
    assert found.codes(rows(0, 1)).tolist() == [-1, 0]
    cluster.table.set_live(1, False)
    found.refresh()
    assert found.codes(rows(1)).tolist() == [-2]
    cluster.index.clear()
    found.refresh()
    assert found.codes(rows(0, 1)).tolist() == [-1, -2]


def test_lower_bounds_hold_for_any_set_of_victims() -> None:
    cluster = Rows(1)
    cluster.index.set_budgets([0], [(), (0,)])
    cluster.add(0, "a", 5, 1000)
    cluster.add(0, "b", 3, 2000, budgets=1)
    cluster.add(0, "c", 1, 1000)
    violation, priority = cluster.dry_run(9, 3000).lower_bounds(rows(0))
    assert (violation.tolist(), priority.tolist()) == ([1], [3])  # without b only 2000 are free; c alone gives 1000
    violation, priority = cluster.dry_run(9, 1000).lower_bounds(rows(0))
    assert (violation.tolist(), priority.tolist()) == ([0], [1])


def test_what_is_not_there_cannot_be_removed() -> None:
    cluster = Rows(1)
    with pytest.raises(LookupError):
        cluster.index.remove(0, "missing")
    with pytest.raises(LookupError):
        cluster.dry_run(9, 1000).victims(0)


def test_victims_are_looked_for_in_one_group() -> None:
    cluster = Rows(1)
    for name, priority, group in (("red", 3, 1), ("blue", 1, 2), ("kept", 1, -1)):
        cluster.add(0, name, priority, 1000, group=group)
    nominated = PodIndex(cluster.table)
    answers = {}
    for group in (0, 1, 2):
        found = DryRun(cluster.index, nominated, 9, cpu(2000), group)
        found.refresh()
        answers[group] = found.codes(rows(0)).tolist(), cluster.index.lower_on(0, 9, group)
    assert answers == {0: ([-1], []), 1: ([0], ["red"]), 2: ([0], ["blue"])}


def test_victims_release_what_has_to_be_released_besides() -> None:
    cluster = Rows(2)
    for name, priority, milli in (("a", 5, 1000), ("b", 3, 1000), ("c", 1, 2000)):
        cluster.add(0, name, priority, milli)
    cluster.add(1, "d", 1, 1000)
    nominated = PodIndex(cluster.table)
    found = DryRun(cluster.index, nominated, 9, cpu(1000), 0, [(1, 2500)])
    found.refresh()
    assert found.limited
    assert found.codes(rows(0, 1)).tolist() == [0, -3]  # on row 1 there is room, but only 1000 to release
    assert found.victims(0) == (["b", "c"], 0)  # 3000: without b it would be 2000, and a is put back before
    assert found.lower_bounds(rows(0))[1].tolist() == [3]


def test_too_much_to_release_is_refused() -> None:
    cluster = Rows(1)
    nominated = PodIndex(cluster.table)
    with pytest.raises(ValueError, match="amounts of 31 resources"):
        DryRun(cluster.index, nominated, 9, cpu(1000), 0, [(1, 1)] * 31)
    with pytest.raises(IndexError):
        DryRun(cluster.index, nominated, 9, cpu(1000), 0, [(-1, 1)])


def test_slots_count_the_room_without_possible_victims_beside_nominated_pods() -> None:
    cluster = Rows(3)
    cluster.add(0, "high", 9, 1000)
    cluster.add(0, "low", 1, 3000)
    cluster.nominated.add(1, "nominated", 9, cluster.request(1500))
    found = cluster.dry_run(9, 1000)
    cluster.table.set_live(2, False)
    assert found.slots(rows(0, 1, 2)).tolist() == [3, 2, 0]
    assert cluster.dry_run(9, 400).slots(rows(1)).tolist() == [6]


def test_codes_beside_placed_requests_say_what_one_more_would_lack() -> None:
    cluster = Rows(3)
    cluster.add(0, "high", 9, 1000)
    cluster.add(0, "low", 1, 3000)
    cluster.nominated.add(1, "nominated", 9, cluster.request(1500))
    found = cluster.dry_run(9, 1000)
    assert found.codes_beside(rows(0, 1, 2), rows(2, 1, 3)).tolist() == [0, 0, 0]
    assert found.codes_beside(rows(0, 1, 2), rows(3, 2, 4)).tolist() == [2, 2, 2]
    assert cluster.dry_run(9, 1).codes_beside(rows(0, 2), rows(9, 10)).tolist() == [1, 1]
    with pytest.raises(ValueError, match="2 numbers for 1 rows"):
        found.codes_beside(rows(0), rows(0, 0))
    with pytest.raises(IndexError):
        found.codes_beside(rows(64), rows(0))


def test_ranks_are_what_the_best_row_is_chosen_by() -> None:
    cluster = Rows(3)
    cluster.index.set_budgets([0], [(), (0,)])
    cluster.add(0, "a", 3, 3000, started=50.0, budgets=1)
    cluster.add(1, "b", 2, 2000, started=70.0)
    cluster.add(1, "c", 1, 2000, of_daemon_set=True)
    columns = [column.tolist() for column in cluster.dry_run(9, 4000).ranks(rows(0, 1, 2))]
    weight = 2**31
    assert columns == [[1, 0, 0], [3, 2, -weight], [3 + weight, 3 + 2 * weight, 0], [1, 2, 0], [0, 1, 0], [-50.0, -70.0, -np.inf]]
