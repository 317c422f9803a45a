"""Columns come from nodes: what pods name makes none, and counts once a node has it."""

from __future__ import annotations

import numpy as np
from support.builders import node, pod
from support.described import described

from koordsched._core.change import NodeChange
from koordsched.api.core import Toleration
from koordsched.cache.cache import Cache
from koordsched.cache.columns import Vocabulary
from koordsched.framework.node_selector import CompiledNodeSelector, required_terms
from koordsched.framework.tolerations import tolerances_of

GPU = "example.com/gpu"


def test_what_pods_request_makes_no_column_and_counts_when_a_node_offers_it() -> None:
    cache = Cache()
    cache.set_node(node("n1").cpu("4").build())
    columns = cache.table.resources
    cache.set_pod(pod("a").request(GPU, 2).host_port(80).on("n1").info(), "n1")
    assert (cache.table.resources, GPU in cache.columns.resources) == (columns, False)
    assert cache.nodes_by_name["n1"].requested(GPU) == 2
    cache.set_node(node("n1").cpu("4").allocatable(GPU, 8).build())
    assert cache.table.requested_of(cache.nodes_by_name["n1"].row, cache.columns.resources[GPU]) == 2
    cache.set_node(node("n1").cpu("4").build())
    cache.columns.forget_unused()
    assert (cache.table.resources, GPU in cache.columns.resources) == (columns, False)
    cache.remove_pod("uid-default-a")
    assert cache.nodes_by_name["n1"].requested("cpu") == cache.nodes_by_name["n1"].requested(GPU) == 0


def test_what_a_node_offers_again_is_not_forgotten() -> None:
    cache = Cache()
    for allocatable in (8, 0, 4):
        cache.set_node(node("n1").cpu("4").allocatable(GPU, allocatable).build())
    cache.columns.forget_unused()
    assert cache.table.allocatable_of(cache.nodes_by_name["n1"].row, cache.columns.resources[GPU]) == 4


def test_nodes_that_are_known_from_bound_pods_alone_share_a_row_until_they_appear() -> None:
    cache = Cache()
    for i in range(200):
        cache.set_pod(pod(f"p{i}").cpu("1").on(f"x{i}").info(), f"x{i}")
    assert (len(cache.nodes_by_name), len(cache.infos)) == (200, 1)
    cache.set_node(node("x7").cpu("4").build())
    row = cache.nodes_by_name["x7"].row
    assert (cache.table.requested_of(row, 1), len(cache.infos)) == (1000, 2)
    for i in range(200):
        cache.remove_pod(f"uid-default-p{i}")
    assert ([*cache.nodes_by_name], cache.table.requested_of(row, 1)) == (["x7"], 0)


def test_a_row_that_is_written_anew_holds_what_it_held_and_its_pods_ports_once() -> None:
    cache = Cache()
    there = node("n1").cpu("4").label("zone", "a").taint("t", "NoSchedule").allocatable(GPU, 8)
    cache.set_node(there.build())
    for name in ("a", "b"):
        cache.set_pod(pod(name).cpu("1").host_port(80).on("n1").info(), "n1")
    row, columns = cache.nodes_by_name["n1"].row, cache.columns
    before = described(cache)
    cache.table.set_attribute(columns.taint_set_attribute, row, 0, int(NodeChange.TAINTS))
    cache.rewrite("n1")
    assert described(cache) == before
    for name in ("a", "b"):
        cache.remove_pod(f"uid-default-{name}")
    assert len(columns.host_ports) == 0
    cache.remove_node("n1")
    columns.forget_unused()
    kept = (columns.taints.ids, columns.taint_sets.ids, columns.labels, columns.name_column.values.ids, GPU in columns.resources)
    assert kept == ({}, {}, {}, {}, False)


def test_a_forgotten_id_that_stands_for_another_name_is_looked_at_again() -> None:
    """A compiled selector and compiled tolerations have seen the id while it stood for nothing."""
    cache = Cache()
    columns = cache.columns
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "c")):
        cache.set_node(node(name).label("zone", zone).taint(zone, "NoSchedule").build())
    cache.set_node(node("n1").label("zone", "b").taint("b", "NoSchedule").build())
    columns.forget_unused()
    selector = CompiledNodeSelector(columns, required_terms({"zone": "d"}, None))
    tolerances, tolerations = tolerances_of(columns), (Toleration(key="b", operator="Exists"), Toleration(key="c", operator="Exists"))

    def answers() -> list[tuple[int, int]]:
        rows = np.array([cache.nodes_by_name[name].row for name in ("n1", "n2", "n3")], np.int32)
        refused = tolerances.compile(tolerations).refuse(cache.table, columns.taint_set_attribute, rows)
        return [(int(matches), int(code > 0)) for matches, code in zip(selector.matches_rows(rows), refused, strict=True)]

    assert answers() == [(0, 0), (0, 0), (0, 0)]
    generation, ids = columns.generation, len(columns.labels["zone"].values)
    cache.set_node(node("n2").label("zone", "d").taint("d", "NoSchedule").build())
    assert answers() == [(0, 0), (1, 1), (0, 0)]
    assert (columns.generation, len(columns.labels["zone"].values)) == (generation, ids)  # the id was used again


def test_ids_of_names_that_nothing_holds_are_used_again_the_least_first_and_then_new_ones() -> None:
    reused: list[str] = []
    names = Vocabulary("", lambda: reused.append("again"))
    assert [names.hold(name) for name in ("a", "b", "c", "d")] == [1, 2, 3, 4]
    for released in (1, 3):
        names.release(released)
    assert (names.idle, names.forget_idle(), names.idle) == (2, ["a", "c"], 0)
    assert names.names == ["", "", "b", "", "d"]
    assert [names.hold(name) for name in ("e", "f", "g")] == [1, 3, 5]
    assert reused == ["again", "again"]
    for released in (4, 5):
        names.release(released)
    assert names.forget_idle() == ["d", "g"]
    assert (len(names), names.names) == (4, ["", "e", "b", "f"])
    assert [names.hold(name) for name in ("h", "i")] == [4, 5]
    assert reused == ["again", "again"], "these are new"
