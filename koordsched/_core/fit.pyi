import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable, Request

MAX_IDS: int
UNRESOLVABLE: int

def filter_fit(table: NodeTable, request: Request, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return per row which of the request's amounts the row has no room for; 0: it fits.

    Bit j: amounts[j] > allocatable - requested, for the j-th of the request's ids. Bit 30 (UNRESOLVABLE): one of them but "pods" is more
    than the row's allocatable. ValueError for more than MAX_IDS ids, IndexError for an id that the table has no column for.
    Without the GIL; O(rows x ids).
    """

def fit_slots(table: NodeTable, request: Request, rows: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    """Return per row how many such requests it has room for, at most `most`. IndexError for an id that the table has no column for."""

def fit_after(table: NodeTable, request: Request, rows: NDArray[np.int32], before: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return per row what `filter_fit` would answer if so many such requests (>= 0) were added to it before; bit 30 is never set."""

def free_amounts(table: NodeTable, ids: list[int], rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return what is free of these resources, a line each, on each of the rows. IndexError for an id that the table has no column for."""
