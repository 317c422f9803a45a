"""Nodes in the cache: their facts as columns, and the order in which the reference would walk them."""

from __future__ import annotations

import numpy as np
import pytest
from support.builders import NodeBuilder, node, pod
from support.described import described

from koordsched._core.change import NodeChange
from koordsched.api.quantity import QuantityError
from koordsched.cache.cache import Cache
from koordsched.cache.nodes import zone_of


def cache_with(*builders: NodeBuilder) -> Cache:
    cache = Cache()
    for builder in builders:
        cache.set_node(builder.build())
    return cache


def order(cache: Cache) -> list[str]:
    names = [info.name for row in cache.order.rows().tolist() if (info := cache.infos[row]) is not None]
    assert len(names) == cache.table.live_count
    return names


def logged(cache: Cache, position: int) -> int:
    """Return all kinds of change since the position, or-ed."""
    found = cache.table.changes_since(position)
    assert found is not None
    return int(np.bitwise_or.reduce(found[1], initial=0))


# Facts


def test_amounts_are_milli_cores_and_whole_units_and_unknown_resources_are_zero() -> None:
    info = cache_with(node("n1").cpu("1500m").memory("2Ki").allocatable("example.com/gpu", 8)).nodes_by_name["n1"]
    names = ("pods", "cpu", "memory", "example.com/gpu", "example.com/unheard")
    assert [info.allocatable(name) for name in names] == [110, 1500, 2048, 8, 0]
    assert info.requested("example.com/unheard") == 0


def test_each_kind_of_fact_is_logged_as_what_it_is() -> None:
    base = node("n1").cpu("4")
    cache = cache_with(base)
    for changed, kind in (
        (base.cpu("8"), NodeChange.CAPACITY),
        (base.label("disk", "ssd"), NodeChange.LABELS),
        (base.taint("dedicated", "NoSchedule"), NodeChange.TAINTS),
        (base.cordoned(), NodeChange.TAINTS),
        (base.image(1000, "app:1"), NodeChange.IMAGES),
        (base.annotation("a", "b"), NodeChange.OBJECT),
        (base.uid("another"), NodeChange.OBJECT),
        (base.condition("Ready", "False"), NodeChange.OBJECT),
    ):
        position = cache.table.log_end
        cache.set_node(changed.build())
        assert logged(cache, position) == int(kind)
        cache.set_node(base.build())
    position = cache.table.log_end
    cache.set_node(base.resource_version("2").build())  # a heartbeat
    assert logged(cache, position) == 0


def test_a_label_that_vanished_reads_as_absent() -> None:
    base = node("n1")
    cache = cache_with(base.label("disk", "ssd"), node("n2").label("disk", "ssd"))
    cache.set_node(base.build())
    facts = described(cache)
    assert ("disk" in facts["n1"]["labels"], facts["n2"]["labels"]["disk"]) == (False, "ssd")


def test_equal_taints_in_equal_order_share_one_id() -> None:
    cache = cache_with(
        node("a").taint("x", "NoSchedule").taint("y", "NoExecute"),
        node("b").taint("x", "NoSchedule").taint("y", "NoExecute"),
        node("c").taint("x", "NoSchedule").taint("y", "NoExecute").cordoned(),
        node("d"),
    )
    rows = cache.table.live_rows()
    ids = cache.table.attributes_of(cache.columns.taint_set_attribute, rows).tolist()
    assert ids[0] == ids[1] != ids[2]
    assert ids[3] == 0


def test_an_image_has_the_size_of_the_first_node_that_reported_it() -> None:
    cache = cache_with(node("n1").image(100, "app:1", "app:latest"), node("n2").image(900, "app:1"))
    assert {name: image.size for name, image in cache.columns.images.items()} == {"app:1": 100, "app:latest": 100}
    cache.remove_node("n1")
    assert list(cache.columns.images) == ["app:1"]
    cache.remove_node("n2")
    cache.set_node(node("n3").image(700, "app:1").build())
    assert cache.columns.images["app:1"].size == 700


def test_bit_columns_of_images_and_ports_that_no_node_has_are_used_again() -> None:
    cache = cache_with(node("n1").image(100, "a"))
    first = cache.columns.images["a"].bit
    cache.set_node(node("n1").build())
    cache.assume_pod(pod("web").host_port(80).info(), "n1")
    assert [used.bit for used in cache.columns.host_ports.lists()] == [first]


