"""Each filter and score kernel equals its plain-Python twin, on any table, with amounts up to the limits of int64."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.known import known

from koordsched._core.allocation import (
    MixedResources,
    RatioShape,
    ScoredResources,
    balanced,
    least_allocated,
    mixed_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from koordsched._core.bitset import BitWeights, filter_bits
from koordsched._core.change import NodeChange
from koordsched._core.fit import UNRESOLVABLE, filter_fit
from koordsched._core.match import Terms, filter_equal
from koordsched._core.scarcity import UnrequestedResources, avoid_scarce
from koordsched._core.table import NodeTable, Request
from koordsched._core.tolerance import Effect, Operator, TaintSets, Tolerance

CPU, MEMORY = 1, 2
RESOURCES = 5
INT64_MAX = 2**63 - 1

EDGES = [2**53 // 100, 2**53, INT64_MAX // 100, INT64_MAX // 2, INT64_MAX]
amounts = st.one_of(
    st.integers(0, 12),
    st.integers(0, 2**41),
    st.sampled_from(EDGES).flatmap(lambda edge: st.integers(max(0, edge - 3), min(INT64_MAX, edge + 3))),
)


class Row(NamedTuple):
    allocatable: list[int]
    requested: list[int]
    nonzero: list[int]


rows_of_amounts = st.lists(
    st.builds(
        Row,
        st.lists(amounts, min_size=RESOURCES, max_size=RESOURCES),
        st.lists(amounts, min_size=RESOURCES, max_size=RESOURCES),
        st.lists(amounts, min_size=2, max_size=2),
    ),
    min_size=1,
    max_size=5,
)


def table_of(rows: list[Row]) -> NodeTable:
    made = NodeTable()
    made.ensure_resources(RESOURCES)
    for given_row in rows:
        row = made.acquire_row()
        made.set_allocatable(row, dict(enumerate(given_row.allocatable)))
        made.add(row, Request(list(range(RESOURCES)), given_row.requested, given_row.nonzero[0], given_row.nonzero[1]))
        made.set_live(row, True)
    return made


def some_rows(data: st.DataObject, made: NodeTable) -> np.ndarray:
    """Return any rows in any order, as a partial evaluation asks about them."""
    picked = data.draw(st.lists(st.sampled_from(made.live_rows().tolist()), max_size=6))
    return np.array(picked, np.int32)


# Fit


def fit_twin(row: Row, ids: list[int], wanted: list[int]) -> int:
    code = 0
    for bit, (resource, amount) in enumerate(zip(ids, wanted, strict=True)):
        if amount > row.allocatable[resource] - row.requested[resource]:
            code |= 1 << bit
            if bit > 0 and amount > row.allocatable[resource]:
                code |= UNRESOLVABLE
    return code


@given(rows=rows_of_amounts, others=st.sets(st.integers(1, RESOURCES - 1)), data=st.data())
def test_filter_fit_equals_its_twin(rows: list[Row], others: set[int], data: st.DataObject) -> None:
    made = table_of(rows)
    ids = [0, *sorted(others)]
    wanted = data.draw(st.lists(amounts.filter(bool), min_size=len(ids), max_size=len(ids)))
    asked = some_rows(data, made)
    assert filter_fit(made, Request(ids, wanted, 0, 0), asked).tolist() == [fit_twin(rows[r], ids, wanted) for r in asked]


# Allocation


class Scored(NamedTuple):
    resource: int
    amount: int
    weight: int


scored_resources = st.lists(st.builds(Scored, st.integers(0, RESOURCES - 1), amounts, st.integers(1, 100)), max_size=4)


def allocation_of(scored: list[Scored]) -> ScoredResources:
    return ScoredResources([s.resource for s in scored], [s.amount for s in scored], [s.weight for s in scored])


def used_of(row: Row, scored: Scored) -> int:
    used = {CPU: row.nonzero[0], MEMORY: row.nonzero[1]}.get(scored.resource, row.requested[scored.resource])
    return used + scored.amount


def mean_twin(row: Row, scored: list[Scored], most: bool) -> int:
    total = weight = 0
    for s in scored:
        capacity, used = row.allocatable[s.resource], used_of(row, s)
        if capacity == 0:
            continue
        weight += s.weight
        if most:
            total += s.weight * (min(used, capacity) * 100 // capacity)
        elif used <= capacity:
            total += s.weight * ((capacity - used) * 100 // capacity)
    return total // weight if weight else 0


@given(rows=rows_of_amounts, scored=scored_resources, data=st.data())
def test_least_and_most_allocated_equal_their_twins(rows: list[Row], scored: list[Scored], data: st.DataObject) -> None:
    made = table_of(rows)
    asked = some_rows(data, made)
    allocation = allocation_of(scored)
    assert least_allocated(made, allocation, asked).tolist() == [mean_twin(rows[r], scored, most=False) for r in asked]
    assert most_allocated(made, allocation, asked).tolist() == [mean_twin(rows[r], scored, most=True) for r in asked]


class Mixed(NamedTuple):
    resource: int
    amount: int
    weight: int
    most: bool


MOST_WEIGHT = INT64_MAX // 400
weights_of_mixed = st.one_of(st.integers(0, 3), st.integers(2**53 // 100 - 2, 2**53 // 100 + 2), st.integers(MOST_WEIGHT - 2, MOST_WEIGHT))
mixed_resources = st.lists(st.builds(Mixed, st.integers(0, RESOURCES - 1), amounts, weights_of_mixed, st.booleans()), max_size=4)


def mixed_twin(row: Row, scored: list[Mixed]) -> int:
    total = weight = 0
    for s in scored:
        capacity, used = row.allocatable[s.resource], used_of(row, Scored(s.resource, s.amount, s.weight))
        weight += s.weight
        if capacity and s.most:
            total += s.weight * (min(used, capacity) * 100 // capacity)
        elif capacity and used <= capacity:
            total += s.weight * ((capacity - used) * 100 // capacity)
    return total // weight if weight else 100


@given(rows=rows_of_amounts, scored=mixed_resources, data=st.data())
def test_mixed_allocated_equals_its_twin(rows: list[Row], scored: list[Mixed], data: st.DataObject) -> None:
    made = table_of(rows)
    asked = some_rows(data, made)
    compiled = MixedResources(*([list(values) for values in zip(*scored, strict=True)] or [[], [], [], []]))
    assert mixed_allocated(made, compiled, asked).tolist() == [mixed_twin(rows[r], scored) for r in asked]


def scarcity_twin(row: Row, unrequested: dict[int, bool]) -> int:
    offered = [scarce for resource, scarce in unrequested.items() if row.allocatable[resource] > 0]
    return (len(offered) - sum(offered)) * 100 // len(offered) if any(offered) else 100


@given(rows=rows_of_amounts, unrequested=st.dictionaries(st.integers(0, RESOURCES - 1), st.booleans()), data=st.data())
def test_avoid_scarce_equals_its_twin(rows: list[Row], unrequested: dict[int, bool], data: st.DataObject) -> None:
    made = table_of(rows)
    asked = some_rows(data, made)
    compiled = UnrequestedResources(list(unrequested), list(unrequested.values()))
    assert avoid_scarce(made, compiled, asked).tolist() == [scarcity_twin(rows[r], unrequested) for r in asked]


Points = list[tuple[int, int]]


@st.composite
def shapes(draw: st.DrawFn) -> Points:
    utilizations = sorted(draw(st.sets(st.integers(0, 100), min_size=1, max_size=5)))
    return [(utilization, 10 * draw(st.integers(0, 10))) for utilization in utilizations]


def shape_twin(points: Points, utilization: int) -> int:
    if utilization <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if utilization <= x1:
            return y0 + math.trunc((y1 - y0) * (utilization - x0) / (x1 - x0))
    return points[-1][1]


def ratio_twin(row: Row, scored: list[Scored], points: Points) -> int:
    total = weight = 0
    for s in scored:
        capacity, used = row.allocatable[s.resource], used_of(row, s)
        if capacity == 0:
            continue
        score = shape_twin(points, 100 if used > capacity else used * 100 // capacity)
        if score > 0:
            total += s.weight * score
            weight += s.weight
    return math.floor(total / weight + 0.5) if weight else 0


@given(rows=rows_of_amounts, scored=scored_resources, points=shapes(), data=st.data())
def test_requested_to_capacity_ratio_equals_its_twin(rows: list[Row], scored: list[Scored], points: Points, data: st.DataObject) -> None:
    made = table_of(rows)
    asked = some_rows(data, made)
    answer = requested_to_capacity_ratio(made, allocation_of(scored), RatioShape(points), asked)
    assert answer.tolist() == [ratio_twin(rows[r], scored, points) for r in asked]


@given(points=shapes())
def test_a_shape_equals_its_twin_everywhere(points: Points) -> None:
    shape = RatioShape(points)
    assert [shape[utilization] for utilization in range(101)] == [shape_twin(points, utilization) for utilization in range(101)]


def balanced_twin(row: Row, scored: list[Scored]) -> int:
    fractions = []
    for s in scored:
        used, capacity = row.requested[s.resource] + s.amount, row.allocatable[s.resource]
        if capacity:
            fractions.append(1.0 if used > INT64_MAX else min(1.0, float(used) / float(capacity)))
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean, squares = total / len(fractions), 0.0
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * 100)


@given(rows=rows_of_amounts, scored=scored_resources, data=st.data())
def test_balanced_equals_its_twin(rows: list[Row], scored: list[Scored], data: st.DataObject) -> None:
    made = table_of(rows)
    asked = some_rows(data, made)
    assert balanced(made, allocation_of(scored), asked).tolist() == [balanced_twin(rows[r], scored) for r in asked]


# Match

VALUES = 4  # value ids 0..3; 0: absent
COLUMNS = 3

Conditions = list[tuple[int, bytes]]
verdicts = st.lists(st.integers(0, 1), min_size=2, max_size=VALUES).map(bytes)
conditions = st.lists(st.tuples(st.integers(-1, COLUMNS - 1), verdicts), max_size=3)
values_of_rows = st.lists(st.lists(st.integers(0, VALUES - 1), min_size=COLUMNS, max_size=COLUMNS), min_size=1, max_size=5)


def table_of_values(rows: list[list[int]]) -> NodeTable:
    made = NodeTable()
    for _ in range(COLUMNS):
        made.new_attribute()
    for values in rows:
        row = made.acquire_row()
        for attribute, value in enumerate(values):
            made.set_attribute(attribute, row, value, int(NodeChange.LABELS))
        made.set_live(row, True)
    return made


class UnknownValueError(Exception):
    """The twin came to a value without a verdict, where the kernel answers None."""


def term_twin(values: list[int], term: Conditions) -> bool:
    for attribute, verdict in term:
        value = values[attribute] if attribute >= 0 else 0
        if value >= len(verdict):
            raise UnknownValueError
        if not verdict[value]:
            return False
    return True


@given(rows=values_of_rows, terms=st.lists(conditions, max_size=3), data=st.data())
def test_terms_equal_their_twin(rows: list[list[int]], terms: list[Conditions], data: st.DataObject) -> None:
    made = table_of_values(rows)
    asked = some_rows(data, made)
    weights = data.draw(st.lists(st.integers(1, 100), min_size=len(terms), max_size=len(terms)))
    compiled = Terms(terms, weights)
    try:
        matched = [any(term_twin(rows[r], term) for term in terms) for r in asked]
    except UnknownValueError:
        assert compiled.matches(made, asked) is None
        assert compiled.refuse(made, asked, 5) is None
    else:
        assert known(compiled.matches(made, asked)).tolist() == matched
        assert known(compiled.refuse(made, asked, 5)).tolist() == [0 if match else 5 for match in matched]
    try:
        sums = [sum(weight for term, weight in zip(terms, weights, strict=True) if term_twin(rows[r], term)) for r in asked]
    except UnknownValueError:
        assert compiled.weigh(made, asked) is None
    else:
        assert known(compiled.weigh(made, asked)).tolist() == sums


@given(rows=values_of_rows, value=st.integers(-1, VALUES), data=st.data())
def test_filter_equal_equals_its_twin(rows: list[list[int]], value: int, data: st.DataObject) -> None:
    made = table_of_values(rows)
    asked = some_rows(data, made)
    assert filter_equal(made, 1, value, asked).tolist() == [int(rows[r][1] != value) for r in asked]


def test_a_condition_after_a_failed_one_is_not_looked_at() -> None:
    made = table_of_values([[0, 2, 0]])
    terms = Terms([[(0, b"\0\0"), (1, b"\0\0")]])  # the row's second value is newer than its verdicts
    assert known(terms.refuse(made, made.live_rows(), 5)).tolist() == [5]


# Tolerance

Taint = tuple[int, int, int, Effect]
taints = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(1, 2), st.sampled_from(list(Effect))), min_size=1, max_size=4)
tolerations = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(list(Operator)), st.integers(0, 2), st.integers(0, 2)), max_size=3)


def tolerated_twin(taint: Taint, tolerated: list[tuple[int, Operator, int, int]]) -> bool:
    key, value, effect, _ = taint
    return any(
        wanted_key in {0, key}
        and wanted_effect in {0, effect}
        and (operator is Operator.EXISTS or (operator is Operator.EQUAL and wanted_value == value))
        for wanted_key, operator, wanted_value, wanted_effect in tolerated
    )


@given(known=taints, tolerated=tolerations, data=st.data())
def test_tolerance_equals_its_twin_also_for_sets_that_come_later(
    known: list[Taint], tolerated: list[tuple[int, Operator, int, int]], data: st.DataObject
) -> None:
    sets = data.draw(st.lists(st.lists(st.integers(0, len(known) - 1), max_size=4), min_size=1, max_size=5))
    taint_sets = TaintSets()
    for taint in known:
        taint_sets.add_taint(*taint)
    tolerance = Tolerance(taint_sets, tolerated)
    made = NodeTable()
    made.new_attribute()
    for number, members in enumerate(sets):
        taint_sets.add_set(members)
        row = made.acquire_row()
        made.set_attribute(0, row, number, int(NodeChange.TAINTS))
        made.set_live(row, True)
        asked = made.live_rows()
        left = [[t for t in seen if not tolerated_twin(known[t], tolerated)] for seen in sets[: number + 1]]
        refusing = [next((t + 1 for t in seen if known[t][3] is Effect.REFUSES), 0) for seen in left]
        assert tolerance.refuse(made, 0, asked).tolist() == refusing
        assert tolerance.refuse_cordoned(made, 0, asked).tolist() == [
            int(any(known[t][3] is Effect.CORDONS for t in seen)) for seen in left
        ]
        assert tolerance.count_repelling(made, 0, asked).tolist() == [sum(known[t][3] is Effect.REPELS for t in seen) for seen in left]


# Bits


@given(
    members=st.lists(st.sets(st.integers(0, 69)), min_size=1, max_size=4),
    limits=st.tuples(st.integers(0, 2**53 // 100 - 1), st.integers(0, 2**53 // 100 - 1)).filter(lambda pair: pair[0] != pair[1]),
    data=st.data(),
)
def test_bit_kernels_equal_their_twins(members: list[set[int]], limits: tuple[int, int], data: st.DataObject) -> None:
    made = NodeTable()
    for _ in range(70):
        made.set_live(made.acquire_row(), True)
    for rows in members:
        bit = made.new_bit()
        for row in rows:
            made.set_bit(bit, row)
    asked = some_rows(data, made)
    columns = data.draw(st.lists(st.integers(0, len(members) - 1), max_size=4))
    weights = data.draw(st.lists(amounts, min_size=len(columns), max_size=len(columns)))
    low, high = sorted(limits)
    assert filter_bits(made, columns, asked).tolist() == [int(any(r in members[c] for c in columns)) for r in asked]
    sums = [sum(weight for c, weight in zip(columns, weights, strict=True) if r in members[c]) for r in asked]
    expected = [100 * (min(max(total, low), high) - low) // (high - low) for total in sums]
    assert BitWeights(columns, weights, low, high).score(made, asked).tolist() == expected
