from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

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
from koordsched._core.table import NodeTable, Request

Kernel = Callable[[NodeTable, ScoredResources, NDArray[np.int32]], NDArray[np.int64]]

CPU, MEMORY, DISK, GPU = 1, 2, 3, 4


def table(allocatable: dict[int, int], requested: dict[int, int] | None = None, nonzero: tuple[int, int] = (0, 0)) -> NodeTable:
    """Make a table of one row."""
    made = NodeTable()
    made.ensure_resources(5)
    row = made.acquire_row()
    made.set_allocatable(row, allocatable)
    amounts = {0: 1, **(requested or {})}
    made.add(row, Request(list(amounts), list(amounts.values()), *nonzero))
    made.set_live(row, True)
    return made


def scored(kernel: Kernel, made: NodeTable, ids: list[int], amounts: list[int], weights: list[int] | None = None) -> int:
    return int(kernel(made, ScoredResources(ids, amounts, weights or [1] * len(ids)), made.live_rows())[0])


def ratio(points: list[tuple[int, int]]) -> Kernel:
    shape = RatioShape(points)
    return lambda made, allocation, rows: requested_to_capacity_ratio(made, allocation, shape, rows)


def test_least_allocated_is_the_mean_of_the_free_percentages() -> None:
    # free cpu 75 %, free memory 87.5 % -> 87; (75 + 87) / 2 = 81
    assert scored(least_allocated, table({CPU: 4000, MEMORY: 8 << 30}), [CPU, MEMORY], [1000, 1 << 30]) == 81


def test_least_allocated_counts_the_nonzero_amounts_of_cpu_and_memory_and_the_plain_ones_of_others() -> None:
    made = table({CPU: 1000, MEMORY: 1000, GPU: 10}, {CPU: 900, MEMORY: 900, GPU: 3}, nonzero=(200, 300))
    assert scored(least_allocated, made, [CPU], [100]) == 70
    assert scored(least_allocated, made, [MEMORY], [100]) == 60
    assert scored(least_allocated, made, [GPU], [1]) == 60


def test_least_allocated_of_an_overcommitted_resource_is_zero_but_its_weight_counts() -> None:
    made = table({CPU: 1000, MEMORY: 1000}, nonzero=(1001, 0))
    assert scored(least_allocated, made, [CPU, MEMORY], [0, 0]) == 50


def test_a_resource_without_capacity_is_left_out_with_its_weight() -> None:
    assert scored(least_allocated, table({CPU: 1000}), [CPU, GPU], [300, 1], [1, 9]) == 70
    assert scored(most_allocated, table({CPU: 1000}), [CPU, GPU], [300, 1], [1, 9]) == 30


def test_no_resource_at_all_scores_zero() -> None:
    for kernel in (least_allocated, most_allocated, ratio([(0, 100)])):
        assert scored(kernel, table({}), [CPU], [1]) == 0
        assert scored(kernel, table({CPU: 5}), [], []) == 0


def test_weights_shift_the_mean() -> None:
    # cpu 10 x 1, memory 90 x 9 -> 820 / 10
    made = table({CPU: 10, MEMORY: 10}, nonzero=(8, 0))
    assert scored(least_allocated, made, [CPU, MEMORY], [1, 1], [1, 9]) == 82


def test_most_allocated_is_the_mean_of_the_used_percentages_and_a_full_resource_is_100() -> None:
    made = table({CPU: 4000, MEMORY: 8 << 30})
    assert scored(most_allocated, made, [CPU, MEMORY], [1000, 1 << 30]) == 18  # (25 + 12) / 2
    assert scored(most_allocated, made, [CPU], [9000]) == 100


def mixed(made: NodeTable, ids: list[int], amounts: list[int], weights: list[int], most: list[bool]) -> int:
    return int(mixed_allocated(made, MixedResources(ids, amounts, weights, most), made.live_rows())[0])


def test_mixed_allocation_scores_each_resource_its_own_way() -> None:
    # frameworkext.md §10 line 17: cpu 12 of 20 free: 60; gpu 7 of 8 used: 87; (60 + 3 * 87) / 4 = 80
    made = table({CPU: 20_000, GPU: 8}, {GPU: 6}, nonzero=(4000, 0))
    assert mixed(made, [CPU, GPU], [4000, 1], [1, 3], [False, True]) == 80


def test_mixed_allocation_counts_a_missing_resource_as_zero_and_no_weight_as_100() -> None:
    made = table({CPU: 1000})
    assert mixed(made, [CPU, GPU], [300, 1], [1, 1], [False, False]) == 35
    assert mixed(made, [CPU], [300], [0], [True]) == 100
    assert mixed(made, [], [], [], []) == 100


