"""The compiled search for a packing equals its plain-Python twin, and ends after so much work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.models.packing import Kind, Node, PackingModel, Vector

from koordsched._core.packing import PackingSearch

PLENTY = 1 << 40


class Problem(NamedTuple):
    nodes: list[Node]
    units: list[Vector | None]
    kinds: list[Kind]
    needs: list[int]
    forbidden: dict[int, list[Vector]]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    classes, resources, gangs = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    amounts = st.tuples(*[st.integers(0, 3)] * resources)
    units = draw(st.lists(st.one_of(st.none(), amounts), min_size=classes, max_size=classes))
    nodes = st.builds(Node, st.tuples(*[st.integers(-1, 8)] * resources), st.tuples(*[st.integers(0, 4)] * classes))
    kinds = draw(st.lists(st.builds(Kind, st.integers(0, classes - 1), st.integers(0, gangs - 1), st.integers(0, 4)), max_size=4))
    found = draw(st.lists(nodes, max_size=4))
    needs = [draw(st.integers(0, sum(kind.size for kind in kinds if kind.gang == gang))) for gang in range(gangs)]
    vectors = st.lists(st.tuples(*[st.integers(0, 2)] * classes), min_size=1, max_size=2)
    forbidden = draw(st.dictionaries(st.integers(0, 3), vectors, max_size=2))
    return Problem(found, units, kinds, needs, forbidden)


def search_of(problem: Problem, work: int = PLENTY) -> PackingSearch:
    classes = len(problem.units)
    resources = max([len(node.free) for node in problem.nodes] + [len(units) for units in problem.units if units is not None] + [1])
    free = np.array([node.free for node in problem.nodes], np.int64).reshape(len(problem.nodes), resources)
    slots = np.array([node.slots for node in problem.nodes], np.int64).reshape(len(problem.nodes), classes)
    units = np.array([each or (0,) * resources for each in problem.units], np.int64).reshape(classes, resources)
    counted = np.array([each is not None for each in problem.units], np.uint8)
    kinds = (
        np.array([kind.number for kind in problem.kinds], np.int32),
        np.array([kind.gang for kind in problem.kinds], np.int32),
        np.array([kind.size for kind in problem.kinds], np.int64),
    )
    forbidden = {node: np.array(found, np.int64) for node, found in problem.forbidden.items()}
    return PackingSearch(free, slots, units, counted, kinds, np.array(problem.needs, np.int64), forbidden, work, 10_000)


@given(problems())
def test_what_is_found_is_what_the_model_finds(problem: Problem) -> None:
    assert search_of(problem).run() == PackingModel(*problem).run()


@given(problems(), st.integers(0, 4_000))
def test_a_search_ends_after_so_much_work(problem: Problem, work: int) -> None:
    """It may end with a step more, and what it found until then is right. With 3 classes, 2 resources and 4 kinds a step is 140 at most."""
    search = search_of(problem, work)
    found = search.run()
    assert search.work <= work + 2 * 140
    assert found is None or found == PackingModel(*problem).run()


@pytest.mark.parametrize("kinds", [2, 20, 200])
def test_work_counts_what_a_search_looks_at(kinds: int) -> None:
    """A search of many kinds ends after fewer combinations, as each costs more."""
    nodes = [Node((30,), (1,) * kinds)] * kinds
    problem = Problem(nodes, [(7 + number % 5,) for number in range(kinds)], [Kind(number, 0, 1) for number in range(kinds)], [kinds], {})
    search = search_of(problem, 0)
    assert search.run() is None
    assert search.work == 128 + kinds + 1, "one step"


def test_a_gang_takes_any_of_its_members() -> None:
    """Four of five are needed, two of 4 and three of 2. The first combination that fills a node of 8 has two large ones."""
    nodes = [Node((8,), (9, 9)), Node((4,), (9, 9))]
    kinds = [Kind(0, 0, 2), Kind(1, 0, 3)]
    problem = Problem(nodes, [(4,), (2,)], kinds, [4], {})
    assert search_of(problem).run() == [(0, (2, 0)), (1, (0, 2))]
    assert search_of(problem._replace(needs=[5])).run() is None, "they are 14, and there is room for 12"
    assert search_of(problem._replace(forbidden={0: [(2, 0)]})).run() == [(0, (1, 2)), (1, (1, 0))]


def test_what_does_not_go_together_is_refused() -> None:
    good = Problem([Node((8,), (9,))], [(4,)], [Kind(0, 0, 1)], [1], {})
    with pytest.raises(IndexError):
        search_of(good._replace(kinds=[Kind(1, 0, 1)]))
    with pytest.raises(IndexError):
        search_of(good._replace(kinds=[Kind(0, 1, 1)]))
    with pytest.raises(ValueError, match="for each class"):
        search_of(good._replace(forbidden={0: [(1, 1)]}))
    free, slots, units = np.ones((1, 1), np.int64), np.ones((1, 1), np.int64), np.ones((1, 2), np.int64)
    kinds = np.zeros(1, np.int32), np.zeros(1, np.int32), np.ones(1, np.int64)
    with pytest.raises(ValueError, match="go together"):
        PackingSearch(free, slots, units, np.ones(1, np.uint8), kinds, np.ones(1, np.int64), {}, 1, 1)
    with pytest.raises(ValueError, match="a class, a gang and a size"):
        PackingSearch(free, slots, free, np.ones(1, np.uint8), (*kinds[:2], np.ones(2, np.int64)), np.ones(1, np.int64), {}, 1, 1)
