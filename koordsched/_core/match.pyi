from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable

class Terms:
    """Terms of conditions on attribute columns: a row matches a term when all its conditions hold; a term without conditions always.

    A condition is (attribute, verdicts): verdicts[value id] is 1 when the condition holds for rows with that value, verdicts[0] answers for
    rows without one; attribute -1 is a column that no row has. Immutable. The methods return None when a row has a value id that is beyond
    the verdicts. Without the GIL; O(rows x conditions).
    """

    def __init__(self, terms: Sequence[Sequence[tuple[int, bytes]]], weights: Sequence[int] | None = None) -> None: ...
    @property
    def count(self) -> int: ...
    def matches(self, table: NodeTable, rows: NDArray[np.int32]) -> NDArray[np.uint8] | None:
        """Return per row 1 when it matches any term."""

    def refuse(self, table: NodeTable, rows: NDArray[np.int32], code: int) -> NDArray[np.int32] | None:
        """Return per row 0 when it matches any term, else code."""

    def weigh(self, table: NodeTable, rows: NDArray[np.int32]) -> NDArray[np.int64] | None:
        """Return per row the sum of the weights of the terms that it matches."""

def filter_equal(table: NodeTable, attribute: int, value: int, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return per row 0 when the attribute has that value, else 1."""
