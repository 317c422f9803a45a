"""RowVerdicts: what a shape's filters say of some rows, found without its columns or read from them.

It answers as an `_core.Evaluation` does about all rows: a filter is named by its place among those that run for the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from koordsched.framework.row_refusals import NO_ROWS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koordsched.framework.row_refusals import Rows


class FilterVerdicts(Protocol):
    """What filters say of all rows of the node table, or of those to which a pod is restricted."""

    def is_feasible(self, row: int) -> bool: ...
    def feasible_rows(self) -> Rows:
        """Return all feasible rows, ascending."""

    def feasible_among(self, rows: Rows) -> Rows:
        """Return those of the rows that are feasible, in the same order."""

    def histogram(self) -> list[tuple[int, int, int]]:
        """Return (filter, code, rows) for each distinct refusal."""

    def refusals(self) -> tuple[Rows, NDArray[np.int32], NDArray[np.int32]]:
        """Return (rows, filters, codes) of all refused rows, ascending by row."""

    def verdict(self, row: int) -> tuple[int, int]:
        """Return (filter, code) of the first filter that refused the row; (-1, 0) when it is feasible or was not asked about."""


class RowVerdicts:
    """A `FilterVerdicts` of some rows. rows: ascending; filters, codes: of each row, -1 and 0 where it is feasible."""

    __slots__ = ("codes", "feasible", "filters", "rows")

    def __init__(self, rows: Rows, filters: NDArray[np.int32], codes: NDArray[np.int32]) -> None:
        self.rows = rows
        self.filters = filters
        self.codes = codes
        self.feasible = rows[filters < 0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowVerdicts) and all(
            np.array_equal(ours, theirs)
            for ours, theirs in ((self.rows, other.rows), (self.filters, other.filters), (self.codes, other.codes))
        )

    __hash__ = None  # type: ignore[assignment]  # arrays

    def is_feasible(self, row: int) -> bool:
        place = self._place(row)
        return place is not None and self.filters[place] < 0

    def feasible_rows(self) -> Rows:
        return self.feasible

    def feasible_among(self, rows: Rows) -> Rows:
        return rows[np.isin(rows, self.feasible)]

    def histogram(self) -> list[tuple[int, int, int]]:
        refused = self.filters >= 0
        packed = (self.filters[refused].astype(np.int64) << 32) | self.codes[refused]
        values, counts = np.unique(packed, return_counts=True)
        return [(value >> 32, value & 0xFFFFFFFF, count) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]

    def refusals(self) -> tuple[Rows, NDArray[np.int32], NDArray[np.int32]]:
        refused = self.filters >= 0
        return self.rows[refused], self.filters[refused], self.codes[refused]

    def verdict(self, row: int) -> tuple[int, int]:
        place = self._place(row)
        return (-1, 0) if place is None else (int(self.filters[place]), int(self.codes[place]))

    def _place(self, row: int) -> int | None:
        """Return where the row stands in `rows`."""
        place = int(np.searchsorted(self.rows, row))
        return place if place < len(self.rows) and self.rows[place] == row else None


NO_VERDICTS = RowVerdicts(NO_ROWS, NO_ROWS, NO_ROWS)
