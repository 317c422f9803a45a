"""Refusals of rows of the node table as columns: there may be thousands of such rows and few different refusals.

`StatusCodes` numbers refusals; `RowRefusals` is why single rows refuse a pod besides what its shape's filters say of them, as nominated
pods and extenders do. Nothing here costs Python objects by the row unless a caller asks about single rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koordsched.framework.status import Status

Rows = NDArray[np.int32]
NO_ROWS = np.zeros(0, np.int32)


class StatusCodes:
    """Numbers different refusals from 1 on, in the order in which they appear. 0 is no refusal."""

    __slots__ = ("_codes", "statuses")

    def __init__(self) -> None:
        self._codes: dict[Status, int] = {}
        self.statuses: list[Status] = []

    def code_of(self, status: Status) -> int:
        """Return the refusal's number, a new one if need be."""
        found = self._codes.get(status)
        if found is None:
            self.statuses.append(status)
            found = self._codes[status] = len(self.statuses)
        return found

    def status_of(self, code: int) -> Status:
        return self.statuses[code - 1]


class RowRefusals:
    """Rows and their refusals. rows: each at most once; codes: int32 of the same length, each row's refusal by its number in statuses."""

    def __init__(self, rows: Rows, codes: NDArray[np.int32], statuses: StatusCodes) -> None:
        self.rows = rows
        self._codes = codes
        self._statuses = statuses

    @classmethod
    def of(cls, by_row: Mapping[int, Status]) -> RowRefusals:
        """Return the refusals of these rows."""
        statuses = StatusCodes()
        codes = [statuses.code_of(status) for status in by_row.values()]
        return cls(np.array(list(by_row), np.int32), np.array(codes, np.int32), statuses)

    @classmethod
    def of_codes(cls, rows: Rows, codes: NDArray[np.int32], explain: Callable[[int], Status]) -> RowRefusals:
        """Return the refusals of these rows by a filter's codes, which `explain` turns into refusals."""
        statuses = StatusCodes()
        if not len(codes):
            return cls(rows, codes, statuses)
        if (codes == codes[0]).all():  # as a rule, and unique() sorts
            return cls(rows, np.full(len(codes), statuses.code_of(explain(int(codes[0]))), np.int32), statuses)
        values, which = np.unique(codes, return_inverse=True)
        return cls(rows, np.array([statuses.code_of(explain(code)) for code in values.tolist()], np.int32)[which], statuses)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, row: int) -> bool:
        return row in self._index

    def get(self, row: int) -> Status | None:
        i = self._index.get(row)
        return None if i is None else self._statuses.status_of(int(self._codes[i]))

    def groups(self) -> list[tuple[Status, Rows]]:
        """Return each refusal with its rows."""
        statuses = self._statuses.statuses
        if len(statuses) == 1:
            return [(statuses[0], self.rows)]
        return [(status, self.rows[self._codes == code]) for code, status in enumerate(statuses, 1)]

    def joined(self, other: RowRefusals) -> RowRefusals:
        """Return both; no row is in both."""
        if not len(other) or not len(self):
            return other if not len(self) else self
        statuses = StatusCodes()
        codes = [
            np.array([statuses.code_of(status) for status in part._statuses.statuses], np.int32)[part._codes - 1] for part in (self, other)
        ]
        return RowRefusals(np.concatenate((self.rows, other.rows)), np.concatenate(codes), statuses)

    @cached_property
    def _index(self) -> dict[int, int]:
        return {row: i for i, row in enumerate(self.rows.tolist())}


NO_REFUSALS = RowRefusals.of({})
