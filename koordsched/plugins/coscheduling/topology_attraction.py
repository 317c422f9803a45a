"""Pods that attract others: those with the same value of `network-topology-selector` (coscheduling.md §4.5).

`SelectedPods` counts them by node. `rank_rows` orders the nodes that a pod may go to by how many there are, on the node and around it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from koordsched.api.koordinator.network_topology import TOPOLOGY_SELECTOR
from koordsched.cache.plugin_state import PodFollower
from koordsched.plugins.coscheduling.network_tree import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.interface import Rows, Scores
    from koordsched.plugins.coscheduling.network_tree import NetworkTree

NONE: Mapping[int, int] = {}


def selector_of(pod: PodInfo) -> str:
    """Return the value by which the pod attracts others and is attracted, "" for none."""
    annotations = pod.pod.metadata.annotations
    return annotations.get(TOPOLOGY_SELECTOR, "") if annotations else ""


class SelectedPods(PodFollower):
    """How many pods of each value run on each row. Follows the cache from the first question on."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._counts: dict[str, Counter[int]] = {}  # by value: pods by row, > 0
        self._versions: dict[str, int] = {}  # by value: the table's stamp at the last change that was not a simulation's
        self.version = 0
        """Another number after each change of any value's pods, as long as it is followed."""
        self._following = False

    def rows_of(self, value: str) -> Mapping[int, int]:
        """Return how many pods with this value are on each row that has any. Do not change. O(pods) for the first question of all."""
        self._follow()
        return self._counts.get(value, NONE)

    def version_of(self, value: str) -> int:
        """Return a number that is another one after each change of `rows_of`."""
        self._follow()
        return self._versions.get(value, 0)

    def _follow(self) -> None:
        if not self._following:
            self._following = True
            self._cache.follow(self)

    def _add(self, value: str, row: int, amount: int) -> None:
        if not value:
            return
        counts = self._counts.setdefault(value, Counter())
        counts[row] += amount
        if not counts[row]:
            del counts[row]
            if not counts:
                del self._counts[value]
        if self._cache.simulating:
            return
        self.version = self._cache.table.next_stamp()
        if value in self._counts:
            self._versions[value] = self.version
        else:
            self._versions.pop(value, None)

    def pod_added(self, pod: PodInfo, row: int) -> None:
        self._add(selector_of(pod), row, 1)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        self._add(selector_of(pod), row, -1)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        self.pod_removed(pod, old_row)
        self.pod_added(pod, row)

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if selector_of(old) != selector_of(new):
            self.pod_removed(old, row)
            self.pod_added(new, row)


def rank_rows(tree: NetworkTree, rows: Rows, existing: Mapping[int, int]) -> Scores:
    """Return the place of each row among these, from 0 for the best on (coscheduling.md §4.5). O(rows + domains, sorted).

    The order: more existing pods on the node, then in each domain that it is in, from below; then fewer of these rows in each domain; then
    the node's name. Rows outside of the tree come last.
    """
    arrays = tree.arrays
    counts, offered = np.zeros(arrays.rows, np.int64), np.zeros(arrays.rows, np.int64)
    for row, pods in existing.items():
        if row < arrays.rows:
            counts[row] = pods
    known = rows < arrays.rows
    offered[rows[known]] = 1
    lowest = np.full(len(rows), OUTSIDE, np.int32)
    lowest[known] = tree.row_domains[rows[known]]
    used, place = np.unique(lowest, return_inverse=True)
    keys: list[NDArray[np.int64]] = []  # of the domains in use, the most important last
    of_pods, of_rows = arrays.sums(counts), arrays.sums(offered)
    for column, sign in ((of_rows, 1), (of_pods, -1)):
        above = tree.ancestors(used)  # of each, from the root down
        keys += [np.where(domains == OUTSIDE, np.int64(1) << 40, sign * column[domains]) for domains in above]
    order = np.lexsort(keys)
    columns = np.array(keys)[:, order]
    differs = np.ones(len(used), np.int64)
    differs[0] = 0
    differs[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    domain_class = np.empty(len(used), np.int64)
    domain_class[order] = np.cumsum(differs)
    own = np.zeros(len(rows), np.int64)
    own[known] = counts[rows[known]]
    own[lowest == OUTSIDE] = 0
    best = np.lexsort((tree.name_ranks(rows), domain_class[place], -own, lowest == OUTSIDE))
    ranks = np.empty(len(rows), np.int64)
    ranks[best] = np.arange(len(rows))
    return ranks
