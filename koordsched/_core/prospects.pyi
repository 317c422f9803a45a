from typing import Any

import numpy as np
from numpy.typing import NDArray

from koordsched._core.occupancy import Occupancy
from koordsched._core.table import Request

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
        """Return two bounds per row, true of every set of victims; meaningless where `codes` is not 0.

        1 if some victim must be beyond a guard; the level that the highest victim has at least.
        """
