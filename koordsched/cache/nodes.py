"""Nodes as plugins see them: `NodeInfo`, one node with its pods, `Nodes`, a selection of rows of the node table, and their `NodeOrder`."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koordsched._core.table import NodeTable
    from koordsched.api.core import Node
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.columns import Columns


class NodeInfo:
    """One node and the pods on it (bound and assumed). `node` is None while only its pods are known (a ghost).

    `shares_row`: the node is known from bound pods alone so far, and `row` is that of all such nodes; no amounts are counted there.
    """

    __slots__ = ("_columns", "counted", "hidden", "name", "node", "row", "shares_row")

    def __init__(self, name: str, row: int, columns: Columns, *, shares_row: bool = False) -> None:
        self.name = name
        self.row = row
        self.shares_row = shares_row
        self.node: Node | None = None
        self.counted: dict[str, PodInfo] = {}  # by uid: the pods on the node, those that a view hides too
        self.hidden: frozenset[str] | None = None  # those that a view hides (`cache.credits`); None outside of views
        self._columns = columns

    @property
    def pods(self) -> dict[str, PodInfo]:
        """Return the pods on the node by uid, without those that a view hides."""
        hidden = self.hidden
        return self.counted if hidden is None else {uid: pod for uid, pod in self.counted.items() if uid not in hidden}

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


ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")  # the beta label wins
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_of(node: Node) -> tuple[str, str]:
    """Return (region, zone); empty strings where the labels are missing."""
    labels = node.metadata.labels
    region = labels.get(REGION_LABELS[0]) or labels.get(REGION_LABELS[1], "")
    zone = labels.get(ZONE_LABELS[0]) or labels.get(ZONE_LABELS[1], "")
    return region, zone


class NodeOrder:
    """The order in which the reference walks nodes: round robin over zones, arrival order inside a zone (framework.md §4).

    It matters only when an operator asks for sampling (`percentageOfNodesToScore` 1..99): then it decides which nodes are looked at first.
    Kept as names per zone, O(1) per node event; the row array is made when it is asked for.
    """

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[int, None]] = {}  # zone -> rows in arrival order
        self._zone_of_row: dict[int, tuple[str, str]] = {}
        self._rows: NDArray[np.int32] | None = None

    def put(self, info: NodeInfo, node: Node) -> None:
        """Add the node, or move it to the end of its new zone if its zone changed."""
        zone = zone_of(node)
        if self._zone_of_row.get(info.row) == zone:
            return
        self.drop(info)
        self._zones.setdefault(zone, {})[info.row] = None
        self._zone_of_row[info.row] = zone
        self._rows = None

    def drop(self, info: NodeInfo) -> None:
        zone = self._zone_of_row.pop(info.row, None)
        if zone is None:
            return
        rows = self._zones[zone]
        del rows[info.row]
        if not rows:
            del self._zones[zone]
        self._rows = None

    def has(self, row: int) -> bool:
        """Answer whether the row has a place in the order."""
        return row in self._zone_of_row

    def rows(self) -> NDArray[np.int32]:
        """Return all rows in order. O(nodes) after a node came, went or moved, O(1) otherwise."""
        if self._rows is None:
            turns = zip_longest(*self._zones.values(), fillvalue=-1)
            self._rows = np.fromiter((row for turn in turns for row in turn if row >= 0), np.int32, len(self._zone_of_row))
        return self._rows
