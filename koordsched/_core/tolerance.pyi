from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable

class Effect(IntEnum):
    """What a taint that is not tolerated does."""

    NOTHING = 0
    REFUSES = 1
    REPELS = 2
    CORDONS = 3

class Operator(IntEnum):
    """How a toleration compares values; NEVER matches nothing."""

    EQUAL = 0
    EXISTS = 1
    NEVER = 2

class TaintSets:
    """All taints and taint sets as numbers, only ever extended. Equal numbers stand for equal strings, 0 for ""."""

    @property
    def taints(self) -> int: ...
    @property
    def sets(self) -> int: ...
    def add_taint(self, key: int, value: int, effect: int, kind: Effect) -> None: ...
    def add_set(self, taints: Sequence[int]) -> None:
        """Add the next set: its taints in the order they stand on the node. IndexError for a taint that was not added."""

class Tolerance:
    """What one list of tolerations, each (key, operator, value, effect), makes of every taint set. Key and effect 0 match any.

    `attribute` is the column with the taint-set ids. IndexError when a row has a set that was not added to the TaintSets.
    Without the GIL; O(rows), and O(taints x tolerations) once for each set that was added since the last call.
    """

    def __init__(self, taint_sets: TaintSets, tolerations: Sequence[tuple[int, Operator, int, int]]) -> None: ...
    def refused_by(self, taint_set: int) -> int:
        """Return 1 + the first taint of a set that REFUSES and is not tolerated, 0 when there is none. IndexError for no such set."""

    def refuse(self, table: NodeTable, attribute: int, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return per row 1 + the first taint that REFUSES and is not tolerated, 0 when there is none."""

    def refuse_cordoned(self, table: NodeTable, attribute: int, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return per row 1 when a taint CORDONS and is not tolerated, else 0."""

    def count_repelling(self, table: NodeTable, attribute: int, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return per row the number of taints that REPEL and are not tolerated."""
