from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable, Request

class TopologyTree:
    """Domains of a network in layers, and the domain that each row of a node table is in.

    Level 0 is the root, the levels 1 to `depth` are layers below it, and rows stand below the domains of level `depth`, as level depth + 1.
    """

    def __init__(
        self,
        depth: int,
        parent: NDArray[np.int32],
        level: NDArray[np.int32],
        rank: NDArray[np.int32],
        row_domain: NDArray[np.int32],
        row_rank: NDArray[np.int32],
    ) -> None:
        """By domain, of which 0 is the root: its parent, its level (-1: the id stands for no domain), its place in the order of names.
        By row: its domain (-1: none) and its place in the order of names. The arrays are kept and must not change. O(domains + rows).

        ValueError when a parent is not one level above, or a row is in a domain of another level than `depth`.
        """

    @property
    def depth(self) -> int: ...
    @property
    def domains(self) -> int: ...
    @property
    def rows(self) -> int: ...
    def sums(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each domain the sum over the rows in it. amounts: by row. O(domains + rows)."""

class MemberPlacement:
    """Finds the domain, and in it the rows, for all members of a group at once (coscheduling.md §7.2).

    Members are counted by classes of equal ones. `set_most` first, then `roll_up`, then `find`; after `lower`, `roll_up` again.
    """

    def __init__(
        self,
        tree: TopologyTree,
        table: NodeTable,
        requests: Sequence[Request | None],
        wanted: Sequence[int],
        class_order: Sequence[int],
        multiple: Sequence[int],
    ) -> None:
        """requests: what a member of each class takes of a row; None: that is not known, `set_most` alone counts. wanted: members of
        each class. class_order: in which order rows are filled with them. multiple: for each level, rows included, what the number of
        members of a domain has to be a multiple of; 1: any number.
        """

    @property
    def demand(self) -> int: ...
    def set_most(self, klass: int, rows: NDArray[np.int32], most: NDArray[np.int32]) -> None:
        """Set how many members of a class these rows take at most, without members of other classes. Rows not named take none."""

    def lower(self, klass: int, row: int, most: int) -> None:
        """Let a row take no more than so many members of a class."""

    def set_existing(self, rows: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        """Set how many pods attract the members to these rows. A row may be named twice."""

    def roll_up(self) -> None:
        """Count the slots of all rows and domains. O(domains + rows)."""

    def slots_of_level(self, level: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the domains of a level, or the rows in the tree for level depth + 1, and the slots of each."""

    def slots_of_rows(self) -> NDArray[np.int64]:
        """Return the slots by row: how many members each takes, whatever the others take; 0 outside of the tree."""

    def find(self, level: int, allowed: NDArray[np.uint8] | None = None) -> list[tuple[int, int, int]] | None:
        """Return (row, class, members) for all members, in the order in which rows were filled; None: no domain of the level takes all.

        All are in one domain of the level (depth + 1: on one row), and of those in the smallest that takes them. allowed: a flag for each
        domain, or row: 0 for those of the level that do not come into question. O(domains + rows).
        """
