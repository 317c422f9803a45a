"""Nodes as plugins see them: `NodeInfo`, one node with its pods, and `Nodes`, a selection of rows of the node table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from koordsched._core.table import NodeTable
    from koordsched.api.core import Node
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.columns import Columns


class NodeInfo:
    """One node and the pods on it (bound and assumed). `node` is None while only its pods are known (a ghost).

    `shares_row`: nothing but bound pods has told of the node so far, and `row` is that of all such nodes; no amounts are counted there.
    """

    __slots__ = ("_columns", "name", "node", "pods", "row", "shares_row")

    def __init__(self, name: str, row: int, columns: Columns, *, shares_row: bool = False) -> None:
        self.name = name
        self.row = row
        self.shares_row = shares_row
        self.node: Node | None = None
        self.pods: dict[str, PodInfo] = {}  # by uid
        self._columns = columns

    def allocatable(self, resource: str) -> int:
        """Return the allocatable amount: milli-cores for cpu, whole units otherwise; 0 when the node does not offer it."""
        found = self._columns.resources.get(resource)
        return 0 if found is None else self._columns.table.allocatable_of(self.row, found)

    def requested(self, resource: str) -> int:
        """Return what the node's pods request of the resource, in the same units. O(pods) for one that no node offers."""
        found = self._columns.resources.get(resource)
        if found is not None and not self.shares_row:
            return self._columns.table.requested_of(self.row, found)
        if resource == "pods":
            return len(self.pods)
        return sum(pod.resources.requests.get(resource, 0) for pod in self.pods.values())


class Nodes:
    """The rows a plugin is asked about: ascending for a full evaluation, in any order for a partial one. Valid during the call only."""

    __slots__ = ("_infos", "columns", "rows", "table")

    def __init__(self, columns: Columns, infos: list[NodeInfo | None], rows: NDArray[np.int32]) -> None:
        self.columns = columns
        self.table: NodeTable = columns.table
        self.rows = rows
        self._infos = infos

    def __len__(self) -> int:
        return len(self.rows)

    def info(self, row: int) -> NodeInfo:
        """Return the node of a row; LookupError when the row is free."""
        found = self._infos[row]
        if found is None:
            raise LookupError(f"row {row} holds no node")
        return found

    def select(self, rows: NDArray[np.int32]) -> Nodes:
        return Nodes(self.columns, self._infos, rows)
