"""Cache: the nodes and the pods counted on them, assumed ones included (framework.md §4).

    (pending) --assume--> ASSUMED --add (seen bound)--> ADDED --remove--> (gone)
                             |                            ^
                             +--forget--> (pending)       +-- add (bound by another scheduler, or at start)

Assumed pods never expire: they leave by being seen bound, by forget, or by deletion. A pod may arrive before its node and stay after it:
the row is then a ghost, counted but never offered. A client may bind pods to nodes that do not exist, so all nodes that are known from
bound pods alone share one row, on which no amounts are counted; such a node gets a row of its own when it appears.

Called from informers' handlers and the scheduling cycle, on one thread, never across an await. Every method is O(facts of one object), but
for a node that is the first to offer a resource: then all pods are looked at.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import msgspec

from koordsched._core.change import ChangeKinds, NodeChange
from koordsched._core.view import locate, row_views, rows_of_pods
from koordsched.api.resources import node_allocatable
from koordsched.cache.columns import Columns
from koordsched.cache.credits import Credits
from koordsched.cache.nodes import NodeInfo, NodeOrder, Nodes
from koordsched.cache.plugin_state import Shared, Signatures
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from koordsched._core.table import Request
    from koordsched._core.view import Part, RowView
    from koordsched.api.core import Node
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.plugin_state import CheckedState, PodFollower

log = get_logger(__name__)

OBJECT = int(NodeChange.OBJECT)
USAGE = int(NodeChange.USAGE)

NO_ROW = -1


class CacheError(Exception):
    """The scheduler asked for a transition that the pod's state does not allow: a bug of ours or a very late event."""


class PodState(msgspec.Struct, eq=False, gc=False):
    """Where a pod is counted. `request` is kept because what was added must be subtracted, whatever the pod looks like later."""

    info: PodInfo
    node: NodeInfo
    request: Request
    assumed: bool


