"""The placement of members in a network against a plain model of the reference's plan (coscheduling.md §7.2)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.topology_model import Plan, domains_used

from koordsched._core.table import NodeTable, Request
from koordsched._core.topology_tree import MemberPlacement
from koordsched.api.core import Node
from koordsched.api.koordinator.gangs import NetworkTopologyLayer
from koordsched.api.meta import ObjectMeta
from koordsched.plugins.coscheduling.network_tree import LayerError, NetworkTree, layers_of

NAMES = ("a", "b", "c")


def made_node(name: str, path: tuple[str, ...]) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={f"l{level}": part for level, part in enumerate(path, 1)}))


def new_tree(depth: int) -> NetworkTree:
    above = ["", *(f"Layer{level}" for level in range(1, depth + 1))]
    spec = [NetworkTopologyLayer(f"Layer{level}", above[level - 1], (f"l{level}",)) for level in range(1, depth + 1)]
    return NetworkTree(layers_of([*spec, NetworkTopologyLayer("NodeTopologyLayer", above[depth])]))


@st.composite
def networks(draw: Any) -> tuple[int, list[tuple[tuple[str, ...], int, int]]]:
    """Draw how many layers there are, and of each node its path, how many members it takes, and how many pods attract them to it."""
    depth = draw(st.integers(0, 3))
    path = st.tuples(*[st.sampled_from(NAMES)] * depth)
    return depth, draw(st.lists(st.tuples(path, st.integers(0, 5), st.sampled_from((0, 0, 0, 1, 2))), min_size=1, max_size=12))


def nested(depth: int, nodes: list[tuple[tuple[str, ...], int, int]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for number, (path, slots, _) in enumerate(nodes):
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[f"n{number:02d}"] = slots
    return tree


@given(networks(), st.integers(1, 16), st.integers(0, 4), st.dictionaries(st.integers(0, 4), st.integers(2, 4), max_size=2))
def test_a_plan_for_equal_members_is_the_reference_s(
    network: tuple[int, list[tuple[tuple[str, ...], int, int]]], wanted: int, level: int, multiples: dict[int, int]
) -> None:
    depth, nodes = network
    level = min(level, depth + 1)
    multiples = {at: multiple for at, multiple in multiples.items() if at <= depth + 1}
    tree = new_tree(depth)
    for row, (path, _, _) in enumerate(nodes):
        tree.set_row(row, made_node(f"n{row:02d}", path))
    placement = MemberPlacement(tree.arrays, NodeTable(), [None], [wanted], [0], [multiples.get(at, 1) for at in range(depth + 2)])
    rows = np.arange(len(nodes), dtype=np.int32)
    placement.set_most(0, rows, np.array([slots for _, slots, _ in nodes], np.int32))
    placement.set_existing(rows, np.array([existing for _, _, existing in nodes], np.int64))
    placement.roll_up()
    found = placement.find(level)
    model = Plan(nested(depth, nodes), depth, wanted, {f"n{row:02d}": each[2] for row, each in enumerate(nodes)}, multiples)
    expected = model.find(level)
    paths = {f"n{row:02d}": path for row, (path, _, _) in enumerate(nodes)}
    ours = None if found is None else [(tree.name_of(depth + 1, row), count) for row, _, count in found]
    assert ours == expected or (expected is None and multiples), (
        "where multiples leave no way, the reference does not look in larger domains"
    )
    if found is None or ours is None:
        return
    assert sum(count for _, count in ours) == wanted
    assert all(count <= nodes[row][1] for row, _, count in found)
    if not any(wanted % multiple for multiple in multiples.values()):  # else they hold inside of the domain that takes all
        assert keeps_multiples(ours, paths, multiples)
    used = [node for node, _ in ours]
    assert len(used) == 1 if level > depth else domains_used(used, paths, level) == 1


def keeps_multiples(placed: list[tuple[str, int]], paths: dict[str, tuple[str, ...]], multiples: dict[int, int]) -> bool:
    counts: Counter[tuple[str, ...]] = Counter()
    for node, count in placed:
        path = (*paths[node], node)
        for end in range(len(path) + 1):
            counts[path[:end]] += count
    return all(count % multiples.get(len(path), 1) == 0 for path, count in counts.items())


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=2, max_size=3),
)
def test_members_of_several_classes_never_take_more_than_a_row_has(nodes: list[tuple[int, int]], classes: list[tuple[int, int]]) -> None:
    """nodes: block and CPUs. classes: CPUs of a member, and how many members."""
    table = NodeTable()
    tree = new_tree(1)
    for number, (block, cpu) in enumerate(nodes):
        row = table.acquire_row()
        table.set_allocatable(row, {0: 100, 1: cpu})
        table.set_live(row, True)
        tree.set_row(row, made_node(f"n{number}", (NAMES[block],)))
    requests = [Request([0, 1], [1, cpu], cpu, 1) for cpu, _ in classes]
    placement = MemberPlacement(tree.arrays, table, requests, [count for _, count in classes], list(range(len(classes))), [1, 1, 1])
    rows = np.arange(len(nodes), dtype=np.int32)
    for klass, (cpu, count) in enumerate(classes):
        placement.set_most(klass, rows, np.array([min(count, room // cpu) for _, room in nodes], np.int32))
    placement.roll_up()
    found = placement.find(1)
    if found is None:
        return
    assert [sum(count for _, klass, count in found if klass == each) for each in range(len(classes))] == [count for _, count in classes]
    for row, (_, room) in enumerate(nodes):
        assert sum(classes[klass][0] * count for at, klass, count in found if at == row) <= room
    assert len({nodes[row][0] for row, _, _ in found}) == 1


@given(
    st.lists(st.tuples(st.integers(0, 7), st.one_of(st.none(), st.tuples(*[st.sampled_from(("", "a", "b"))] * 2)), st.sampled_from("xy")))
)
def test_a_tree_after_any_changes_is_that_of_the_nodes_alone(changes: list[tuple[int, tuple[str, str] | None, str]]) -> None:
    tree = new_tree(2)
    now: dict[int, Node] = {}
    for row, path, name in changes:
        if path is None:
            now.pop(row, None)
            tree.set_row(row, None)
        else:
            now[row] = made_node(f"{name}{row}", path)
            tree.set_row(row, now[row])
    fresh = new_tree(2)
    for row, node in now.items():
        fresh.set_row(row, node)
    assert list(tree.domains()) == list(fresh.domains())
    for row in range(8):
        for level in range(4):
            ours, theirs = tree.domain_of(row, level), fresh.domain_of(row, level)
            assert (ours == -1) == (theirs == -1)
            if ours != -1:
                assert tree.name_of(level, ours) == fresh.name_of(level, theirs)
    ones = np.ones(64, np.int64)
    sums = tree.arrays.sums(ones)
    assert sums[0] == sum(tree.domain_of(row, 0) == 0 for row in range(8))


LAYER = NetworkTopologyLayer


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ([LAYER("Spine", "", ("s",))], "there is no layer 'NodeTopologyLayer'"),
        ([LAYER("NodeTopologyLayer", "Spine")], "there is no layer 'Spine', which its parentTopologyLayer names"),
        ([LAYER("NodeTopologyLayer", "A"), LAYER("A", "B", ("a",)), LAYER("B", "A", ("b",))], "'A' is below it: a circle"),
        ([LAYER("NodeTopologyLayer", "A"), LAYER("A", "", ("a",)), LAYER("A", "", ("b",))], "layer 'A' is there twice"),
        ([LAYER("NodeTopologyLayer", "A"), LAYER("A", "", ("a",)), LAYER("B", "", ("b",))], "layer 'B' is not above"),
        ([LAYER("NodeTopologyLayer", "A"), LAYER("A", "ClusterTopologyLayer")], "layer 'A' has no labelKey"),
    ],
)
def test_layers_that_make_no_tree_are_named(spec: list[NetworkTopologyLayer], text: str) -> None:
    with pytest.raises(LayerError, match=text):
        layers_of(spec)