HOST_PORT_80 = pod("any").host_port(80).info().ports


def test_a_port_that_two_pods_of_a_node_use_is_free_when_both_are_gone() -> None:
    cache = cache_with(node("n1"))
    for name in ("a", "b", "c"):
        cache.assume_pod(pod(name).host_port(80).info(), "n1")
    cache.forget_pod("uid-default-a")
    cache.forget_pod("uid-default-c")
    assert len(cache.columns.host_ports) == 1
    (used,) = cache.columns.host_ports.lists()
    assert used.others == {}, "a row is not remembered for what it had"
    cache.forget_pod("uid-default-b")
    assert (len(cache.columns.host_ports), cache.columns.host_ports.conflicting_bits(HOST_PORT_80)) == (0, [])


def test_a_node_whose_size_cannot_be_read_changes_nothing() -> None:
    cache = cache_with(node("n1").cpu("4"))
    before = described(cache)
    with pytest.raises(QuantityError):
        cache.set_node(node("n1").cpu("four").label("new", "label").build())
    with pytest.raises(QuantityError):
        cache.set_node(node("n2").cpu("four").build())
    assert described(cache) == before
    assert order(cache) == ["n1"]


def test_pods_with_equal_requests_share_one() -> None:
    columns = Cache().columns
    first, again, other = (pod(name).cpu(cpu).info().resources for name, cpu in (("a", "1"), ("b", "1"), ("c", "2")))
    assert columns.request(first) is columns.request(again)
    assert columns.request(first) is not columns.request(other)
    assert columns.request(other).amounts_by_id == {0: 1, 1: 2000}


# Order


def test_nodes_without_zones_stand_in_order_of_arrival() -> None:
    cache = cache_with(node("c"), node("a"), node("b"))
    assert order(cache) == ["c", "a", "b"]
    cache.remove_node("a")
    cache.set_node(node("a").build())
    assert order(cache) == ["c", "b", "a"]


def test_zones_take_turns_in_the_order_in_which_they_appeared() -> None:
    cache = cache_with(
        node("b1").zone("b"), node("a1").zone("a"), node("b2").zone("b"), node("b3").zone("b"), node("a2").zone("a"), node("c1")
    )
    assert order(cache) == ["b1", "a1", "c1", "b2", "a2", "b3"]


def test_a_node_that_changes_its_zone_moves_to_the_end_of_the_new_one() -> None:
    cache = cache_with(node("b1").zone("b"), node("a1").zone("a"), node("b2").zone("b"), node("a2").zone("a"))
    cache.set_node(node("b1").zone("a").build())
    assert order(cache) == ["b2", "a1", "a2", "b1"]


def test_an_update_in_the_same_zone_keeps_the_place() -> None:
    cache = cache_with(node("a1").zone("a"), node("a2").zone("a"))
    cache.set_node(node("a1").zone("a").label("x", "y").build())
    assert order(cache) == ["a1", "a2"]


def test_a_zone_that_lost_its_last_node_appears_anew() -> None:
    cache = cache_with(node("a1").zone("a"), node("b1").zone("b"), node("b2").zone("b"))
    cache.remove_node("a1")
    cache.set_node(node("a2").zone("a").build())
    assert order(cache) == ["b1", "a2", "b2"]


def test_zones_of_the_same_name_in_two_regions_are_two() -> None:
    cache = cache_with(node("x1").zone("a", "x"), node("x2").zone("a", "x"), node("y1").zone("a", "y"))
    assert order(cache) == ["x1", "y1", "x2"]


def test_the_beta_labels_win() -> None:
    made = node("n").zone("new", "north").label("failure-domain.beta.kubernetes.io/zone", "old")
    assert zone_of(made.build()) == ("north", "old")
    assert zone_of(made.label("failure-domain.beta.kubernetes.io/region", "south").build()) == ("south", "old")
    assert zone_of(node("n").build()) == ("", "")


def test_a_ghost_is_not_in_the_order() -> None:
    cache = cache_with(node("n1"))
    cache.set_pod(pod("p").on("n2").info(counted_on_node=True), "n2")
    assert order(cache) == ["n1"]
