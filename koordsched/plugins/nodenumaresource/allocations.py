"""Who holds which CPUs and NUMA resources on every node, kept true to pods, nodes and topologies in any order (nodenumaresource.md §3).

The annotations of pods are the only store: a restart reads them again and comes to the same. An allocation lives as long as the cache
counts its pod, whatever becomes of the node and its topology meanwhile (D6). `NumaState.table` shows each change at once, and the row is
marked; what the cache only simulates (`Cache.simulating`) is shown too, but leaves no mark and is undone exactly. One state serves the
plugins of all profiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import Change
from koordsched._core.numa import NumaTable
from koordsched.api.koordinator.pods import RESOURCE_SPEC, RESOURCE_STATUS
from koordsched.api.koordinator.reading import Malformed
from koordsched.log import get_logger
from koordsched.plugins.nodenumaresource.checking import NumaCheck
from koordsched.plugins.nodenumaresource.topology import follow_topologies
from koordsched.plugins.nodenumaresource.usage import Allocation, NodeNuma, written_allocation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.koordinator.nodes import NodePolicy
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle
    from koordsched.plugins.nodenumaresource.options import TopologyOptions

OBJECT = int(Change.OBJECT)

log = get_logger(__name__)


class NumaState:
    """The allocations of all nodes. A `PodFollower`, and `topology.Described`."""

    def __init__(self, handle: Handle) -> None:
        self._cache = handle.cache
        self._resource = handle.columns.resource
        self._names = handle.columns.name_column.values  # held for every node of which something is known
        self.table = NumaTable(handle.cache.table, handle.columns.name_column.attribute)
        self._nodes: dict[str, NodeNuma] = {}
        self._where: dict[str, NodeNuma] = {}  # by uid: where the pod's allocation is
        self._aside: dict[str, Allocation] = {}  # by uid: of pods that the cache tries to do without
        self._pod_level = False
        follow_topologies(handle, self)
        handle.cache.follow(self)
        handle.cache.checked.append(NumaCheck(self, handle))

    # Reading

    @property
    def nodes(self) -> Mapping[str, NodeNuma]:
        """Return the nodes of which something is known."""
        return self._nodes

    @property
    def pod_level(self) -> bool:
        """Return whether kubelet's pod level policies count."""
        return self._pod_level

    def node(self, name: str) -> NodeNuma:
        """Return the node; one without topology and pods when nothing is known of it. Valid until something changes."""
        return self._nodes.get(name) or NodeNuma(name, self._names.ids.get(name, 0), self._resource)

    def allocation(self, uid: str) -> Allocation | None:
        """Return what the pod holds."""
        node = self._where.get(uid)
        return None if node is None else node.pods[uid]

    # Deciding

    def reserve(self, node_name: str, allocation: Allocation) -> None:
        """Let the pod hold this on the node, instead of what it held. Holding nothing is not remembered: no restart would know of it."""
        before = self._where.get(allocation.uid)
        if before is not None:
            if before.name == node_name and before.pods[allocation.uid] == allocation:
                return
            self._take(before, allocation.uid)
        if allocation.cpus or allocation.amounts:
            self._put(node_name, allocation)

    def release(self, uid: str) -> None:
        """Let the pod hold nothing; nothing happens if it does not."""
        node = self._where.get(uid)
        if node is not None:
            self._take(node, uid)

    def set_max_ref_count(self, name: str, count: int) -> None:
        """Let so many pods be bound to each CPU of the node from now on. Only code in the process can ask for it. ValueError below 1."""
        if count < 1:
            raise ValueError(f"node {name}: a CPU cannot be shared by {count} pods")
        node = self._entry(name)
        self._describe(node, node.options, node.policy, count)
        self._drop_unknown(node)

    def honour_pod_level(self) -> None:
        """Let kubelet's pod level policies count (D11). A node's policy is the same for all profiles: whoever asks for it asks for all."""
        if not self._pod_level:
            self._pod_level = True
            for node in self._nodes.values():
                self._show(node)

    # Pods

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if RESOURCE_STATUS in pod.pod.metadata.annotations or self._aside:
            self._added(pod, row)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        node = self._where.get(pod.uid)
        if node is not None:
            allocation = self._take(node, pod.uid)
            if self._cache.simulating:
                self._aside[pod.uid] = allocation

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """Allocations are kept by the names of nodes."""

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        after = new.pod.metadata.annotations
        if RESOURCE_STATUS not in after:
            return  # what was reserved for it holds until it goes
        before = old.pod.metadata.annotations
        same = before.get(RESOURCE_STATUS) == after[RESOURCE_STATUS] and before.get(RESOURCE_SPEC) == after.get(RESOURCE_SPEC)
        if not (same and old.pod.spec.node_name):  # else it has been read
            self._read(new, row)

    def _added(self, pod: PodInfo, row: int) -> None:
        if not self._cache.simulating:
            if pod.pod.spec.node_name:  # a pod that is only assumed may still say what an earlier attempt gave it, or what it wishes for
                self._read(pod, row)
        elif pod.uid in self._aside:
            self._put(self._name(row, pod), self._aside.pop(pod.uid))

    def _read(self, pod: PodInfo, row: int) -> None:
        """Account what the pod's annotations say; they are left alone when they cannot be read or say nothing."""
        try:
            written = written_allocation(pod)
        except Malformed as error:
            log.warning("what a pod was given cannot be read and is not counted", pod=pod.key, problem=str(error))
            return
        if written is not None:
            self.reserve(self._name(row, pod), written)

    def _name(self, row: int, pod: PodInfo) -> str:
        info = self._cache.infos[row]
        return pod.pod.spec.node_name if info is None else info.name  # the row of unknown nodes is that of no one of them

    # Nodes

    def set_options(self, name: str, options: TopologyOptions | None) -> None:
        node = self._entry(name)
        if node.options != options:  # koordlet writes what it wrote before every now and then
            self._describe(node, options, node.policy, node.max_ref_count)
        self._drop_unknown(node)

    def set_policy(self, name: str, policy: NodePolicy) -> None:
        node = self._entry(name)
        if node.policy != policy:
            self._describe(node, node.options, policy, node.max_ref_count)
        self._drop_unknown(node)

    def _describe(self, node: NodeNuma, options: TopologyOptions | None, policy: NodePolicy, max_ref_count: int) -> None:
        node.describe(options, policy, max_ref_count)
        self._show(node)

    def _entry(self, name: str) -> NodeNuma:
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = NodeNuma(name, self._names.hold(name), self._resource)
            self.table.clear_node(found.index)
        return found

    def _drop_unknown(self, node: NodeNuma) -> None:
        if node.unknown and self._nodes.pop(node.name, None) is not None:
            self.table.clear_node(node.index)
            self._names.release(node.index)

    # Mending

    def location(self, uid: str) -> str:
        """Return the node on which the pod's allocation is accounted, "" for none."""
        node = self._where.get(uid)
        return "" if node is None else node.name

    def rebuild(self, name: str, described: tuple[TopologyOptions | None, NodePolicy], allocations: Iterable[Allocation]) -> None:
        """Forget all that is kept of a node, whatever it is, and account these allocations to what it is described as."""
        old = self._nodes.pop(name, None)
        for uid in [uid for uid, node in self._where.items() if node.name == name]:
            del self._where[uid]
        node = self._entry(name)
        if old is not None:
            self._names.release(old.index)
        self._describe(node, *described, 1 if old is None else old.max_ref_count)
        for allocation in allocations:
            self.release(allocation.uid)
            self._put(name, allocation)
        self._drop_unknown(node)

    # Changes

    def _put(self, name: str, allocation: Allocation) -> None:
        node = self._entry(name)
        node.put(allocation)
        self._where[allocation.uid] = node
        self._show_usage(node)

    def _take(self, node: NodeNuma, uid: str) -> Allocation:
        allocation = node.take(uid)
        del self._where[uid]
        self._show_usage(node)
        self._drop_unknown(node)
        return allocation

    def _show(self, node: NodeNuma) -> None:
        """Bring all of the node into the table."""
        self.table.set_node(node.index, node.facts(pod_level=self._pod_level))
        self._show_usage(node)

    def _show_usage(self, node: NodeNuma) -> None:
        self.table.set_usage(node.index, node.usage())
        if not self._cache.simulating:
            info = self._cache.nodes_by_name.get(node.name)
            if info is not None:
                self._cache.table.mark(info.row, OBJECT)


def numa_state(handle: Handle) -> NumaState:
    """Return the state that all plugins on this cache share. To be called while the plugin is made."""
    return handle.cache.shared.one(NumaState, lambda: NumaState(handle))
