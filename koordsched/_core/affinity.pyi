import numpy as np
from numpy.typing import NDArray

from koordsched._core.counts import RowCounts
from koordsched._core.table import NodeTable

# A domain is all rows with the same value id of an attribute column; value id 0 is no domain. Flags say of each value id whether its domain
# holds any of what is counted; ids beyond their end hold none. Codes and scores are changed in place, one for each of `rows`; codes only
# where they are 0. IndexError when there is no such attribute. Loops over rows run without the GIL.

def is_unique(table: NodeTable, attribute: int) -> bool:
    """Answer whether every domain is a single row. O(rows in use)."""

def occupied(table: NodeTable, attribute: int, counters: list[RowCounts]) -> bytes:
    """Return the flags of the domains in which some row has a count in some counter. O(rows in use x counters)."""

def any_with(counts: RowCounts, attribute: int) -> bool:
    """Answer whether some row that is in a domain has a count. O(rows in use)."""

def refuse_where(table: NodeTable, attribute: int, flags: bytes, rows: NDArray[np.int32], codes: NDArray[np.int32], code: int) -> None:
    """Refuse rows whose domain is flagged."""

def refuse_unless(
    table: NodeTable, attribute: int, flags: bytes | None, rows: NDArray[np.int32], codes: NDArray[np.int32], code: int
) -> None:
    """Refuse rows that are in no domain or in one that is not flagged; without flags only the former."""

def refuse_own(counts: RowCounts, attribute: int, rows: NDArray[np.int32], codes: NDArray[np.int32], code: int, *, holding: bool) -> None:
    """Refuse rows that are in a domain and have a count themselves (holding), or all others (not holding)."""

def add_own(counts: RowCounts, attribute: int, rows: NDArray[np.int32], scores: NDArray[np.int64], weight: int) -> None:
    """Add weight x its own count to the score of each row that is in a domain."""
