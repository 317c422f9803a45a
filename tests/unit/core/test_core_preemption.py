"""The kernel of preemption: what a newcomer could gain on each row. Amounts: pods (id 0) and cpu (id 1)."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordsched._core.occupancy import Occupancy
from koordsched._core.prospects import Prospects
from koordsched._core.table import NodeTable, Request


def cpu(milli: int) -> Request:
    return Request([0, 1], [1, milli], milli, 0)


class Rows:
    """Rows of 4000 milli-cores and ten pods each."""

    def __init__(self, count: int = 2) -> None:
        self.table = NodeTable()
        self.occupancy = Occupancy(self.table)
        self.requests: dict[int, Request] = {}
        for _ in range(count):
            row = self.table.acquire_row()
            self.table.set_allocatable(row, {0: 10, 1: 4000})
            self.table.set_live(row, True)

    def request(self, milli: int) -> Request:
        return self.requests.setdefault(milli, cpu(milli))

    def add(self, row: int, item: str, level: int, milli: int, **others: Any) -> None:
        """Put one there; others: started, tied, guards."""
        self.table.add(row, self.request(milli))
        facts = {"started": inf, "tied": False, "guards": 0} | others
        self.occupancy.add(row, item, level, self.request(milli), **facts)

    def prospects(self, level: int, milli: int) -> Prospects:
        found = Prospects(self.occupancy, level, cpu(milli))
        found.refresh()
        return found


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


PLACE = np.arange(64, dtype=np.int32)


def test_victims_are_those_who_cannot_be_put_back_most_important_first() -> None:
    world = Rows(1)
    for item, level, milli in (("a", 5, 1000), ("b", 3, 2000), ("c", 1, 1000)):
        world.add(0, item, level, milli)
    found = world.prospects(9, 3000)
    assert found.codes(rows(0)).tolist() == [0]
    assert found.victims(0) == (["b", "c"], 0)  # a stays: 1000 + 3000 fill the row
    assert found.worth(0) == (0, 3, 3 + 1 + 2 * 2**31, 2, 0, -inf)


def test_equal_levels_are_spared_by_age() -> None:
    world = Rows(1)
    world.add(0, "young", 1, 2000, started=200.0)
    world.add(0, "old", 1, 2000, started=100.0)
    assert world.prospects(9, 2000).victims(0) == (["young"], 0)


def test_nobody_of_the_same_or_a_higher_level_goes() -> None:
    world = Rows(2)
    world.add(0, "same", 9, 4000)
    world.add(1, "higher", 10, 2000)
    world.add(1, "lower", 1, 1000)
    assert world.prospects(9, 3000).codes(rows(0, 1)).tolist() == [-1, 2]  # row 1: cpu stays short


def test_who_is_beyond_a_guard_is_put_back_first() -> None:
    world = Rows(1)
    world.occupancy.set_guards_of([0], [(), (0,)])
    world.add(0, "free", 5, 2000)
    world.add(0, "guarded", 1, 2000, guards=1)
    assert world.prospects(9, 2000).victims(0) == (["free"], 0)
    world.occupancy.set_guards_of([1], [(), (0,)])
    assert world.prospects(9, 2000).victims(0) == (["guarded"], 0)
    world.occupancy.set_guards_of([0], [(), (0,)])
    assert world.prospects(9, 4000).victims(0) == (["free", "guarded"], 1)


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        ([(7, 4000)], [(3, 2000), (3, 2000)], 1),  # the highest victim counts before the number
        ([(3, 2000), (3, 2000)], [(3, 4000)], 1),  # the sum is smaller
        ([(3, 3000), (1, 1000)], [(3, 2000), (2, 2000)], 0),
        ([(3, 4000)], [(3, 4000)], 0),  # the first place
    ],
)
def test_the_best_row_has_the_least_worth(first: list[tuple[int, int]], second: list[tuple[int, int]], winner: int) -> None:
    world = Rows(2)
    for row, occupants in enumerate((first, second)):
        for i, (level, milli) in enumerate(occupants):
            world.add(row, f"{row}-{i}", level, milli)
    assert world.prospects(9, 4000).best(rows(0, 1), PLACE) == winner


def test_tied_victims_count_before_age_and_the_younger_node_wins() -> None:
    world = Rows(3)
    world.add(0, "tied", 1, 4000, started=900.0, tied=True)
    world.add(1, "old", 1, 4000, started=100.0)
    world.add(2, "young", 1, 4000, started=500.0)
    found = world.prospects(9, 4000)
    assert found.best(rows(0, 1, 2), PLACE) == 2
    assert found.best(rows(0, 1), PLACE) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from(["claim", "remove", "clear"])), max_size=60))
def test_the_claimed_rows_are_those_with_claims_whatever_came_and_went(steps: list[tuple[int, int, str]]) -> None:
    world = Rows(6)
    world.add(4, "occupant", 1, 100)
    items = {(row, number): f"{row}/{number}" for row in range(6) for number in range(3)}
    claims: dict[str, int] = {}
    for row, number, step in steps:
        item = items[row, number]
        if step == "clear" and number == 0:
            world.occupancy.clear()
            claims.clear()
        elif step == "claim" and item not in claims:
            world.occupancy.claim(row, item, 5, world.request(100))
            claims[item] = row
        elif step == "remove" and item in claims:
            world.occupancy.remove(claims.pop(item), item)
    assert sorted(world.occupancy.claimed_rows().tolist()) == sorted(set(claims.values()))


def test_a_claim_takes_room_from_lower_and_equal_newcomers_but_not_from_its_owner() -> None:
    world = Rows(1)
    world.add(0, "low", 1, 2000)
    claim = "claim"
    world.occupancy.claim(0, claim, 5, world.request(3000))
    assert world.prospects(6, 3000).codes(rows(0)).tolist() == [0]
    five = world.prospects(5, 3000)
    assert five.codes(rows(0)).tolist() == [2]
    five.reconsider(0, claim)
    assert five.victims(0, claim) == (["low"], 0)
    five.restore(0)
    assert five.codes(rows(0)).tolist() == [2]
    short = world.occupancy.shortages
    assert [short(rows(0), level, cpu(500)).tolist() for level in (5, 6)] == [[2], [0]]
    assert short(rows(0), 5, cpu(500), claim).tolist() == [0]


def test_a_pinned_occupant_does_not_go() -> None:
    world = Rows(1)
    world.add(0, "stuck", 1, 4000)
    found = world.prospects(9, 1000)
    assert found.promising == 1
    world.occupancy.pin(0, "stuck")
    found.refresh()
    assert (found.promising, found.codes(rows(0)).tolist()) == (0, [-1])


def test_changes_are_followed_row_by_row() -> None:
    world = Rows(2)
    world.add(0, "a", 1, 4000)
    found = world.prospects(9, 1000)
    assert found.codes(rows(0, 1)).tolist() == [0, -1]
    world.add(1, "b", 1, 4000)
    world.table.subtract(0, world.request(4000))
    world.occupancy.remove(0, "a")
    found.refresh()
    assert found.codes(rows(0, 1)).tolist() == [-1, 0]
    world.table.set_live(1, False)
    found.refresh()
    assert (found.promising, found.codes(rows(1)).tolist()) == (0, [-2])
    world.occupancy.clear()
    found.refresh()
    assert found.codes(rows(0, 1)).tolist() == [-1, -2]


def test_floors_bound_any_set_of_victims() -> None:
    world = Rows(1)
    world.occupancy.set_guards_of([0], [(), (0,)])
    world.add(0, "a", 5, 1000)
    world.add(0, "b", 3, 2000, guards=1)
    world.add(0, "c", 1, 1000)
    harm, level = world.prospects(9, 3000).floors(rows(0))
    assert (harm.tolist(), level.tolist()) == ([1], [3])  # without b only 2000 are free; c alone gives 1000
    harm, level = world.prospects(9, 1000).floors(rows(0))
    assert (harm.tolist(), level.tolist()) == ([0], [1])


def test_what_is_not_there_cannot_be_removed() -> None:
    world = Rows(1)
    with pytest.raises(LookupError):
        world.occupancy.remove(0, "nobody")
    with pytest.raises(LookupError):
        world.prospects(9, 1000).victims(0)
