"""The cluster's network topology: the tree of the ClusterNetworkTopology named `default`, and its status (coscheduling.md §7.1).

The tree follows the nodes: what was added, relabelled or deleted is taken in when the event loop comes to it, some nodes at a time, or when
the tree is asked for. Layers that make no tree are reported once, on the object and in the log, and the tree before stays; so it does when
the object is deleted. Only with `--enable-network-topology-manager`, which Koordinator's chart sets.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import CLUSTER_NETWORK_TOPOLOGY, NODE
from koordsched.api.koordinator.gangs import NetworkDomain, NetworkDomainStatus
from koordsched.cluster.event_series import EventText
from koordsched.cluster.port import NotFound, Patch, Ref
from koordsched.framework.controllers import WorkQueue
from koordsched.log import get_logger
from koordsched.plugins.coscheduling.network_tree import LayerError, NetworkTree, layers_of
from koordsched.queue.events import ActionType, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Node
    from koordsched.api.koordinator.gangs import ClusterNetworkTopology
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

OBJECT = "default"
NODES_AT_ONCE = 500  # 2 to 4 ms of the event loop (bench/bench_topology.py)
PROBLEM_EVENT = "InvalidTopology"
TOPOLOGY_CHANGED = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "clusternetworktopologies.coscheduling")
"""There is another tree than before."""


class NetworkTopology:
    """The tree, one for all profiles."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._cache = handle.cache
        self._tree: NetworkTree | None = None
        self._rows: dict[str, int] = {}  # by node name: its row in the tree
        self._stale: set[str] = set()  # names of nodes that have changed
        self._due = False  # whether a call that takes them in is under way
        self.problem = ""
        """Why the layers that the object has now make no tree, "" if they do."""
        self._generation = 0  # counts trees
        self._work: WorkQueue[str] = WorkQueue("status of the ClusterNetworkTopology")
        self._nodes: Mapping[str, Node] = {}
        self._objects: Mapping[str, ClusterNetworkTopology] = {}
        self.enabled = handle.flags.enable_network_topology_manager
        if self.enabled:
            self._nodes = handle.informer(NODE).store
            self._objects = handle.informer(CLUSTER_NETWORK_TOPOLOGY).store
            handle.informer(NODE).add_handler(_NodeHandler(self))
            handle.informer(CLUSTER_NETWORK_TOPOLOGY).add_handler(_TopologyHandler(self))

    @property
    def tree(self) -> NetworkTree | None:
        """The tree as of now, None where there is none. O(nodes that have changed)."""
        if self._stale and self._tree is not None:
            stale, self._stale = self._stale, set()
            self._take_in(self._tree, stale)
        return self._tree

    def _take_in_some(self) -> None:
        """Take in some of the nodes that have changed, and the others later."""
        some = set(islice(self._stale, NODES_AT_ONCE))
        self._stale -= some
        if self._tree is not None:
            self._take_in(self._tree, some)
        self._due = bool(self._stale)
        if self._due:
            self._handle.call_later(0.0, self._take_in_some)

    def _take_in(self, tree: NetworkTree, names: Iterable[str]) -> None:
        found = {name: self._cache.node(name) for name in names}
        for name, info in found.items():  # rows that are free come before rows that are taken: they may be the same ones
            row = self._rows.get(name)
            if row is not None and (info is None or info.row != row):
                if tree.node_on(row) == name:  # else another node has it already
                    tree.set_row(row, None)
                del self._rows[name]
        for name, info in found.items():
            if info is not None:
                tree.set_row(info.row, info.node)
                self._rows[name] = info.row

    def _set_stale(self, names: Iterable[str]) -> None:
        self._stale.update(names)
        if not self._due:
            self._due = True
            self._handle.call_later(0.0, self._take_in_some)

    @property
    def version(self) -> tuple[int, int]:
        """What is another one when the tree is."""
        tree = self.tree
        return self._generation, 0 if tree is None else tree.version

    def node_changed(self, name: str) -> None:
        """Take note that a node may be in another domain than before, or in none."""
        if self._tree is not None:
            self._set_stale((name,))
            self._work.add(OBJECT)

    def set_topology(self, topology: ClusterNetworkTopology) -> None:
        """Take over the layers of the object, unless they make no tree."""
        if topology.metadata.name != OBJECT:
            return
        try:
            layers = layers_of(topology.spec.network_topology_spec)
        except LayerError as error:
            problem = str(error)
            if problem != self.problem:
                instead = "there is no tree" if self._tree is None else "the tree before stays"
                text = f"spec.networkTopologySpec: {problem}; {instead}"
                log.warning("a ClusterNetworkTopology cannot be used", object=OBJECT, problem=text)
                self._handle.event_on(topology, EventText("Warning", PROBLEM_EVENT, "Scheduling", text))
            self.problem = problem
            return
        self.problem = ""
        if self._tree is None or self._tree.layers != layers:
            self._tree, self._rows = NetworkTree(layers), {}
            self._set_stale(self._nodes)
            self._generation += 1
            self._handle.announce(TOPOLOGY_CHANGED)
        self._work.add(OBJECT)

    # Status, on the leader only

    async def run(self) -> None:
        """Write which domains there are whenever that is another thing than the status says, at most once a second."""
        self._work.add(OBJECT)
        await self._work.run(self._write_status)

    async def _write_status(self, name: str) -> None:
        tree, topology = self.tree, self._objects.get(name)
        if tree is None or topology is None or self.problem:
            return
        wanted = tuple(status_of(tree))
        if wanted == topology.status.detail_status:
            return
        body = {"status": {"detailStatus": msgspec.json.decode(msgspec.json.encode(wanted))}}
        try:
            await self._handle.cluster.patch(Ref(CLUSTER_NETWORK_TOPOLOGY, "", name), Patch(body, subresource="status"))
        except NotFound:
            return


def status_of(tree: NetworkTree) -> list[NetworkDomainStatus]:
    """Return the domains, each before its parts."""
    statuses = []
    for domain in tree.domains():
        level = len(domain.path)
        above = None if not level else NetworkDomain(tree.layer_name(level - 1), domain.path[-2] if level > 1 else "")
        statuses.append(
            NetworkDomainStatus(
                topology_info=NetworkDomain(tree.layer_name(level), domain.path[-1] if level else ""),
                node_num=domain.nodes,
                parent_topology_info=above,
                child_topology_layer=tree.layer_name(level + 1) if domain.nodes else "",
                child_topology_names=domain.children,
            )
        )
    return statuses


class _NodeHandler:
    def __init__(self, topology: NetworkTopology) -> None:
        self._topology = topology

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        self._topology.node_changed(node.metadata.name)

    def on_update(self, old: Node, new: Node) -> None:
        if old.metadata.labels != new.metadata.labels or old.metadata.uid != new.metadata.uid:
            self._topology.node_changed(new.metadata.name)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        self._topology.node_changed(node.metadata.name)


class _TopologyHandler:
    def __init__(self, topology: NetworkTopology) -> None:
        self._topology = topology

    def on_add(self, topology: ClusterNetworkTopology, _arrival: Arrival) -> None:
        self._topology.set_topology(topology)

    def on_update(self, _old: ClusterNetworkTopology, new: ClusterNetworkTopology) -> None:
        self._topology.set_topology(new)

    def on_delete(self, _topology: ClusterNetworkTopology, _final_state: FinalState) -> None:
        """The tree stays, as in the reference."""


def topology_of(handle: Handle) -> NetworkTopology:
    """Return the topology of a scheduler, one for all profiles."""
    return handle.cache.shared.one(NetworkTopology, lambda: NetworkTopology(handle))
