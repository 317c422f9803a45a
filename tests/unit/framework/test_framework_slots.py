"""How many pods of a class each node takes: what is exact, what only bounds, and for whom room is kept (coscheduling.md §17)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from support.builders import node, pod
from support.owners import WITH_OWNERS
from support.world import Setup, World

from koordsched.api.podinfo import PodInfo
from koordsched.framework.slots import NodeSlots, SlotCounter, pod_class

FIT_ALONE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: DefaultBinder}]}
"""
WITHOUT_FIT = FIT_ALONE.replace("NodeResourcesFit", "NodeName")


def world_of(setup: Setup | None = None, **cpus: str) -> World:
    world = World(setup)
    for name, cpu in cpus.items():
        world.cache.set_node(node(name).cpu(cpu).pods(20).build())
    return world


def counted(world: World, info: PodInfo, most: int = 9, group: Collection[str] = ()) -> NodeSlots:
    return SlotCounter(world.profile.shapes, world.cache, world.nominator).count(world.signed(info), most, group)


def by_name(world: World, found: NodeSlots) -> dict[str, int]:
    names = [world.cache.nodes().info(row).name for row in found.rows.tolist()]
    return dict(zip(names, found.slots.tolist(), strict=True))


def test_amounts_say_how_many_a_node_takes_and_are_exact_where_nothing_else_decides() -> None:
    world = world_of(Setup(FIT_ALONE), n1="4", n2="7", n3="1", n4="99")
    found = counted(world, pod().cpu("2").info())
    assert by_name(world, found) == {"n1": 2, "n2": 3, "n4": 9}
    assert found.exact
    assert found.request is not None
    assert found.refused.message == "0/4 nodes are available: 1 Insufficient cpu."


def test_where_other_filters_look_at_pods_too_amounts_are_a_bound() -> None:
    world = world_of(n1="4")
    found = counted(world, pod().cpu("1").host_port(80).info())
    assert (by_name(world, found), found.exact) == ({"n1": 4}, False)
    assert found.request is not None


def test_without_a_filter_of_amounts_every_node_that_passes_may_take_all() -> None:
    world = world_of(Setup(WITHOUT_FIT), n1="4", n2="0")
    found = counted(world, pod().cpu("2").info(), most=5)
    assert (by_name(world, found), found.exact, found.request) == ({"n1": 5, "n2": 5}, False, None)
    assert found.short_of(9).refusals == []


def test_an_owner_has_the_slots_of_its_placeholders_and_what_they_leave_is_not_said_in_amounts() -> None:
    world = world_of(WITH_OWNERS, n1="4")
    world.cache.set_pod(pod("held").uid("held").cpu("3").on("n1").info(counted_on_node=True), "n1")
    world.cache.credits.grant("x", "held")
    mine, other = counted(world, pod("a").label("owner", "x").cpu("1").info()), counted(world, pod("b").cpu("1").info())
    assert (by_name(world, mine), mine.exact, mine.request) == ({"n1": 4}, False, None)
    assert by_name(world, other) == {"n1": 1}


def test_a_pod_that_pre_filter_refuses_has_no_slots() -> None:
    world = world_of(n1="4")
    found = counted(world, pod().cpu("1").requires_name("n9").info())
    assert by_name(world, found) == {}
    assert found.refused.message.startswith("0/1 nodes are available: ")


def test_a_restricted_pod_has_slots_on_its_nodes_alone() -> None:
    world = world_of(n1="4", n2="4", n3="1")
    info = pod().cpu("2").requires_name("n2").info()
    found = counted(world, info)
    assert by_name(world, found) == {"n2": 2}
    assert "2 node(s) didn't satisfy plugin(s) [NodeAffinity]" in found.refused.message
    assert found.simulation is not None
    assert found.simulation.rows is not None


def test_room_is_kept_for_nominated_pods_of_no_lower_priority_but_not_for_the_group() -> None:
    world = world_of(n1="4", n2="4")
    for name, priority, there in (("ahead", 5, "n1"), ("behind", 1, "n1"), ("own", 5, "n2")):
        world.nominator.set(pod(name).cpu("1").priority(priority).info(), there)
    info = pod().cpu("1").priority(5).info()
    assert by_name(world, counted(world, info, group={"uid-default-own"})) == {"n1": 3, "n2": 4}
    assert by_name(world, counted(world, info)) == {"n1": 3, "n2": 3}
    row = world.cache.nodes_by_name["n1"].row
    assert world.cache.table.requested_of(row, world.columns.resources["cpu"]) == 0, "nothing is left behind"


def test_the_reasons_of_too_few_slots_are_those_of_one_pod_more() -> None:
    world = world_of(Setup(FIT_ALONE), n1="4", n2="7", n3="1")
    world.cache.set_node(node("n4").cpu("99").pods(2).build())
    found = counted(world, pod().cpu("2").info())
    short = found.short_of(3)
    # n1 takes 2, n4 as many pods as it may have, n3 none; n2 takes 3.
    assert short.message == "0/4 nodes are available: 1 Too many pods, 2 Insufficient cpu."
    assert short.plugins == {"NodeResourcesFit"}
    assert found.short_of(1).message == "0/4 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize(("priority", "cpu", "equal"), [(5, "1", True), (6, "1", False), (5, "2", False)])
def test_equal_pods_are_of_one_class(priority: int, cpu: str, *, equal: bool) -> None:
    world = world_of(n1="4")
    first = world.signed(pod("first").cpu("1").priority(5).info())
    second = world.signed(pod("second").cpu(cpu).priority(priority).info())
    assert (pod_class(first) == pod_class(second)) is equal
    second.shape = first.shape = None
    assert pod_class(first) != pod_class(second), "what no plugin signs is like no other"


def test_slots_are_counted_anew_when_nodes_change() -> None:
    world = world_of(n1="4")
    info = pod().cpu("2").info()
    assert by_name(world, counted(world, info)) == {"n1": 2}
    world.cache.set_pod(pod("there").cpu("1").on("n1").info(counted_on_node=True), "n1")
    assert by_name(world, counted(world, info)) == {"n1": 1}
    found = counted(world, info)
    assert found.slots.dtype == np.int32
