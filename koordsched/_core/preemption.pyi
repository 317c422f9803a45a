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

    def shortages(self, rows: NDArray[np.int32], level: int, request: Request, own: object = None) -> NDArray[np.int32]:
        """Return per row what filter_fit would say if all claims of at least this level, but for `own`, were occupants already.

        What the row would be short of when empty is not told apart: bit 30 is never set.
        """

    def items(self, row: int) -> list[tuple[Any, int]]:
        """Return (item, level) of the row's occupants in order, claims left out."""

    def set_guards_of(self, allowed: Sequence[int], sets: Iterable[Sequence[int]]) -> None:
        """Say how many occupants under each guard may be sent away without harm, and which guards each set names; set 0 must be empty."""

class Prospects:
    """What one newcomer could gain on each row, kept up to date: O(rows that changed) a refresh.

    On each row all occupants of a lower level are sent away; if the request fits then, they are put back as far as possible: first those
    who exceed a guard, then the others, each in order. Who cannot be put back is a victim.
    """

    def __init__(self, occupancy: Occupancy, level: int, request: Request) -> None: ...
    @property
    def level(self) -> int: ...
    @property
    def request(self) -> Request: ...
    @property
    def promising(self) -> int:
        """How many rows have victims whose going would make room, as of the last refresh."""

    def refresh(self) -> None:
        """Bring all rows up to date. Comes before everything else."""

    def reconsider(self, row: int, own: object) -> None:
        """Foresee one row anew for the newcomer to whom this claim belongs; to be followed by `restore`."""

    def restore(self, row: int) -> None: ...
    def codes(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return per row 0 (it fits), -1 (nobody to send away), -2 (no node) or the code of filter_fit when all lower ones are gone."""

    def best(self, rows: NDArray[np.int32], place: NDArray[np.int32]) -> int:
        """Return the row with the smallest `worth` among these that fit, ties by place[row]; -1 when none fits."""

    def worth(self, row: int) -> tuple[int, int, int, int, int, float]:
        """Return (victims beyond a guard, highest level, sum of level + 2^31, victims, tied victims, -start of the oldest highest one)."""

    def victims(self, row: int, own: object = None) -> tuple[list[Any], int]:
        """Return the victims of a row that fits, the most important first, and how many are beyond a guard. LookupError if it does not.

        own: as for `reconsider`, which it implies.
        """

    def floors(self, rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return per row bounds for all sets of victims: 1 if one of them must be beyond a guard, and the least level of that one.

        Meaningless where `codes` is not 0.
        """
