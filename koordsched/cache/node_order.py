"""The order in which the reference walks nodes: round robin over zones, arrival order inside a zone (framework.md §4).

It matters only when an operator asks for sampling (`percentageOfNodesToScore` 1..99): then it decides which nodes are looked at first.
Kept as names per zone, O(1) per node event; the row array is made when somebody asks.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koordsched.api.core import Node
    from koordsched.cache.nodes import NodeInfo

ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")  # the beta label wins
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_of(node: Node) -> tuple[str, str]:
    """Return (region, zone); empty strings where the labels are missing."""
    labels = node.metadata.labels
    region = labels.get(REGION_LABELS[0]) or labels.get(REGION_LABELS[1], "")
    zone = labels.get(ZONE_LABELS[0]) or labels.get(ZONE_LABELS[1], "")
    return region, zone


class NodeOrder:
    """Live nodes by zone."""

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
