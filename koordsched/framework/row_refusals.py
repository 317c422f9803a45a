"""RowRefusals: why single rows of the node table refuse a pod, besides what its shape's filters say of them.

Nominated pods and extenders refuse so. There may be thousands of such rows and few different refusals, so it is columns; nothing here costs
Python objects by the row unless somebody asks about single rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koordsched.framework.status import Status

Rows = NDArray[np.int32]
NO_ROWS = np.zeros(0, np.int32)


class RowRefusals:
    """Rows and their refusals. rows: each at most once; which: int32 of the same length, the index of the row's refusal in statuses."""

    def __init__(self, rows: Rows, which: NDArray[np.int32], statuses: Sequence[Status]) -> None:
        self.rows = rows
        self._which = which
        self._statuses = statuses

    @classmethod
    def of(cls, by_row: Mapping[int, Status]) -> RowRefusals:
        """Return the refusals of these rows."""
        index: dict[Status, int] = {}
        which = [index.setdefault(status, len(index)) for status in by_row.values()]
        return cls(np.array(list(by_row), np.int32), np.array(which, np.int32), list(index))

    @classmethod
    def of_codes(cls, rows: Rows, codes: NDArray[np.int32], explain: Callable[[int], Status]) -> RowRefusals:
        """Return the refusals of these rows by a filter's codes. explain: tells what a code stands for."""
        if not len(codes):
            return cls(rows, codes, [])
        if (codes == codes[0]).all():
            return cls(rows, np.zeros(len(codes), np.int32), [explain(int(codes[0]))])  # as a rule, and unique() sorts
        values, which = np.unique(codes, return_inverse=True)
        return cls(rows, which.astype(np.int32), [explain(code) for code in values.tolist()])

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, row: int) -> bool:
        return row in self._index

    def get(self, row: int) -> Status | None:
        i = self._index.get(row)
        return None if i is None else self._statuses[self._which[i]]

    def groups(self) -> list[tuple[Status, Rows]]:
        """Return each refusal with its rows."""
        if len(self._statuses) == 1:
            return [(self._statuses[0], self.rows)]
        return [(status, self.rows[self._which == i]) for i, status in enumerate(self._statuses)]

    def joined(self, other: RowRefusals) -> RowRefusals:
        """Return both; no row is in both."""
        if not len(other) or not len(self):
            return other if not len(self) else self
        rows = np.concatenate((self.rows, other.rows))
        which = np.concatenate((self._which, other._which + len(self._statuses)), dtype=np.int32)
        return RowRefusals(rows, which, [*self._statuses, *other._statuses])

    @cached_property
    def _index(self) -> dict[int, int]:
        return {row: i for i, row in enumerate(self.rows.tolist())}


NO_REFUSALS = RowRefusals.of({})
