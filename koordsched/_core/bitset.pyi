from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable

def filter_bits(table: NodeTable, columns: list[int], rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return per row 1 when it has any of the bits, else 0. Without the GIL; O(rows x columns)."""

class BitWeights:
    """Weights (>= 0) of bit columns, and the range low..high of their sum that is scaled to 0..100.

    A column that stands twice counts twice. ValueError when low >= high or high is so large that sums could overflow. Immutable.
    """

    def __init__(self, columns: Sequence[int], weights: Sequence[int], low: int, high: int) -> None: ...
    @property
    def low(self) -> int: ...
    @property
    def high(self) -> int: ...
    def score(self, table: NodeTable, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return per row 100 * (s - low) / (high - low), s being the sum of the weights of its bits cut to low..high; rounded down."""
