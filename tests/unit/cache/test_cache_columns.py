"""Columns come from nodes: what pods name makes none, and counts once a node has it."""

from __future__ import annotations

from support.builders import node, pod

from koordsched.cache.cache import Cache

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
