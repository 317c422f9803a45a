"""Nominations: pending pods for which preemption makes room on a node (framework.md §3.4).

A nomination is made here when preemption decides, before it is written to the API server, so that the pods tried right after do not take
the room. Filters count a nominated pod against pods of the same or lower priority. Thousands of pods may be nominated at once, and each
pod that is tried must leave them their room: where amounts alone decide, `by_row` compares them for all nodes in one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.pod_index import PodIndex

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache

NO_ROW = -1


class Nomination:
    """A pod, the node that it is nominated for, and that node's row; NO_ROW: there is no such node (yet)."""

    __slots__ = ("node", "pod", "row")

    def __init__(self, pod: PodInfo, node: str) -> None:
        self.pod = pod
        self.node = node
        self.row = NO_ROW


class Nominator:
    """The nominations by pod, by node and by row of the node table."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.nominations: dict[str, Nomination] = {}  # by uid; to be read only
        self.version = 0  # counts changes
        self._nodes: dict[str, dict[str, PodInfo]] = {}  # node -> uid -> pod, in order of nomination; no empty entries
        self._beyond_amounts: dict[str, Nomination] = {}  # by uid: of pods that mean more to others than amounts
        self._index = PodIndex(cache.table)  # each pod on its nomination's row
        self._existence = cache.table.existence
        self._generation = cache.columns.generation

    # By pod and by node

    def __contains__(self, uid: str) -> bool:
        return uid in self.nominations

    def __len__(self) -> int:
        return len(self.nominations)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, PodInfo]]:
        """All nominations: node -> uid -> pod. Do not change."""
        return self._nodes

    def node_of(self, uid: str) -> str:
        """Return the node that the pod is nominated for, "" for none."""
        nomination = self.nominations.get(uid)
        return "" if nomination is None else nomination.node

    def pods_on(self, node: str) -> list[PodInfo]:
        """Return the pods nominated for the node, in order of nomination."""
        return list(self._nodes.get(node, {}).values())

    def ahead(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Return the other pods nominated for the node that count for this pod: those of its priority or higher."""
        pods = self._nodes.get(node)
        if pods is None:
            return []
        return [other for uid, other in pods.items() if uid != pod.uid and other.priority >= pod.priority]

    # By row

    def by_row(self) -> PodIndex:
        """Return the nominated pods by row, as of now. Do not change."""
        table, columns = self._cache.table, self._cache.columns
        if self._existence != table.existence or self._generation != columns.generation:
            if self._generation != columns.generation:  # the ids of resources are others
                self._index.clear()
                for nomination in self.nominations.values():
                    nomination.row = NO_ROW
            self._existence, self._generation = table.existence, columns.generation
            for nomination in self.nominations.values():
                self._follow_node(nomination)
        return self._index

    def row_of(self, uid: str) -> int:
        """Return the row that the pod is nominated for, NO_ROW for none. To be asked after `by_row`."""
        nomination = self.nominations.get(uid)
        return NO_ROW if nomination is None else nomination.row

    def rows_beyond_amounts(self) -> list[int]:
        """Return the rows where a nominated pod means more to others than amounts. To be asked after `by_row`; a row may come twice."""
        return [nomination.row for nomination in self._beyond_amounts.values() if nomination.row != NO_ROW]

    def shortages(self, rows: NDArray[np.int32], pod: PodInfo, request: Request) -> NDArray[np.int32]:
        """Return per row 0, or the code of NodeResourcesFit's refusal if all pods nominated before this one were there already."""
        own = self.nominations.get(pod.uid)
        return self.by_row().shortages(rows, pod.priority, request, None if own is None else own.pod)

    # Changes

    def set(self, pod: PodInfo, node: str) -> None:
        """Nominate the pod for the node instead of any other; "" withdraws. The pod must exist and not be bound."""
        if self.nominations:
            self.remove(pod.uid)
        if node:
            self.version += 1
            nomination = self.nominations[pod.uid] = Nomination(pod, node)
            self._nodes.setdefault(node, {})[pod.uid] = pod
            if not takes_only_amounts(pod):
                self._beyond_amounts[pod.uid] = nomination
            self._follow_node(nomination)

    def remove(self, uid: str) -> None:
        """Withdraw the pod's nomination, if any."""
        nomination = self.nominations.pop(uid, None)
        if nomination is None:
            return
        self.version += 1
        pods = self._nodes[nomination.node]
        del pods[uid]
        if not pods:
            del self._nodes[nomination.node]
        self._beyond_amounts.pop(uid, None)
        if nomination.row != NO_ROW:
            self._index.remove(nomination.row, nomination.pod)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Follow a change of the pod. Where neither state names a node the nomination in memory stays: its write may be under way."""
        named = new.pod.status.nominated_node_name
        if not named and not old.pod.status.nominated_node_name:
            named = self.node_of(new.uid)
        self.set(new, named)

    def _follow_node(self, nomination: Nomination) -> None:
        """Move the nominated pod to the row that its node has now."""
        found = self._cache.node(nomination.node)
        row = NO_ROW if found is None else found.row
        if row == nomination.row:
            return
        pod = nomination.pod
        if nomination.row != NO_ROW:
            self._index.remove(nomination.row, pod)
        if row != NO_ROW:
            self._index.add(row, pod, pod.priority, self._cache.columns.request(pod.resources))
        nomination.row = row


def takes_only_amounts(pod: PodInfo) -> bool:
    """Answer whether a pod on a node means nothing to others but amounts: it has no affinity terms, ports, volumes or resource claims."""
    spec = pod.pod.spec
    return spec.affinity is None and not spec.volumes and not spec.resource_claims and not pod.ports
