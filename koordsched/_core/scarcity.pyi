from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable

class UnrequestedResources:
    """The resources that a pod does not request, and which of them are scarce. Immutable. ValueError when the lengths differ."""

    def __init__(self, ids: Sequence[int], scarce: Sequence[bool]) -> None: ...

def avoid_scarce(table: NodeTable, unrequested: UnrequestedResources, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return per row 100 * (offered - scarce) / offered, rounded down, of the unrequested resources that it offers (allocatable > 0).

    100 for a row that offers nothing scarce among them. Without the GIL; O(rows x resources).
    """
