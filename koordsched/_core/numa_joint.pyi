import numpy as np
from numpy.typing import NDArray

from koordsched._core.hint_source import NumaHintSource
from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable

class KeptAffinities:
    """The affinities that were found last, by row, until the row changes: Score needs those that Filter has found.

    One profile's plugin has one; it is of one request and source at a time. Only for what the cache shows as it is: changes that it
    simulates, and what it hides from a view, are not told from what there was.
    """

    def __init__(self) -> None: ...

class NumaAlignment:
    """The rows on which a NUMA policy holds for the pods of a request that Filter aligns under, for kernels. Equal ones answer the same."""

    def __init__(self, table: NumaTable, request: NumaRequest) -> None: ...

def joint_masks(
    table: NumaTable,
    request: NumaRequest,
    scoring: NumaScoring,
    rows: NDArray[np.int32],
    source: NumaHintSource,
    kept: KeptAffinities | None = None,
) -> NDArray[np.uint64] | None:
    """Return the NUMA nodes (bit i: NUMA id i) that each row's part of the pod comes from; None: every row's is 0.

    0: no affinity, or not before Reserve, or the row is refused. Without the GIL.
    """

def aligned_rows(table: NumaTable, request: NumaRequest, rows: NDArray[np.int32]) -> NDArray[np.uint8] | None:
    """Return 1 for each row on which a NUMA policy holds for the pod that Filter aligns under; None: there is none."""

def joint_affinity(table: NumaTable, request: NumaRequest, scoring: NumaScoring, row: int, source: NumaHintSource) -> tuple[int, int]:
    """Return (code, mask) of one row: a code as `filter_numa` gives it and, if it is 0, the NUMA nodes to take from (0: no affinity).

    Only for rows with zones and a NUMA policy that Filter aligns under. What Filter checks besides is not checked again. IndexError when
    there is no such row.
    """
