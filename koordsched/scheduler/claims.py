"""Claims: the room that is kept on nodes for nominated pods, as columns.

Thousands of pods may be nominated at once, and every pod that is tried must leave them their room. Where room is all that counts, this
compares amounts for all nodes in one call; nodes with a nominated pod that means more than less room are `odd`, and asked one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from koordsched._core.occupancy import Occupancy
from koordsched.framework.row_refusals import Rows
from koordsched.framework.simulation import takes_only_room

if TYPE_CHECKING:
    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.queue.nominator import Nominator


class Claims:
    """Follows the nominations."""

    def __init__(self, cache: Cache, nominator: Nominator) -> None:
        self._odd: dict[str, int] = {}  # node -> nominated pods that take more than room, > 0
        self._cache = cache
        self._nominator = nominator
        self._occupancy = Occupancy(cache.table)
        self._existence = cache.table.existence
        self._generation = cache.columns.generation
        nominator.follow(self)

    def rows(self) -> Rows:
        """Return the rows of all nodes that pods are nominated for."""
        self._follow_nodes()
        return self._occupancy.claimed_rows()

    def is_odd(self, rows: Rows) -> NDArray[np.bool_]:
        """Answer for each row whether some nominated pod takes more than room there."""
        found = [node.row for node in map(self._cache.node, self._odd) if node is not None]
        return np.isin(rows, found) if found else np.zeros(len(rows), np.bool_)

    def shortages(self, rows: Rows, pod: PodInfo, request: Request) -> NDArray[np.int32]:
        """Return per row 0, or the code of NodeResourcesFit's refusal if all pods nominated before this one were there already."""
        self._follow_nodes()
        return self._occupancy.shortages(rows, pod.priority, request, self._nominator.get(pod.uid))

    # NominationFollower

    def nominated(self, pod: PodInfo, node: str) -> None:
        if not takes_only_room(pod):
            self._odd[node] = self._odd.get(node, 0) + 1
        found = self._cache.node(node)
        if found is not None:
            self._occupancy.claim(found.row, pod, pod.priority, self._cache.columns.request(pod.resources))

    def withdrawn(self, pod: PodInfo, node: str) -> None:
        if not takes_only_room(pod):
            self._odd[node] -= 1
            if not self._odd[node]:
                del self._odd[node]
        found = self._cache.node(node)
        if found is not None and self._occupancy.holds(found.row, pod):
            self._occupancy.remove(found.row, pod)

    def _follow_nodes(self) -> None:
        """Find the rows of all nominated nodes again if nodes have come or gone, and what they ask for if resources have."""
        table, columns = self._cache.table, self._cache.columns
        if self._existence == table.existence and self._generation == columns.generation:
            return
        self._existence, self._generation = table.existence, columns.generation
        self._occupancy.clear()
        for name, pods in self._nominator.nodes.items():
            found = self._cache.node(name)
            if found is None:
                continue
            for pod in pods.values():
                self._occupancy.claim(found.row, pod, pod.priority, self._cache.columns.request(pod.resources))
