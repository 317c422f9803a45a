from __future__ import annotations

import pytest

from koordsched._core.bitset import BitWeights, filter_bits
from koordsched._core.table import NodeTable


def table(rows: int, *columns: list[int]) -> NodeTable:
    """Make a table whose bit columns have these rows set."""
    made = NodeTable()
    for _ in range(rows):
        made.set_live(made.acquire_row(), True)
    for members in columns:
        bit = made.new_bit()
        for row in members:
            made.set_bit(bit, row)
    return made


def test_a_row_with_any_of_the_bits_is_refused() -> None:
    made = table(4, [0, 1], [1, 3], [2])
    assert filter_bits(made, [0, 1], made.live_rows()).tolist() == [1, 1, 0, 1]
    assert filter_bits(made, [], made.live_rows()).tolist() == [0, 0, 0, 0]


def test_bits_beyond_the_first_word_are_found() -> None:
    made = table(130, [63, 64, 129])
    assert [row for row, code in enumerate(filter_bits(made, [0], made.live_rows())) if code] == [63, 64, 129]


def test_a_sum_is_scaled_from_low_to_high_and_rounded_down() -> None:
    made = table(4, [0, 1], [0, 1, 2], [0])
    weights = BitWeights([0, 1, 2], [250, 80, 1000], 100, 700)
    # 1330 -> 700: 100; 330: 230 * 100 / 600 = 38.3; 80 is below low; nothing
    assert weights.score(made, made.live_rows()).tolist() == [100, 38, 0, 0]


def test_a_column_that_stands_twice_counts_twice() -> None:
    made = table(1, [0])
    assert BitWeights([0, 0], [50, 50], 0, 200).score(made, made.live_rows()).tolist() == [50]


def test_weights_are_cut_to_high_so_that_sums_cannot_overflow() -> None:
    made = table(1, [0])
    assert BitWeights([0] * 5, [2**63 - 1] * 5, 0, 10**9).score(made, made.live_rows()).tolist() == [100]


@pytest.mark.parametrize(
    ("weights", "low", "high"), [([-1], 0, 1), ([1, 2], 0, 1), ([1], 1, 1), ([1], 0, 2**53)], ids=["weight", "lengths", "empty", "high"]
)
def test_weights_out_of_range_are_refused(weights: list[int], low: int, high: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        BitWeights([0], weights, low, high)


def test_a_column_that_the_table_does_not_have_is_refused() -> None:
    made = table(1)
    with pytest.raises(IndexError, match="bit column 99"):
        filter_bits(made, [99], made.live_rows())
    with pytest.raises(IndexError, match="bit column 99"):
        BitWeights([99], [1], 0, 1).score(made, made.live_rows())
