"""Pods that name their reservation: found without a view of all nodes and without columns of their own, and with the same outcome."""

from __future__ import annotations

import pytest
from support import devices, numa
from support.affinity import Far, term, with_affinity
from support.builders import PodBuilder, node, pod
from support.reservations import WITH_DEVICES, ReservationWorld, available, hides_more_than_counts
from support.volumes import pod_with
from support.world import Setup

from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY


def a_world(nodes: int = 4, cpu: str = "4") -> ReservationWorld:
    world = ReservationWorld()
    for number in range(nodes):
        world.cache.set_node(node(f"n{number}").cpu(cpu).pods(10).build())
    return world


def naming(name: str, reservation: str, cpu: str = "1") -> PodBuilder:
    return pod(name).uid(f"uid-{name}").cpu(cpu).label("app", "x").annotation(RESERVATION_AFFINITY, f'{{"name":"{reservation}"}}')


def columns(world: ReservationWorld) -> int:
    return len(world.profile.shapes)


def test_pods_that_name_different_reservations_share_columns_and_are_given_these() -> None:
    world = a_world()
    for number in range(4):
        world.reservations.put(available(f"r{number}", f"n{number}", {"cpu": "4"}))
    assert [world.give(naming(f"p{number}", f"r{number}").info()) for number in range(4)] == [
        (f"n{number}", f"r{number}") for number in range(4)
    ]
    assert columns(world) == 1


def test_what_is_reserved_is_found_free_and_no_more() -> None:
    world = a_world(1)
    world.reservations.put(available("r", "n0", {"cpu": "3"}, allocatePolicy="Aligned"))
    world.cache.set_pod(pod("other").cpu("1").on("n0").info(counted_on_node=True), "n0")
    assert world.give(naming("a", "r", "2").info()) == ("n0", "r")
    with pytest.raises(LookupError, match="Insufficient cpu"):
        world.give(naming("b", "r", "2").info())
    assert world.give(naming("c", "r", "1").info()) == ("n0", "r")


def test_the_node_has_to_suit_the_pod_besides() -> None:
    world = a_world(1)
    world.reservations.put(available("r", "n0", {"cpu": "2"}))
    world.cache.set_node(node("n0").cpu("4").pods(10).taint("k", "NoSchedule").build())
    with pytest.raises(LookupError, match="untolerated taint"):
        world.give(naming("a", "r").info())
    world.cache.set_node(node("n0").cpu("4").pods(10).build())
    assert world.give(naming("b", "r").info()) == ("n0", "r")


def test_a_reservation_of_the_name_that_comes_later_is_found_and_one_that_goes_is_not() -> None:
    world = a_world(1)
    waiting = naming("a", "r").info()
    with pytest.raises(LookupError, match="no reservations match"):
        world.give(waiting)
    world.reservations.put(available("r", "n0", {"cpu": "2"}))
    assert world.give(naming("b", "r").info()) == ("n0", "r")
    world.reservations.remove("uid-r")
    with pytest.raises(LookupError, match="no reservations match"):
        world.give(naming("c", "r").info())


def test_a_host_port_of_the_reservation_is_its_owner_s() -> None:
    """It holds more than amounts, so the pod is looked at in its view."""
    world = a_world(1)
    world.reservations.put(available("r", "n0", {"cpu": "2"}, ports=[7000]))
    first, second = naming("a", "r").host_port(7000).info(), naming("b", "r").host_port(7000).info()
    assert world.give(first) == ("n0", "r")
    with pytest.raises(LookupError, match="free ports"):
        world.give(second)


@pytest.mark.parametrize(
    ("held", "alone"),
    [
        (pod("p").cpu("1").label("app", "x"), True),
        (pod_with("claim", name="p"), False),
        (with_affinity(pod("p"), far=Far(required=[term("zone", {"app": "x"})])), False),
        (devices.holding(pod("p"), gpu=[0]), False),
        (numa.holding(pod("p"), "0-1"), False),
    ],
)
def test_what_a_pod_holds_beside_amounts_and_counts_is_known_without_hiding_it(held: PodBuilder, alone: bool) -> None:
    world = ReservationWorld(Setup(WITH_DEVICES))
    world.cache.set_node(node("n").cpu("4").pods(10).build())
    info = held.on("n").info(counted_on_node=True)
    world.cache.set_pod(info, "n")
    assert world.cache.holds_amounts_alone(info.uid) is alone
    assert hides_more_than_counts(world.cache, info) is not alone


def test_a_pod_that_is_nominated_for_the_node_keeps_its_room() -> None:
    world = a_world(1)
    world.reservations.put(available("r", "n0", {"cpu": "1"}, allocatePolicy="Aligned"))
    important = pod("important").uid("important").cpu("3").priority(10).info()
    world.nominator.set(world.signed(important), "n0")
    with pytest.raises(LookupError, match="Insufficient cpu"):
        world.give(naming("a", "r", "2").info())
    assert world.give(naming("b", "r", "1").info()) == ("n0", "r")