def test_mixed_allocation_of_an_overcommitted_resource_is_as_if_it_were_full() -> None:
    made = table({CPU: 1000}, nonzero=(1001, 0))
    assert (mixed(made, [CPU], [1], [7], [False]), mixed(made, [CPU], [1], [7], [True])) == (0, 100)


@pytest.mark.parametrize(
    ("amounts", "weights", "most"),
    [([-1], [1], [True]), ([1], [-1], [True]), ([1], [2**63 // 100 + 1], [True]), ([1, 2], [1], [True]), ([1], [1], [])],
    ids=["amount", "weight", "weights", "lengths", "flags"],
)
def test_a_mixed_allocation_out_of_range_is_refused(amounts: list[int], weights: list[int], most: list[bool]) -> None:
    with pytest.raises(ValueError, match=r"expected|must be"):
        MixedResources([1], amounts, weights, most)


def test_a_mixed_resource_that_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(IndexError, match="resource 7 of 5"):
        mixed(table({}), [7], [1], [1], [True])


def test_ratio_scores_the_shape_at_the_utilization() -> None:
    rising = ratio([(0, 0), (100, 100)])
    assert scored(rising, table({CPU: 1000}, nonzero=(500, 0)), [CPU], [109]) == 60
    assert scored(rising, table({CPU: 1000}, nonzero=(500, 0)), [CPU], [501]) == 100


def test_ratio_leaves_resources_with_score_zero_out_of_the_weights() -> None:
    # memory is at 0 % and scores 0: only cpu counts, whatever the weight of memory
    assert scored(ratio([(0, 0), (100, 100)]), table({CPU: 100, MEMORY: 100}), [CPU, MEMORY], [40, 0], [1, 99]) == 40


def test_ratio_rounds_half_away_from_zero() -> None:
    # (40 + 41) / 2 = 40.5
    assert scored(ratio([(0, 0), (100, 100)]), table({CPU: 100, MEMORY: 100}), [CPU, MEMORY], [40, 41]) == 41


def test_a_shape_is_constant_outside_its_points_and_truncates_toward_zero_between_them() -> None:
    shape = RatioShape([(10, 100), (40, 0), (70, 50)])
    assert [shape[u] for u in (0, 10, 11, 40, 41, 70, 100)] == [100, 100, 97, 0, 1, 50, 50]  # 100 - 100 * 1 / 30 = 97; 50 / 30 = 1


def test_balance_of_two_resources_is_half_their_difference() -> None:
    made = table({CPU: 1000, MEMORY: 1000}, {CPU: 200, MEMORY: 100})
    assert scored(balanced, made, [CPU, MEMORY], [100, 400]) == 90  # .3 and .5: (1 - .1) * 100


def test_balance_of_three_resources_is_their_standard_deviation() -> None:
    made = table({CPU: 1000, MEMORY: 1000, GPU: 10})
    assert scored(balanced, made, [CPU, MEMORY, GPU], [500, 500, 8]) == 85  # 1 - sqrt(.02) = .8586


def test_balance_of_one_resource_is_perfect() -> None:
    assert scored(balanced, table({CPU: 1000}), [CPU, MEMORY], [10, 10]) == 100


def test_balance_takes_an_overcommitted_resource_as_full() -> None:
    made = table({CPU: 1000, MEMORY: 1000}, {CPU: 5000})
    assert scored(balanced, made, [CPU, MEMORY], [0, 1000]) == 100


def test_amounts_near_the_int64_limit_are_exact() -> None:
    most = 2**63 - 1
    made = table({DISK: most}, {DISK: most // 2})
    assert scored(least_allocated, made, [DISK], [0]) == 50
    assert scored(most_allocated, made, [DISK], [0]) == 49
    assert scored(most_allocated, made, [DISK], [most]) == 100
    assert scored(balanced, made, [DISK, DISK], [most, most]) == 100


def test_a_quotient_that_doubles_round_up_is_still_rounded_down() -> None:
    # 100 * (2^53 + 1 - 1) / (2^53 + 1) is below 100, but both amounts are the same double
    assert scored(least_allocated, table({DISK: 2**53 + 1}), [DISK], [1]) == 99


@pytest.mark.parametrize(
    ("amounts", "weights"), [([-1], [1]), ([1], [0]), ([1], [100_001]), ([1, 2], [1])], ids=["amount", "weight", "weights", "lengths"]
)
def test_an_allocation_out_of_range_is_refused(amounts: list[int], weights: list[int]) -> None:
    with pytest.raises(ValueError, match=r"expected|must be"):
        ScoredResources([1], amounts, weights)


def test_a_resource_that_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(IndexError, match="resource 7 of 5"):
        scored(balanced, table({}), [7], [1])


def test_a_shape_needs_a_point_and_a_utilization_within_0_to_100() -> None:
    with pytest.raises(ValueError, match="at least one point"):
        RatioShape([])
    with pytest.raises(IndexError, match="utilization 101"):
        RatioShape([(0, 1)])[101]
