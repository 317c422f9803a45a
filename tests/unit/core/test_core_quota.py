"""The kernel of quotas on the examples of elasticquota.md §6 and §19."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched._core.quota import ADMITTED, OVER_LIMIT, OVER_MIN, QuotaPod, QuotaRequest, QuotaTree

UNIT, MILLI = 10**9, 10**6
GPU = "example.com/gpu"
UNLIMITED = (2**63 - 1) // 5


class Tree:
    """A tree whose quotas have one resource, in units."""

    def __init__(self, total: float, resource: str = "cpu", **options: Any) -> None:
        self.resource = resource
        self.tree = QuotaTree(**options)
        self.rows = {"": 0}
        self.tree.add_resource(resource)
        self.set_total(total)

    def set_total(self, total: float) -> None:
        self.tree.set_total({self.resource: round(total * UNIT)})

    def quota(
        self,
        name: str,
        most: float,
        *,
        least: float = 0,
        weight: float | None = None,
        lends: bool = True,
        parent: str = "",
        built_in: bool = False,
    ) -> None:
        if name not in self.rows:
            self.rows[name] = self.tree.add_quota()
        row = self.rows[name]
        shared = self._list(most if weight is None else weight)
        self.tree.set_quota(row, most=self._list(most), least=self._list(least), weight=shared, lends=lends, built_in=built_in)
        self.tree.link({row: self.rows[parent]})

    def _list(self, amount: float) -> dict[str, int]:
        return {self.resource: round(amount * UNIT)}

    def pod(self, name: str, amount: float, *, assigned: bool = False, fixed: bool = False) -> QuotaPod:
        pod = self.waiting(name, amount, fixed=fixed)
        self.tree.add(pod)
        if assigned:
            self.tree.assign(pod)
        return pod

    def waiting(self, name: str, amount: float, *, fixed: bool = False) -> QuotaPod:
        return QuotaPod(self.rows[name], QuotaRequest(self.tree, {self.resource: round(amount * UNIT)}), fixed=fixed)

    def runtime(self, name: str) -> float:
        return self.tree.runtimes(self.rows[name])[self.resource] / UNIT

    def amount(self, column: str, name: str) -> float:
        return self.tree.amounts(column, self.rows[name]).get(self.resource, 0) / UNIT


def test_what_is_left_is_shared_by_weights_until_each_has_what_it_asks_for() -> None:
    tree = Tree(40)
    for name, minimum, maximum, asked in (("a", 10, 30, 6), ("b", 8, 30, 25), ("c", 4, 20, 40)):
        tree.quota(name, most=maximum, least=minimum)
        tree.pod(name, asked)
    assert [tree.runtime(name) for name in "abc"] == [6, 21.2, 12.8]


def test_the_proposals_four_quotas() -> None:
    tree = Tree(100, GPU)
    for name, least, weight, asked in (("a", 10, 40, 5), ("b", 15, 60, 20), ("c", 20, 50, 40), ("d", 15, 80, 70)):
        tree.quota(name, least=least, most=100, weight=weight)
        tree.pod(name, asked)
    assert [tree.runtime(name) for name in "abcd"] == [5, 20, 35, 40]


@pytest.mark.parametrize(("total", "quotas", "asked", "each"), [(10, 4, 9, 3), (2, 5, 1, 0), (3, 5, 1, 1)])
def test_rounding_may_hand_out_too_much_or_leave_units_idle(total: int, quotas: int, asked: int, each: int) -> None:
    tree = Tree(total, GPU)
    for i in range(quotas):
        tree.quota(f"q{i}", most=10)
        tree.pod(f"q{i}", asked)
    assert {tree.runtime(f"q{i}") for i in range(quotas)} == {each}


@pytest.mark.parametrize(
    ("total", "asked", "runtimes"),
    [(10, [9, 9, 9, 9], [3, 3, 2, 2]), (2, [1] * 5, [1, 1, 0, 0, 0]), (7, [1, 9, 9], [1, 3, 3]), (3, [1, 1], [1, 1])],
)
def test_whole_devices_are_handed_out_as_many_as_there_are(total: int, asked: list[int], runtimes: list[int]) -> None:
    tree = Tree(total, GPU, whole_devices=frozenset({GPU}))
    for i in reversed(range(len(asked))):
        tree.quota(f"q{i}", most=10)
        tree.pod(f"q{i}", asked[i])
    tree.tree.set_ranks([tree.rows[name] for name in sorted(tree.rows)])
    assert [tree.runtime(f"q{i}") for i in range(len(asked))] == runtimes


def test_whole_devices_go_by_weight_and_the_largest_remainder() -> None:
    tree = Tree(10, GPU, whole_devices=frozenset({GPU}))
    for name, weight in (("a", 1), ("b", 2), ("c", 3)):  # 1 2/3, 3 1/3 and 5
        tree.quota(name, most=20, weight=weight)
        tree.pod(name, 20)
    assert [tree.runtime(name) for name in "abc"] == [2, 3, 5]


def test_mins_are_scaled_down_when_there_is_less_than_their_sum() -> None:
    for scales, expected in ((True, [45, 37.5, 7.5]), (False, [60, 50, 10])):
        tree = Tree(90, scales_min=scales)
        for name, least in (("a", 60), ("b", 50), ("c", 10)):
            tree.quota(name, least=least, most=100)
            tree.pod(name, 70)
        assert [tree.runtime(name) for name in "abc"] == expected
    tree = Tree(90)
    for name, least in (("a", 60), ("b", 50), ("c", 10)):
        tree.quota(name, least=least, most=100)
        tree.pod(name, 70)
    tree.set_total(200)
    assert [tree.runtime(name) for name in "abc"] == [70, 70, 60.001]


def test_a_quota_that_does_not_lend_asks_for_its_min() -> None:
    tree = Tree(10)
    tree.quota("a", least=7, most=10, lends=False)
    tree.quota("b", most=10)
    tree.pod("b", 9)
    assert (tree.runtime("a"), tree.amount("request", "a"), tree.amount("child_request", "a"), tree.runtime("b")) == (7, 7, 0, 3)
    tree.quota("a", least=7, most=10)
    assert (tree.runtime("a"), tree.runtime("b")) == (0, 9)


def test_a_request_goes_up_as_far_as_max() -> None:
    tree = Tree(100)
    tree.quota("p", most=100)
    tree.quota("a", most=5, parent="p")
    tree.pod("a", 9)
    assert (tree.amount("request", "a"), tree.amount("child_request", "p")) == (9, 5)
    tree.quota("a", most=8, parent="p")
    assert tree.amount("child_request", "p") == 8


def test_guarantees_go_up_as_what_is_allocated() -> None:
    tree = Tree(100, guarantees=True)
    tree.quota("p", most=100, least=12, lends=False)
    tree.quota("a", most=50, least=3, lends=False, parent="p")
    tree.quota("b", most=50, least=2, lends=False, parent="p")
    tree.pod("a", 5, assigned=True)
    assert (tree.amount("guaranteed", "a"), tree.amount("guaranteed", "b")) == (5, 2)
    assert (tree.amount("allocated", "p"), tree.amount("guaranteed", "p")) == (7, 12)


def test_the_default_quotas_use_is_taken_off_the_total_once() -> None:
    for compete, expected in ((False, 70), (True, 40)):
        tree = Tree(100, "memory", built_ins_compete=compete)
        tree.quota("default", most=UNLIMITED, built_in=True)
        tree.quota("a", most=200)
        tree.pod("default", 30, assigned=True)
        tree.pod("a", 100)
        assert tree.runtime("a") == expected


def test_an_orphan_gets_what_it_asks_for_up_to_its_min() -> None:
    tree = Tree(100)
    tree.quota("a", most=50, least=5)
    tree.tree.link({tree.rows["a"]: -1})
    tree.pod("a", 9)
    assert tree.runtime("a") == 5


def test_quotas_that_are_their_own_ancestors_are_refused() -> None:
    tree = Tree(100)
    tree.quota("a", most=50)
    tree.quota("b", most=50, parent="a")
    with pytest.raises(ValueError, match="2 quotas are their own ancestors"):
        tree.tree.link({tree.rows["a"]: tree.rows["b"]})


def test_pods_are_admitted_up_to_the_runtime_and_non_preemptible_ones_up_to_min() -> None:
    tree = Tree(10)
    tree.quota("a", most=8, least=3)
    tree.pod("a", 2, assigned=True, fixed=True)
    assert tree.tree.admit(tree.pod("a", 6)) == ADMITTED
    assert tree.tree.admit(tree.pod("a", 2, fixed=True)) == OVER_MIN
    big = tree.pod("a", 7)
    assert tree.tree.admit(big) == OVER_LIMIT
    assert tree.tree.exceeded(big, tree.rows["a"], OVER_LIMIT) == ["cpu"]


def test_an_ancestor_without_room_is_named() -> None:
    tree = Tree(100, by_runtime=False)
    tree.quota("p", most=6)
    for name in ("a", "b"):
        tree.quota(name, most=5, parent="p")
    tree.pod("a", 5, assigned=True)
    assert tree.tree.full_ancestor(tree.pod("b", 2)) == tree.rows["p"]
    assert tree.tree.full_ancestor(tree.pod("b", 1)) == -1


def test_growth_is_reported_to_the_quota_that_waits_and_to_no_other() -> None:
    tree = Tree(100)
    for name in ("a", "b"):
        tree.quota(name, most=2)
    runs = {name: tree.pod(name, 2, assigned=True) for name in ("a", "b")}
    assert tree.tree.admit(tree.pod("a", 1)) == OVER_LIMIT
    tree.tree.unassign(runs["b"])
    assert list(tree.tree.take_grown()) == []
    tree.tree.unassign(runs["a"])
    assert list(tree.tree.take_grown()) == [tree.rows["a"]]
    assert list(tree.tree.take_grown()) == []


def test_a_neighbours_smaller_request_is_growth() -> None:
    tree = Tree(10)
    for name in ("a", "b"):
        tree.quota(name, most=10)
    first = tree.pod("b", 10)
    waits = tree.pod("a", 6)
    assert tree.tree.admit(waits) == OVER_LIMIT
    tree.tree.remove(first)
    assert list(tree.tree.take_grown()) == [tree.rows["a"]]
    assert tree.tree.admit(waits) == ADMITTED


def test_room_in_an_ancestor_is_reported_to_its_descendants_where_ancestors_are_checked() -> None:
    for checks in (True, False):
        tree = Tree(100, by_runtime=False, checks_parents=checks)
        tree.quota("p", most=6)
        for name in ("a", "b"):
            tree.quota(name, most=5, parent="p")
        runs, waits = tree.pod("a", 5, assigned=True), tree.pod("b", 2)
        assert tree.tree.full_ancestor(waits) == tree.rows["p"]
        tree.tree.remove(runs)
        assert list(tree.tree.take_grown()) == ([tree.rows["b"]] if checks else [])


def test_only_children_of_quotas_where_something_changed_get_new_runtimes() -> None:
    tree = Tree(1000)
    for p in range(10):
        tree.quota(f"p{p}", most=100)
        for c in range(10):
            tree.quota(f"p{p}c{c}", most=100, parent=f"p{p}")
    tree.tree.refresh()
    before = tree.tree.fills
    tree.pod("p3c3", 1)
    tree.tree.refresh()
    assert tree.tree.fills - before == 2  # of the root and of p3


def test_rows_are_used_again_and_know_nothing_of_what_stood_there() -> None:
    tree = Tree(10)
    tree.quota("a", most=5, least=3)
    pod = tree.pod("a", 4, assigned=True)
    row = tree.rows.pop("a")
    tree.tree.remove(pod)
    tree.tree.remove_quota(row)
    with pytest.raises(IndexError):
        tree.tree.amounts("used", row)
    assert tree.tree.add_quota() == row
    assert tree.tree.amounts("max", row) == tree.tree.runtimes(row) == {}


def test_a_pod_is_counted_once() -> None:
    tree = Tree(10)
    tree.quota("a", most=5)
    pod = tree.pod("a", 2)
    for _ in range(2):
        tree.tree.add(pod)
        tree.tree.assign(pod)
    assert (tree.amount("request", "a"), tree.amount("used", "a")) == (2, 2)
    for _ in range(2):
        tree.tree.remove(pod)
    assert (tree.amount("request", "a"), tree.amount("used", "a")) == (0, 0)
