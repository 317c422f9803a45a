"""The domains of the cluster's network as a tree, kept up to date as nodes come, go and are relabelled (coscheduling.md §7.1).

A domain is known by the names on its path from the root: two racks `r1` of different blocks are two domains. A node that has no name for
the layer right above the nodes is alone in a domain of its own name; one that lacks another layer is outside of the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.topology_tree import TopologyTree
from koordsched.api.koordinator.network_topology import CLUSTER_LAYER, NODE_LAYER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from koordsched.api.core import Node
    from koordsched.api.koordinator.gangs import NetworkTopologyLayer

    _Made = tuple[TopologyTree, NDArray[np.int32], NDArray[np.int32]]

Path = tuple[str, ...]

OUTSIDE = -1
FREE = -1


class LayerError(ValueError):
    """The layers of a ClusterNetworkTopology make no tree. The text names the layer and the field."""


class Layer(msgspec.Struct, frozen=True):
    """A layer between the root and the nodes. labels: of nodes; the first one that a node has names its domain."""

    name: str
    labels: tuple[str, ...]


def layers_of(spec: Sequence[NetworkTopologyLayer]) -> tuple[Layer, ...]:
    """Return the layers between the root and the nodes, the highest first. LayerError, of the first thing that is wrong."""
    by_name: dict[str, NetworkTopologyLayer] = {}
    for layer in spec:
        if layer.topology_layer in by_name:
            raise LayerError(f"layer {layer.topology_layer!r} is there twice")
        by_name[layer.topology_layer] = layer
    if NODE_LAYER not in by_name:
        raise LayerError(f"there is no layer {NODE_LAYER!r}, from which the others are found by parentTopologyLayer")
    chain: list[NetworkTopologyLayer] = []
    name = NODE_LAYER
    while name not in {"", CLUSTER_LAYER}:
        found = by_name.pop(name, None)
        if found is None:
            if any(layer.topology_layer == name for layer in chain):
                raise LayerError(f"layer {chain[-1].topology_layer!r}: its parentTopologyLayer {name!r} is below it: a circle")
            raise LayerError(f"layer {chain[-1].topology_layer!r}: there is no layer {name!r}, which its parentTopologyLayer names")
        chain.append(found)
        name = found.parent_topology_layer
    by_name.pop(CLUSTER_LAYER, None)
    if by_name:
        raise LayerError(f"layer {min(by_name)!r} is not above {NODE_LAYER!r}: no parentTopologyLayer leads from there to it")
    for layer in chain[1:]:
        if not any(layer.label_key):
            raise LayerError(f"layer {layer.topology_layer!r} has no labelKey, so that no node has a name in it")
    return tuple(Layer(layer.topology_layer, layer.label_key) for layer in reversed(chain[1:]))


class Domain(msgspec.Struct, frozen=True):
    """A domain as the status of a ClusterNetworkTopology shows it. children: by name, none where these are nodes."""

    path: Path
    nodes: int
    children: tuple[str, ...]


class NetworkTree:
    """The domains of some layers, and in which of them the rows of the node table are."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers
        self.levels = {layer.name: level for level, layer in enumerate(layers, 1)}
        self.levels |= {CLUSTER_LAYER: 0, NODE_LAYER: len(layers) + 1}
        self.version = 0  # counts changes
        self._ids: dict[Path, int] = {(): 0}
        self._paths: list[Path | None] = [()]  # by id; None: the id is free
        self._nodes = [0]  # by id, how many are below
        self._chains: list[tuple[int, ...]] = [(0,)]  # by id: the domains that it is in from the root down, and itself
        self._free: list[int] = []
        self._row_names: dict[int, str] = {}  # of rows in the tree
        self._row_domain: NDArray[np.int32] = np.full(0, OUTSIDE, np.int32)
        self._current: _Made | None = None  # None: to be made anew
        self._row_rank: NDArray[np.int32] | None = None

    # Changes

    def path_of(self, node: Node) -> Path | None:
        """Return the names of the domains that a node is in, the highest first; None: it is outside of the tree."""
        labels = node.metadata.labels
        path: list[str] = []
        for layer in self.layers:
            for key in layer.labels:
                name = labels.get(key)
                if name:
                    break
            else:
                if len(path) + 1 < len(self.layers):
                    return None
                name = node.metadata.name
            path.append(name)
        return tuple(path)

    def set_row(self, row: int, node: Node | None) -> None:
        """Take over what node a row has now. O(layers)."""
        path = None if node is None else self.path_of(node)
        while row >= len(self._row_domain):
            wider = np.full(max(64, 2 * len(self._row_domain)), OUTSIDE, np.int32)
            wider[: len(self._row_domain)] = self._row_domain
            self._row_domain, self._row_rank = wider, None
        before = int(self._row_domain[row])
        known = self._row_names.get(row)
        name = "" if node is None or path is None else node.metadata.name
        if path is not None and before != OUTSIDE and self._paths[before] == path and known == name:
            return
        if path is None and before == OUTSIDE:
            return
        if path is not None:
            self._row_domain[row] = self._enter(path)
            self._row_names[row] = name
        else:
            self._row_domain[row] = OUTSIDE
            del self._row_names[row]
        if before != OUTSIDE:
            self._leave(before)
        if known != (name or None):
            self._row_rank = None
        self._current = None
        self.version += 1

    def _enter(self, path: Path) -> int:
        """Count one node more below the domain and those that it is in, which are made if need be."""
        found = self._ids.get(path)
        if found is None:
            for end in range(len(path) + 1):
                if path[:end] not in self._ids:
                    self._add(path[:end])
            found = self._ids[path]
        for domain in self._chains[found]:
            self._nodes[domain] += 1
        return found

    def _add(self, path: Path) -> None:
        """Add a domain without nodes to one that there is."""
        if not self._free:
            self._free.append(len(self._paths))
            self._paths.append(None)
            self._nodes.append(0)
            self._chains.append(())
        domain = self._ids[path] = self._free.pop()
        self._paths[domain] = path
        self._chains[domain] = (*self._chains[self._ids[path[:-1]]], domain)

    def _leave(self, domain: int) -> None:
        """Count one node less; domains without any are forgotten."""
        for each in self._chains[domain]:
            self._nodes[each] -= 1
            path = self._paths[each]
            if path and not self._nodes[each]:
                del self._ids[path]
                self._paths[each] = None
                self._free.append(each)

    # What it is now

    @property
    def arrays(self) -> TopologyTree:
        """The tree for kernels; the ids of domains in it are true until the next change. O(nodes) after a change."""
        return self._made()[0]

    def _made(self) -> _Made:
        """Return the tree for kernels, with the parents of domains and the places of rows in the order of their nodes' names."""
        if self._current is None:
            count = len(self._paths)
            parent, level, rank = (np.full(count, FREE, np.int32) for _ in range(3))
            named = [(path[-1] if path else "", path, domain) for domain, path in enumerate(self._paths) if path is not None]
            for place, (_, path, domain) in enumerate(sorted(named)):
                level[domain], rank[domain] = len(path), place
                parent[domain] = self._ids[path[:-1]] if path else FREE
            if self._row_rank is None:
                self._row_rank = np.zeros(len(self._row_domain), np.int32)
                by_name = sorted(self._row_names, key=self._row_names.__getitem__)
                self._row_rank[by_name] = np.arange(len(by_name), dtype=np.int32)
            tree = TopologyTree(len(self.layers), parent, level, rank, self._row_domain.copy(), self._row_rank)
            self._current = tree, parent, self._row_rank
        return self._current

    @property
    def row_domains(self) -> NDArray[np.int32]:
        """The lowest domain of each row, OUTSIDE for none. Not to be changed."""
        return self._row_domain

    def ancestors(self, domains: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        """Return for each level, the root first, in which domain each of these is that are of the lowest level; OUTSIDE for OUTSIDE."""
        parent = self._made()[1]
        chain = [domains]
        for _ in self.layers:
            chain.append(np.where(chain[-1] == OUTSIDE, OUTSIDE, parent[chain[-1]]).astype(np.int32))
        return chain[::-1]

    def name_ranks(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the place of each row's node in the order of names; all after them for rows outside of the tree, by row."""
        ranks = self._made()[2]
        known = np.minimum(rows, len(ranks) - 1)
        outside = (rows >= len(ranks)) | (self._row_domain[known] == OUTSIDE)
        return np.where(outside, len(ranks) + rows, ranks[known]).astype(np.int32)

    def node_on(self, row: int) -> str:
        """Return the name of the node that the row is in the tree for, "" for none."""
        return self._row_names.get(row, "")

    def domain_of(self, row: int, level: int) -> int:
        """Return the domain of a level that a row is in, OUTSIDE for a row outside of the tree; of the lowest level the row itself."""
        lowest = int(self._row_domain[row]) if 0 <= row < len(self._row_domain) else OUTSIDE
        path = self._paths[lowest] if lowest != OUTSIDE else None
        if path is None:
            return OUTSIDE
        return row if level > len(path) else self._ids[path[:level]]

    def name_of(self, level: int, domain: int) -> str:
        """Return the name of a domain, or of the node of a row for the lowest level; "" for the root."""
        if level > len(self.layers):
            return self._row_names[domain]
        path = self._paths[domain]
        return path[-1] if path else ""

    def layer_name(self, level: int) -> str:
        return CLUSTER_LAYER if level == 0 else NODE_LAYER if level > len(self.layers) else self.layers[level - 1].name

    def domains(self) -> Iterator[Domain]:
        """Yield all domains, each before its parts, and these by name."""
        children: dict[Path, list[str]] = {}
        for path in self._ids:
            if path:
                children.setdefault(path[:-1], []).append(path[-1])
        pending: list[Path] = [()]
        while pending:
            path = pending.pop()
            names = sorted(children.get(path, ()))
            yield Domain(path, self._nodes[self._ids[path]], tuple(names))
            pending += [(*path, name) for name in reversed(names)]
