from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable, Request

class Occupancy:
    """Who occupies each row, at which level, kept in the order in which they would be spared: by level descending, the oldest first.

    Items are anything; they are told apart by identity. Requests are those that the table's rows were given.
    """

    def __init__(self, table: NodeTable) -> None: ...
    @property
    def table(self) -> NodeTable: ...
    @property
    def generation(self) -> int: ...
    @property
    def log_end(self) -> int: ...
    def add(self, row: int, item: object, level: int, request: Request, started: float, tied: bool, guards: int) -> None:
        """Add an occupant. started: seconds, inf when it has not started; tied: it can run on no other row; guards: its set of guards."""

    def claim(self, row: int, item: object, level: int, request: Request) -> None:
        """Promise room on the row to one who is not there yet: who has no higher level must leave it free."""

    def remove(self, row: int, item: object) -> None:
        """Take an occupant or a claim away; LookupError when it is not there. O(occupants of the row)."""

    def holds(self, row: int, item: object) -> bool:
        """Answer whether this occupant or claim is on the row."""

    def clear(self) -> None:
        """Forget all occupants and claims."""

    def pin(self, row: int, item: object) -> None:
        """Let nobody send this occupant away."""

    def claimed_rows(self) -> NDArray[np.int32]:
        """Return the rows with claims, in no order."""

    def shortages(self, rows: NDArray[np.int32], level: int, request: Request, own: object = None) -> NDArray[np.int32]:
        """Return per row what filter_fit would say if all claims of at least this level, but for `own`, were occupants already.

        What the row would be short of when empty is not told apart: bit 30 is never set.
        """

    def items(self, row: int) -> list[tuple[Any, int]]:
        """Return (item, level) of the row's occupants in order, claims left out."""

    def set_guards_of(self, allowed: Sequence[int], sets: Iterable[Sequence[int]]) -> None:
        """Say how many occupants under each guard may be sent away without harm, and which guards each set names; set 0 must be empty."""
