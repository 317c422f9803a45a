"""The tree of the network follows the nodes, some at a time (coscheduling.md §7.1)."""

from __future__ import annotations

from random import Random

import pytest
from support.builders import node
from support.world import World

from koordsched.api.koordinator.gangs import ClusterNetworkTopology, ClusterNetworkTopologySpec, NetworkTopologyLayer
from koordsched.api.meta import ObjectMeta
from koordsched.config.flag_table import Flags
from koordsched.plugins.coscheduling import topology
from koordsched.plugins.coscheduling.network_tree import NetworkTree, layers_of
from koordsched.plugins.coscheduling.topology import NetworkTopology

LAYERS = (NetworkTopologyLayer("Block", "", ("block",)), NetworkTopologyLayer("NodeTopologyLayer", "Block"))


class Network:
    """Nodes that come, go and are relabelled, and the topology on them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
        monkeypatch.setattr(topology, "NODES_AT_ONCE", at_once)
        self.world = World()
        self.world.flags = Flags(enable_network_topology_manager=True)
        self.topology = NetworkTopology(self.world)
        metadata = ObjectMeta(name="default", uid="t")
        self.topology.set_topology(ClusterNetworkTopology(metadata=metadata, spec=ClusterNetworkTopologySpec(LAYERS)))
        self.nodes: dict[str, str] = {}

    def set_node(self, name: str, block: str) -> None:
        self.nodes[name] = block
        self.world.cache.set_node(node(name).label("block", block).build())
        self.topology.node_changed(name)

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self.world.cache.remove_node(name)
        self.topology.node_changed(name)

    def run_one(self) -> None:
        _, call = self.world.timers.pop(0)
        call()

    def expected(self) -> NetworkTree:
        tree = NetworkTree(layers_of(LAYERS))
        for info in self.world.cache.nodes_by_name.values():
            tree.set_row(info.row, info.node)
        return tree


def in_tree(tree: NetworkTree | None) -> dict[str, tuple[str, int]]:
    assert tree is not None
    rows = [row for row in range(len(tree.row_domains)) if tree.node_on(row)]
    return {tree.node_on(row): (tree.name_of(1, tree.domain_of(row, 1)), row) for row in rows}


def test_many_nodes_are_taken_in_some_at_a_time_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, at_once=4)
    for i in range(10):
        network.set_node(f"n{i}", "ab"[i % 2])
    assert len(network.world.timers) == 1, "one call for all"
    sizes = []
    while network.world.timers:
        network.run_one()
        tree = network.topology._tree
        sizes.append(len(in_tree(tree)))
    assert sizes == [4, 8, 10]
    assert in_tree(network.topology.tree) == in_tree(network.expected())


def test_who_asks_before_all_are_taken_in_sees_the_tree_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, at_once=4)
    for i in range(10):
        network.set_node(f"n{i}", "a")
    network.run_one()
    assert in_tree(network.topology.tree) == in_tree(network.expected())
    assert len(in_tree(network.topology.tree)) == 10


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_nodes_hand_on_are_those_of_the_new_nodes_in_whatever_order_they_are_taken_in(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    network = Network(monkeypatch, at_once=1)
    for step in range(60):
        name = f"n{random.randrange(8)}"
        if name in network.nodes and random.random() < 0.4:
            network.remove_node(name)
        else:
            network.set_node(name, random.choice("abc"))
        if network.world.timers and random.random() < 0.5:
            network.run_one()
        if step % 10 == 9:
            while network.world.timers:
                network.run_one()
            found = in_tree(network.topology._tree)
            assert found == in_tree(network.expected())
            assert {each: block for each, (block, _) in found.items()} == network.nodes
            assert network.topology.tree is not None
            assert list(network.topology.tree.domains()) == list(network.expected().domains())
