from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable
from koordsched._core.view import CompiledPart

class RowCounts:
    """How many of something each row of a table has, ghosts and free rows included. Grows with the table. Can be weakly referenced.

    Every change sets `version` to a number that is larger than all earlier versions of the table's counts, except a quiet change, which is
    undone before any other code reads the counts. Rewinding a turn (`NodeTable.rewind_turn`) restores the version from before the turn. Of
    several counts the largest version therefore changes whenever one of them does; a sum of versions would not show every change.
    """

    def __init__(self, table: NodeTable) -> None: ...
    @property
    def total(self) -> int:
        """Sum over all rows."""

    @property
    def version(self) -> int: ...
    def add(self, row: int, amount: int) -> None:
        """Add the amount, which may be negative, to a row's count. IndexError for a row beyond the table."""

    def add_quietly(self, row: int, amount: int) -> None:
        """As `add`, for a quiet change: the version stays."""

    def add_all(self, amounts: dict[int, int], times: int = 1) -> None:
        """Add times x the amount of each row."""

    def add_rows(self, amounts: NDArray[np.int32]) -> None:
        """Add one amount to each row, from the first row on. IndexError for more amounts than the table has rows."""

    def of(self, row: int) -> int: ...
    def array(self) -> NDArray[np.int32]:
        """Return a copy, one entry a row of the table's capacity."""

class Changes:
    """Counts the changes of some kinds (change bits) in any row, from the table's log. Each log entry is read once: O(new entries)."""

    def __init__(self, table: NodeTable, kinds: int) -> None: ...
    def version(self) -> int:
        """Return a number that differs from the last one if such a change was logged since."""

class Domains:
    """Which domain each eligible row is in, as the table is now: made once until rows or their attribute change, to sum often."""

    def __init__(self, table: NodeTable, attribute: int, eligible: NDArray[np.uint8] | None = None) -> None: ...
    @property
    def present(self) -> int:
        """How many domains have an eligible row."""

    def sum(self, counts: RowCounts, weight: int = 1) -> DomainSums:
        """Return new sums of the counts, each times the weight, over these domains. O(rows)."""

    def among(self, rows: NDArray[np.int32]) -> tuple[int, bool]:
        """Return (how many domains these live rows are in, whether a row is in none), by the table as it was when this was made."""

class DomainSums:
    """Sums of row counts over the domains of one attribute column: rows with equal value ids; value id 0 (key absent) is no domain.

    `eligible`: a uint8 per row, 0 for rows to leave out; rows beyond its end are left out as well; None takes every row.
    Every method runs without the GIL: O(rows in use), or O(rows asked). Codes and scores are changed in place, one for each of `rows`.
    """

    def __init__(self, table: NodeTable, attribute: int) -> None:
        """Begin with no sums. IndexError when there is no such attribute."""

    def add(self, counts: RowCounts, eligible: NDArray[np.uint8] | None = None, weight: int = 1) -> None:
        """Add weight x each eligible row's count to its domain, and make its domain count as present."""

    @property
    def present(self) -> int:
        """How many domains have an eligible row."""

    @property
    def least(self) -> int:
        """The smallest sum of a present domain; 2**31 - 1 when there is none."""

    @property
    def total(self) -> int:
        """Sum over all domains."""

    def of(self, value: int) -> int:
        """Return the sum of one domain, by its value id; 0 when it is not present."""

    def refuse_above(self, rows: NDArray[np.int32], codes: NDArray[np.int32], limit: int, above: int, missing: int = 0) -> None:
        """Where the code is 0: write `above` when the row's sum is larger than limit, `missing` when the row has no domain."""

    def add_to(self, rows: NDArray[np.int32], scores: NDArray[np.int64], weight: int = 1) -> None:
        """Add weight x its domain's sum to each row's score; rows without a domain get nothing."""

def rows_with_all(table: NodeTable, attributes: Sequence[int]) -> NDArray[np.uint8]:
    """Return a flag per row in use: 1 where every one of the attributes is present."""

def count_eligible(rows: NDArray[np.int32], eligible: NDArray[np.uint8]) -> int:
    """Return how many of these rows are eligible."""

def normalize_to_range(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 100 * (score - min) / (max - min), truncated after double arithmetic; all 0 when max is min (affinity between pods)."""

class CountsOfClasses(Protocol):
    """What counts pods by their classes."""

    def classes_of(self, pods: Any) -> list[tuple[Any, Any, int]]:
        """Return each class that some of these pods are of, with one of them, and how many there are."""

    def add_of_class(self, known: Any, pod: Any, row: int, amount: int) -> None:
        """Add so many pods of a class to what is counted of a row."""

class HiddenPods(CompiledPart):
    """Pods of a row, in views. Their classes are looked up when anything is counted for the first time."""

    def __init__(self, queries: Mapping[Any, Any], counts: CountsOfClasses, pods: Any, row: int) -> None:
        """queries: a dict that is empty while nothing is counted."""
