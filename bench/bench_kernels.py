"""What one call of a filter or score kernel costs: for one row, as nearly every call of a running scheduler is, and for 5,000 rows, as
the first pod of a shape needs it.

Question: do calls for one row stay below 1.5 us with the plugin's own Python around them, and those for 5,000 rows within a few tens of us?
Fixed seed. Last measured (min, us, 2-core Xeon 2.5 GHz with other work on it):

    for one row      0.4 - 0.8 each (0.8 - 1.3 with the plugin's Python)
    for 5,000 rows   filter_fit 22, least_allocated 36, most_allocated 44, requested_to_capacity_ratio 43, balanced 27, mixed_allocated 25,
                     avoid_scarce 19 (both 2026-11-23 on another machine, where least_allocated takes 23),
                     match_one_condition 21, match_two_terms 38, filter_equal 6, refuse_taints 6, count_repelling_taints 7,
                     filter_bits 9, bit_weights 18
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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
from koordsched._core.fit import filter_fit
from koordsched._core.match import Terms, filter_equal
from koordsched._core.scarcity import UnrequestedResources, avoid_scarce
from koordsched._core.table import NodeTable, Request
from koordsched._core.tolerance import Effect, Operator, TaintSets, Tolerance

NODES = 5_000
CPU, MEMORY = 1, 2
ZONE, TAINTS, NAME = 0, 1, 2  # attributes
GIB = 1 << 30

Rows = np.ndarray[Any, np.dtype[np.int32]]


@pytest.fixture(scope="module")
def table() -> NodeTable:
    """Make nodes of 32 CPU and 128Gi with up to 29 pods of ten kinds, three zones, seven taint sets and an image on every third."""
    chance = random.Random(1)
    made = NodeTable(NODES)
    kinds = [Request([0, CPU, MEMORY], [1, 500 * c, c * GIB], 500 * c, c * GIB) for c in range(1, 11)]
    for _ in range(3):
        made.new_attribute()
    image = made.new_bit()
    for row in range(NODES):
        made.acquire_row()
        made.set_allocatable(row, {0: 110, CPU: 32_000, MEMORY: 128 * GIB})
        for attribute, value in ((ZONE, 1 + row % 3), (TAINTS, row % 7), (NAME, row + 1)):
            made.set_attribute(attribute, row, value, int(NodeChange.ALL))
        if row % 3 == 0:
            made.set_bit(image, row)
        for _ in range(chance.randrange(30)):
            made.add(row, chance.choice(kinds))
        made.set_live(row, True)
    return made


@pytest.fixture(params=[1, NODES], ids=["1-row", "5000-rows"])
def rows(request: pytest.FixtureRequest, table: NodeTable) -> Rows:
    return table.live_rows() if request.param == NODES else np.array([17], np.int32)


Benchmark = Callable[..., Any]
TWO = ScoredResources([CPU, MEMORY], [4_000, 8 * GIB], [1, 1])


def bench_filter_fit(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(filter_fit, table, Request([0, CPU, MEMORY], [1, 4_000, 8 * GIB], 4_000, 8 * GIB), rows)


def bench_least_allocated(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(least_allocated, table, TWO, rows)


def bench_most_allocated(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(most_allocated, table, TWO, rows)


def bench_requested_to_capacity_ratio(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(requested_to_capacity_ratio, table, TWO, RatioShape([(0, 0), (100, 100)]), rows)


def bench_mixed_allocated(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(mixed_allocated, table, MixedResources([CPU, MEMORY], [4_000, 8 * GIB], [1, 3], [False, True]), rows)


def bench_avoid_scarce(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(avoid_scarce, table, UnrequestedResources([CPU, 3, MEMORY], [False, False, True]), rows)


def bench_balanced(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(balanced, table, TWO, rows)


def bench_match_one_condition(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(Terms([[(ZONE, bytes([0, 1, 0, 1]))]]).refuse, table, rows, 1)


def bench_match_two_terms(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    terms = Terms([[(ZONE, bytes([0, 1, 0, 0])), (TAINTS, bytes([1] * 7))], [(ZONE, bytes([0, 0, 1, 0]))]], [10, 30])
    benchmark(terms.weigh, table, rows)


def bench_filter_equal(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(filter_equal, table, NAME, 17, rows)


def tolerance() -> Tolerance:
    sets = TaintSets()
    sets.add_taint(1, 0, 3, Effect.REFUSES)
    sets.add_taint(2, 0, 4, Effect.REPELS)
    for members in ((), (0,), (1,), (0, 1), (1, 0), (1, 1), (0, 0)):
        sets.add_set(members)
    return Tolerance(sets, [(1, Operator.EXISTS, 0, 0)])


def bench_refuse_taints(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(tolerance().refuse, table, TAINTS, rows)


def bench_count_repelling_taints(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(tolerance().count_repelling, table, TAINTS, rows)


def bench_filter_bits(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(filter_bits, table, [0], rows)


def bench_bit_weights(benchmark: Benchmark, table: NodeTable, rows: Rows) -> None:
    benchmark(BitWeights([0], [500 << 20], 23 << 20, 1000 << 20).score, table, rows)
