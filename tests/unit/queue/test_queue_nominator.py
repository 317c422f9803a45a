"""Nominations (framework.md §3.4)."""

from __future__ import annotations

import numpy as np
from support.builders import node, pod

from koordsched.cache.cache import Cache
from koordsched.queue.nominator import NO_ROW, Nominator


def test_a_pod_is_nominated_for_one_node_at_a_time() -> None:
    nominator = Nominator(Cache())
    p = pod("p").info()
    nominator.set(p, "n1")
    nominator.set(p, "n2")
    assert nominator.node_of(p.uid) == "n2"
    assert nominator.pods_on("n1") == []
    assert nominator.pods_on("n2") == [p]
    assert dict(nominator.nodes) == {"n2": {p.uid: p}}


def test_an_empty_node_withdraws() -> None:
    nominator = Nominator(Cache())
    p = pod("p").info()
    nominator.set(p, "n1")
    nominator.set(p, "")
    assert p.uid not in nominator
    assert len(nominator) == 0
    assert dict(nominator.nodes) == {}


def test_only_other_pods_of_at_least_the_same_priority_are_in_the_way() -> None:
    nominator = Nominator(Cache())
    low, same, high, me = (pod(name).priority(p).info() for name, p in (("low", 1), ("same", 5), ("high", 9), ("me", 5)))
    for other, name in ((low, "n1"), (same, "n1"), (high, "n2"), (me, "n3")):
        nominator.set(other, name)
    assert [nominator.ahead(me, name) for name in ("n1", "n2", "n3")] == [[same], [high], []]


def test_an_update_that_names_no_node_keeps_the_nomination_in_memory() -> None:
    nominator = Nominator(Cache())
    old, new = pod("p").info(), pod("p").label("a", "b").info()
    nominator.set(old, "n1")
    nominator.update(old, new)
    assert nominator.pods_on("n1") == [new]


def test_an_update_sets_moves_and_clears_the_nomination_of_the_api_server() -> None:
    nominator = Nominator(Cache())
    none, first, second = pod("p").info(), pod("p").nominated("n1").info(), pod("p").nominated("n2").info()
    nominator.update(none, first)
    assert nominator.node_of(first.uid) == "n1"
    nominator.update(first, second)
    assert nominator.node_of(first.uid) == "n2"
    nominator.update(second, none)
    assert nominator.node_of(first.uid) == ""


def test_a_nominated_pod_follows_its_node_to_whichever_row_that_has() -> None:
    cache = Cache()
    nominator = Nominator(cache)
    plain, claiming = pod("plain").cpu("2").info(), pod("claiming").host_port(80).info()
    nominator.set(plain, "n1")
    assert nominator.by_row().nonempty_rows().tolist() == []
    assert nominator.row_of(plain.uid) == NO_ROW
    for name in ("n0", "n1"):
        cache.set_node(node(name).cpu("4").build())
    row = cache.nodes_by_name["n1"].row
    nominator.set(claiming, "n1")
    assert [*nominator.by_row().lower_on(row, 1 << 30, 0)] == [plain, claiming]
    assert nominator.rows_beyond_amounts() == [row]
    cache.remove_node("n1")
    assert nominator.by_row().nonempty_rows().tolist() == []
    assert nominator.rows_beyond_amounts() == []
    cache.set_node(node("n2").cpu("4").build())
    cache.set_node(node("n1").cpu("4").build())
    assert cache.nodes_by_name["n1"].row != row
    assert nominator.by_row().nonempty_rows().tolist() == [cache.nodes_by_name["n1"].row]
    assert nominator.row_of(plain.uid) == cache.nodes_by_name["n1"].row
    for each in (plain, claiming):
        nominator.remove(each.uid)
    assert nominator.by_row().nonempty_rows().tolist() == []
    assert nominator.rows_beyond_amounts() == []


def test_nominated_pods_count_in_resources_that_a_node_is_the_first_to_offer() -> None:
    cache = Cache()
    nominator = Nominator(cache)
    cache.set_node(node("n1").cpu("4").build())
    first, second = (pod(name).request("example.com/gpu", "1").info() for name in ("first", "second"))
    nominator.set(first, "n1")
    cache.set_node(node("n1").cpu("4").allocatable("example.com/gpu", "1").build())
    rows = np.array([cache.nodes_by_name["n1"].row], np.int32)
    request = cache.columns.request(second.resources)
    assert nominator.shortages(rows, second, request).tolist() != [0]
    assert nominator.shortages(rows, first, request).tolist() == [0]