class Cache:
    """The nodes and the pods on them, assumed ones included."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.shared = Shared()
        self.table = self.columns.table
        self.change_kinds = ChangeKinds()  # of the table's log: plugins register theirs
        self.order = NodeOrder()
        self.infos: list[NodeInfo | None] = []  # by row
        self.nodes_by_name: dict[str, NodeInfo] = {}
        self.pods: dict[str, PodState] = {}  # by uid
        self.assumed_count = 0
        self.simulating = False  # inside `simulate`, and while a view begins or ends
        self._followers: list[PodFollower] = []
        self._hiding: list[PodFollower] = []  # those that views change
        self.checked: list[CheckedState] = []  # what plugins keep, to be compared with the objects now and then
        self.signatures = Signatures()
        self.credits = Credits(self)
        self.columns.call_when_renewed(self.credits.forget_compiled)
        self._sized: dict[str, PodInfo] = {}  # by uid: pods of the cluster that are counted with other amounts than they request
        self._unknown_row = NO_ROW  # of nodes that are known from bound pods alone; NO_ROW while there is none
        self._unknown = 0  # how many these are
        self.columns.recount_with(self._recount)
        self.repairs = 0  # times an event contradicted the cache (koord_scheduler_cache_repairs_total)

    # Reading

    def nodes(self) -> Nodes:
        """Return all live nodes."""
        return self.select(self.table.live_rows())

    def select(self, rows: NDArray[np.int32]) -> Nodes:
        return Nodes(self.columns, self.infos, rows)

    def node(self, name: str) -> NodeInfo | None:
        """Return the live node of that name."""
        found = self.nodes_by_name.get(name)
        return found if found is not None and found.node is not None else None

    def is_assumed(self, uid: str) -> bool:
        state = self.pods.get(uid)
        return state is not None and state.assumed

    def follow(self, follower: PodFollower, *, replay: bool = True) -> None:
        """Report every pod that is counted, and every change from now on, to the follower. replay: no, changes alone."""
        self._followers.append(follower)
        for state in self.pods.values() if replay else ():
            follower.pod_added(state.info, state.node.row)
        if follower.hides:
            self._hiding.append(follower)
            self._hide_from(follower)

    def _hide_from(self, follower: PodFollower) -> None:
        """Hide from a follower that has just begun to follow what the view hides that is shown now; all other views are compiled anew."""
        self.credits.forget_compiled(but=self.credits.shown)
        simulating, self.simulating = self.simulating, True
        shown = {row.row: row for row in (() if self.credits.shown is None else self.credits.shown.rows())}
        for number, part in follower.without({number: [self.pods[uid].info for uid in row.uids] for number, row in shown.items()}):
            shown[number].add(part)
            part.hide()
        self.simulating = simulating

    # Nodes

    def set_node(self, node: Node) -> None:
        """Add the node or replace what is known of it. QuantityError when its allocatable cannot be read: nothing is changed then."""
        allocatable = node_allocatable(node)
        info = self._node_entry(node.metadata.name)
        self.order.put(info, node)
        self.columns.write_node(info.row, info.node, node, allocatable)
        if info.node is not None and _looks_different(info.node, node):
            self.table.mark(info.row, OBJECT)
        info.node = node

    def remove_node(self, name: str) -> None:
        """Forget the node; its pods stay counted on a ghost until their own deletions arrive."""
        info = self.nodes_by_name.get(name)
        if info is None or info.node is None:
            return
        self.columns.clear_node(info.row, info.node)
        self.order.drop(info)
        info.node = None
        self._release_if_empty(info)

    def _node_entry(self, name: str) -> NodeInfo:
        """Return the node with a row of its own."""
        info = self.nodes_by_name.get(name)
        if info is None:
            info = self.nodes_by_name[name] = NodeInfo(name, self.table.acquire_row(), self.columns)
            self._set_info(info.row, info)
        elif info.shares_row:
            self._give_row(info)
        return info

    def _unknown_entry(self, name: str) -> NodeInfo:
        """Return the node, which may share its row with others of which nothing but pods is known."""
        info = self.nodes_by_name.get(name)
        if info is None:
            if self._unknown_row == NO_ROW:
                self._unknown_row = self.table.acquire_row()
                self._set_info(self._unknown_row, None)
            self._unknown += 1
            info = self.nodes_by_name[name] = NodeInfo(name, self._unknown_row, self.columns, shares_row=True)
        return info

    def _set_info(self, row: int, info: NodeInfo | None) -> None:
        if row == len(self.infos):
            self.infos.append(info)
        else:
            self.infos[row] = info

    def _give_row(self, info: NodeInfo) -> None:
        """Count the pods of a node that shared its row on a row of its own."""
        old, info.row, info.shares_row = info.row, self.table.acquire_row(), False
        self._set_info(info.row, info)
        for pod in info.counted.values():
            self._count(info, pod, self.pods[pod.uid].request)
            for follower in self._followers:
                follower.pod_moved(pod, old, info.row)
        self._leave_unknown_row()

    def _leave_unknown_row(self) -> None:
        self._unknown -= 1
        if not self._unknown:
            self.table.release_row(self._unknown_row)
            self._unknown_row = NO_ROW

    def _release_if_empty(self, info: NodeInfo) -> None:
        if info.node is not None or info.counted:
            return
        del self.nodes_by_name[info.name]
        if info.shares_row:
            self._leave_unknown_row()
        else:
            self.infos[info.row] = None
            self.table.release_row(info.row)

    def _recount(self, resources: Collection[str]) -> None:
        """Count again what pods request after resources got a column, or before they lose theirs (`Columns.recount_with`)."""
        names = set(resources)
        for state in self.pods.values():
            if names.isdisjoint(state.info.resources.requests):
                continue
            request = self.columns.request(state.info.resources)
            if not state.node.shares_row:
                self.table.subtract(state.node.row, state.request)
                self.table.add(state.node.row, request)
            state.request = request

    # Pods

    def assume_pod(self, info: PodInfo, node_name: str) -> None:
        """Count the pod on the node before the cluster knows. CacheError when it is counted already."""
        if info.uid in self.pods:
            raise CacheError(f"pod {info.uid}({info.key}) is in the cache, so can't be assumed")
        self._put(info, node_name, assumed=True)

    def forget_pod(self, uid: str) -> None:
        """Take back an assumption. CacheError when the pod is not assumed."""
        state = self.pods.get(uid)
        if state is None or not state.assumed:
            raise CacheError(f"pod {uid} is not assumed, so can't be forgotten")
        self._take(uid, state)

    def set_pod(self, info: PodInfo, node_name: str) -> None:
        """Count a pod that the cluster shows bound to node_name: an assumed one is confirmed, a changed one replaced."""
        if self._sized and info.uid in self._sized:
            info = self._sized[info.uid].with_pod(info.pod)
        state = self.pods.get(info.uid)
        if state is not None:
            if state.node.name != node_name and not state.assumed:
                # The reference exits here; what the cluster says is right, so it is taken over and logged.
                self.repairs += 1
                log.error("pod moved to another node", pod=info.key, uid=info.uid, believed=state.node.name, node=node_name)
            if state.node.name == node_name and state.info.resources == info.resources and state.info.ports == info.ports:
                self._replace(state, info)
                return
            self._take(info.uid, state)
        self._put(info, node_name, assumed=False)

    def resize_pod(self, info: PodInfo) -> None:
        """Count a reserve pod by other amounts or ports from now on, assumed or not. Followers hear nothing: they keep neither of it."""
        state = self.pods[info.uid]
        node, before = state.node, state.info
        if not node.shares_row:
            self.table.subtract(node.row, state.request)
            if before.ports:
                self.columns.host_ports.free(node.row, before.ports)
        state.info, state.request = info, self.columns.request(info.resources)
        self._count(node, info, state.request)
        node.counted[info.uid] = info

    def size_pod(self, info: PodInfo, node_name: str) -> None:
        """Count a pod of the cluster by these amounts and ports, also when it is seen changed, until `unsize_pod`."""
        self._sized[info.uid] = info
        self.set_pod(info, node_name)

    def unsize_pod(self, uid: str) -> None:
        """Let the pod be counted by what it requests from the next change of it on."""
        self._sized.pop(uid, None)

    def sized_pod(self, uid: str) -> PodInfo | None:
        """Return by what a pod is counted instead of what it requests; None: it is counted by that."""
        return self._sized.get(uid)

    def remove_pod(self, uid: str) -> None:
        self._sized.pop(uid, None)
        state = self.pods.get(uid)
        if state is not None:
            self._take(uid, state)

    def _replace(self, state: PodState, info: PodInfo) -> None:
        """Take over a newer state of a pod that uses what it used."""
        before = state.info
        state.info = info
        state.node.counted[info.uid] = info
        if state.assumed:
            state.assumed = False
            self.assumed_count -= 1
        if before.pod.metadata.labels != info.pod.metadata.labels or before.pod.metadata.annotations != info.pod.metadata.annotations:
            self.table.mark(state.node.row, USAGE)  # plugins that look at a node's pods may see a difference
        else:
            self.table.touch(state.node.row)
        for follower in self._followers:
            follower.pod_replaced(before, info, state.node.row)

    def _put(self, info: PodInfo, node_name: str, *, assumed: bool) -> None:
        from_pod = not assumed and info.pod.spec.node_name == node_name
        node = self._unknown_entry(node_name) if from_pod else self._node_entry(node_name)
        request = self.columns.request(info.resources)
        self._count(node, info, request)
        node.counted[info.uid] = info
        self.pods[info.uid] = PodState(info, node, request, assumed)
        self.assumed_count += assumed
        for follower in self._followers:
            follower.pod_added(info, node.row)

    def _count(self, node: NodeInfo, pod: PodInfo, request: Request) -> None:
        """Count what a pod uses on the node's row, unless it is that of unknown nodes."""
        if not node.shares_row:
            self.table.add(node.row, request)
            if pod.ports:
                self.columns.host_ports.use(node.row, pod.ports)

    def _take(self, uid: str, state: PodState) -> None:
        node = state.node
        if not node.shares_row:
            self.table.subtract(node.row, state.request)
            if state.info.ports:
                self.columns.host_ports.free(node.row, state.info.ports)
        del node.counted[uid], self.pods[uid]
        self.assumed_count -= state.assumed
        for follower in self._followers:
            follower.pod_removed(state.info, node.row)
        self._release_if_empty(node)

    @contextmanager
    def simulate(self, node: NodeInfo, add: Iterable[PodInfo] = (), remove: Iterable[PodInfo] = ()) -> Iterator[None]:
        """Count these pods on the node, and those of its pods not, while the block runs. Nothing may be evaluated and kept inside.

        What followers know is true inside; columns change without being logged. Blocks may be nested. A pod that is not there is not
        removed: an extender that was awaited may name pods twice, or pods that have gone meanwhile.
        """
        come, going = list(add), dict.fromkeys(pod.uid for pod in remove if pod.uid in node.pods)
        gone: list[PodInfo] = []  # as they were counted: a placeholder holds more once a pod that draws on it has gone
        there = dict(node.counted)
        outer, self.simulating = self.simulating, True
        self.table.touch(node.row)  # an owner's view that begins inside hides what there is then
        try:
            for uid in going:
                gone.append(node.counted[uid])
                self._take_quietly(node, gone[-1])
            for pod in come:
                self._put_quietly(node, pod)
            yield
        finally:
            for pod in reversed(come):
                self._take_quietly(node, pod)
            for pod in reversed(gone):
                self._put_quietly(node, pod)
            for pod in come:
                self.columns.host_ports.forget_unused(pod.ports)
            node.counted.clear()
            node.counted.update(there)  # in the order in which they were
            self.table.touch(node.row)
            self.simulating = outer

    def resize_quietly(self, info: PodInfo) -> None:
        """Count a pod by other amounts or ports within a simulation, whose end does so again with the former ones.

        Nothing is done while a view hides the pod. One that the simulation has removed is not counted before its end.
        """
        state = self.pods[info.uid]
        node = state.node
        if node.hidden is not None and info.uid in node.hidden:
            return
        if info.uid not in node.counted:
            state.info, state.request = info, self.columns.request(info.resources)
            return
        self._take_quietly(node, state.info)
        state.info, state.request = info, self.columns.request(info.resources)
        self._put_quietly(node, info)
        self.table.touch(node.row)

    def view(self, owner: Hashable) -> AbstractContextManager[None]:
        """Return what shows the nodes as the owner sees them: its placeholders are not there (`credits`). O(placeholders) to enter.

        ValueError within the view of another owner.
        """
        found, shown = self.credits.of(owner), self.credits.shown
        if found is not None:
            return found
        if shown is not None:
            raise ValueError(f"the view of {owner!r} was asked for within that of {shown.owner!r}")
        return nullcontext()

    @property
    def shows_all(self) -> bool:
        """Whether what the cache shows is what there is: no simulation, and no view of an owner."""
        return not self.simulating and self.credits.shown is None

    def hidden_pods(self) -> Iterator[tuple[PodInfo, int]]:
        """Yield the pods that the view hides which is shown now, with their rows."""
        shown = self.credits.shown
        for row in () if shown is None else shown.rows():
            for uid in row.uids:
                yield self.pods[uid].info, row.row

    def holds_amounts_alone(self, uid: str) -> bool:
        """Answer whether a pod that is counted on a row holds nothing there but amounts; plugins that name versions may count it, too."""
        state = self.pods[uid]
        pod, row = state.info, state.node.row
        return not pod.ports and all(follower.counts_alone(pod, row) for follower in self._hiding)

    # CountedPods, for views

    def row_of(self, uid: str) -> int | None:
        state = self.pods.get(uid)
        return None if state is None or state.node.shares_row or uid not in state.node.counted else state.node.row

    def rows_of(self, uids: Collection[str]) -> NDArray[np.int32]:
        """Return `row_of` each of these pods, -1 for None."""
        return rows_of_pods(self.pods, uids)

    def locate(self, uids: Iterable[str]) -> tuple[dict[int, list[PodState]], list[str]]:
        return locate(self.pods, uids)

    def rows_without(self, states: dict[int, list[PodState]]) -> list[RowView]:
        pods = {row: [state.info for state in of_row] for row, of_row in states.items()}
        parts: dict[int, list[Part]] = {}
        bits: dict[int, list[int]] = {}
        for row in dict.fromkeys([row for row, of_row in pods.items() for pod in of_row if pod.ports]):
            bits[row], parts[row] = self.columns.host_ports.without(row, [pod.ports for pod in pods[row] if pod.ports])
        for follower in self._hiding:
            for row, part in follower.without(pods):
                parts.setdefault(row, []).append(part)
        return row_views(self.table, states, bits, parts)

    def _put_quietly(self, node: NodeInfo, pod: PodInfo) -> None:
        self.table.add_quietly(node.row, self.columns.request(pod.resources))
        if pod.ports:
            self.columns.host_ports.use(node.row, pod.ports, quietly=True)
        node.counted[pod.uid] = pod
        for follower in self._followers:
            follower.pod_added(pod, node.row)

    def _take_quietly(self, node: NodeInfo, pod: PodInfo) -> None:
        self.table.subtract_quietly(node.row, self.columns.request(pod.resources))
        if pod.ports:
            self.columns.host_ports.free(node.row, pod.ports, quietly=True)
        del node.counted[pod.uid]
        for follower in self._followers:
            follower.pod_removed(pod, node.row)

    # Mending

    def rewrite(self, name: str) -> None:
        """Write a row anew from the node and the pods that are kept of it, because its columns were found wrong. Followers hear nothing."""
        info = self.nodes_by_name[name]
        if not info.shares_row:
            self.order.drop(info)
            self.columns.erase(info.row, info.node)
        for uid, state in list(self.pods.items()):
            if state.node is info and uid not in info.counted:
                del self.pods[uid]
        for uid, pod in list(info.counted.items()):
            before = self.pods.get(uid)
            if before is not None and before.node is not info:  # counted elsewhere
                del info.counted[uid]
                continue
            request = self.columns.request(pod.resources)
            self.pods[uid] = PodState(pod, info, request, before is not None and before.assumed)
            self._count(info, pod, request)
        self.assumed_count = sum(state.assumed for state in self.pods.values())
        if info.node is not None:  # after the pods, which may have to be counted again for its resources
            self.order.put(info, info.node)
            self.columns.write_node(info.row, None, info.node, node_allocatable(info.node))
        self._release_if_empty(info)


def _looks_different(old: Node, new: Node) -> bool:
    """Answer whether anything changed that no column holds but a plugin may read from the object; heartbeats do not count."""
    return (
        old.metadata.annotations != new.metadata.annotations
        or old.metadata.uid != new.metadata.uid
        or old.status.conditions != new.status.conditions
    )
