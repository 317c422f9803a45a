"""Nominated pods: whose room is kept for whom, and which node is tried first (framework.md §5.1)."""

from __future__ import annotations

import pytest
from support.builders import PodBuilder, node, pod
from support.described import described
from support.world import World

from koordsched.framework.diagnosis import Diagnosis

PREEMPTOR = pod("preemptor").cpu("3").priority(10)


def world_with(*names: str) -> World:
    world = World()
    for name in names:
        world.cache.set_node(node(name).cpu("4").memory("8Gi").build())
    return world


def found(world: World, builder: PodBuilder) -> str:
    """Return the node that is chosen, or the message."""
    outcome = world.find(builder.info())
    return outcome.message if isinstance(outcome, Diagnosis) else outcome


@pytest.mark.parametrize(("priority", "outcome"), [(9, False), (10, False), (11, True)], ids=["lower", "equal", "higher"])
def test_only_a_pod_of_higher_priority_may_take_a_nominated_pods_room(priority: int, outcome: bool) -> None:
    world = world_with("n1")
    world.nominator.set(PREEMPTOR.info(), "n1")
    expected = "n1" if outcome else "0/1 nodes are available: 1 Insufficient cpu."
    assert found(world, pod("p").cpu("2").priority(priority)) == expected


def test_a_pod_that_fits_beside_the_nominated_one_is_not_kept_out() -> None:
    world = world_with("n1")
    world.nominator.set(PREEMPTOR.info(), "n1")
    assert found(world, pod("small").cpu("1")) == "n1"


def test_all_nominated_pods_of_a_node_count_together() -> None:
    world = world_with("n1")
    for name in ("a", "b"):
        world.nominator.set(pod(name).cpu("1").priority(10).info(), "n1")
    assert found(world, pod("p").cpu("2")) == "n1"
    world.nominator.set(pod("c").cpu("1").priority(10).info(), "n1")
    assert found(world, pod("p").cpu("2")) == "0/1 nodes are available: 1 Insufficient cpu."


def test_another_node_is_taken_instead() -> None:
    world = world_with("n1", "n2", "n3")
    world.nominator.set(PREEMPTOR.info(), "n1")
    world.nominator.set(PREEMPTOR.uid("second").info(), "n3")
    assert {found(world, pod("p").cpu("2").uid(f"u{i}")) for i in range(10)} == {"n2"}


def test_host_ports_of_nominated_pods_are_kept_as_well() -> None:
    world = world_with("n1")
    world.nominator.set(pod("web").host_port(80).priority(5).info(), "n1")
    message = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert found(world, pod("p").host_port(80)) == message
    assert found(world, pod("q").host_port(443)) == "n1"


def test_the_nominated_pod_itself_is_not_in_its_own_way() -> None:
    world = world_with("n1")
    world.nominator.set(PREEMPTOR.info(), "n1")
    assert found(world, PREEMPTOR) == "n1"


def test_asking_leaves_the_books_as_they_were() -> None:
    world = world_with("n1", "n2")
    world.nominator.set(PREEMPTOR.host_port(80).info(), "n1")
    before = described(world.cache)
    found(world, pod("p").cpu("2").host_port(80))
    assert described(world.cache) == before
    world.nominator.remove(PREEMPTOR.info().uid)
    assert {found(world, pod("p").cpu("2").uid(f"u{i}")) for i in range(20)} == {"n1", "n2"}


def test_reasons_of_nominations_and_of_nodes_are_one_message() -> None:
    world = world_with("n1", "n2")
    world.cache.set_pod(pod("there").cpu("3").on("n2").info(counted_on_node=True), "n2")
    world.nominator.set(PREEMPTOR.info(), "n1")
    assert found(world, pod("p").cpu("2")) == "0/2 nodes are available: 2 Insufficient cpu."


def test_the_nominated_node_is_taken_whatever_the_scores_say() -> None:
    world = world_with("n1", "n2", "n3")
    for name in ("n2", "n3"):
        world.cache.set_pod(pod(f"there-{name}").cpu("1").on(name).info(counted_on_node=True), name)
    assert found(world, pod("p").cpu("1")) == "n1"
    assert found(world, pod("p").cpu("1").nominated("n3")) == "n3"


@pytest.mark.parametrize("nominated", ["n2", "gone"], ids=["full", "gone"])
def test_a_nominated_node_that_does_not_do_is_passed_over(nominated: str) -> None:
    world = world_with("n1", "n2")
    world.cache.set_pod(pod("there").cpu("4").on("n2").info(counted_on_node=True), "n2")
    assert found(world, pod("p").cpu("1").nominated(nominated)) == "n1"


def test_a_nominated_node_that_the_pod_may_not_go_to_is_passed_over() -> None:
    """PreFilter names n1 alone; what was made free on n2 does not change that."""
    world = world_with("n1", "n2")
    assert found(world, pod("p").requires_name("n1").nominated("n2")) == "n1"


def test_a_nominated_node_is_passed_over_where_those_nominated_before_leave_no_room() -> None:
    world = world_with("n1", "n2")
    world.nominator.set(PREEMPTOR.info(), "n2")
    assert found(world, pod("p").cpu("2").nominated("n2")) == "n1"
    assert found(world, pod("p").cpu("1").nominated("n2")) == "n2"


def test_a_nomination_on_a_node_that_is_gone_blocks_nothing() -> None:
    world = world_with("n1")
    world.nominator.set(PREEMPTOR.info(), "gone")
    assert found(world, pod("p").cpu("4")) == "n1"


def test_without_nodes_the_message_says_so() -> None:
    world = world_with("n1")
    world.cache.remove_node("n1")
    assert found(world, pod("p")) == "no nodes available to schedule pods"
