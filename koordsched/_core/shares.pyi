import numpy as np
from numpy.typing import NDArray

from koordsched._core.counts import DomainSums, RowCounts
from koordsched._core.table import NodeTable

class Shares:
    """What several counts add to the score of each row: the sum of count * weight + offset, in double precision and the order added."""

    def __init__(self, table: NodeTable) -> None: ...
    def add_domains(self, sums: DomainSums, weight: float, offset: float) -> None:
        """Add the sum of each row's domain, as it is now; rows without a domain get nothing. ValueError for sums of another table."""

    def add_rows(self, counts: RowCounts, attribute: int, weight: float, offset: float) -> None:
        """Add each row's own count, as it will be when asked; rows without the attribute get nothing. IndexError, ValueError."""

    def scores(self, rows: NDArray[np.int32], eligible: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
        """Return each row's sum rounded to the nearest integer, halves away from zero; 0 for rows that are not eligible. O(rows)."""

def normalize_to_least(scores: NDArray[np.int64], rows: NDArray[np.int32], eligible: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
    """Return 100 * (max + min - score) / max over the eligible rows, 100 when max is 0; 0 for the others (topology spreading)."""
