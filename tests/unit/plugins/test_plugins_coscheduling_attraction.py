"""Scores of nodes near the pods of a `network-topology-selector` (coscheduling.md §4.5, §15 line 21)."""

from __future__ import annotations

import numpy as np
import pytest
from support.builders import node, pod
from support.world import World

from koordsched.api.koordinator.gangs import NetworkTopologyLayer
from koordsched.config.koordinator_args import CoschedulingArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.row_evaluation import normalized
from koordsched.plugins.coscheduling.network_tree import NetworkTree, layers_of
from koordsched.plugins.coscheduling.plugin import Coscheduling
from koordsched.plugins.coscheduling.topology_attraction import rank_rows

LAYERS = (NetworkTopologyLayer("Block", "", ("block",)), NetworkTopologyLayer("NodeTopologyLayer", "Block"))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        # best first: the node with two pods, the one with one, the rest of their block by name, the other block by name
        (("a3", "b1", "a2", "a1", "b2", "a4"), {"a3": 100, "a1": 80, "a2": 60, "a4": 40, "b1": 20, "b2": 0}),
        (("b2", "a2", "a1", "a3"), {"a3": 100, "a1": 67, "a2": 34, "b2": 0}),
        (("a2",), {"a2": 100}),
    ],
)
def test_scores_fall_evenly_from_the_node_nearest_to_the_pods_of_the_selector(names: tuple[str, ...], expected: dict[str, int]) -> None:
    world, tree = World(), NetworkTree(layers_of(LAYERS))
    for name in ("a1", "a2", "a3", "a4", "b1", "b2"):
        world.cache.set_node(node(name).label("block", name[0]).build())
        info = world.cache.nodes_by_name[name]
        tree.set_row(info.row, info.node)
    rows = {name: world.cache.nodes_by_name[name].row for name in names}
    feasible = np.array(sorted(rows.values()), np.int32)
    existing = {world.cache.nodes_by_name["a3"].row: 2, world.cache.nodes_by_name["a1"].row: 1}
    ranks = rank_rows(tree, feasible, existing)
    scorer = Coscheduling(CoschedulingArgs(), world)
    scores = normalized(scorer, CycleState(), pod("p").info(), world.cache.select(feasible), ranks)
    assert {name: int(scores[np.searchsorted(feasible, row)]) for name, row in rows.items()} == expected
