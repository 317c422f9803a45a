"""Pods that a Reservation takes over, as the scheduler counts them until the watch shows it (reservation.md §13)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from support.builders import node, pod
from support.reservations import ReservationWorld, available, linked

from koordsched.api.koordinator.reservations import ReservationStatus
from koordsched.api.podinfo import PodInfo

R = available("r", "a", {"cpu": "4"}, preAllocation=True)


def world_with(*pods: Any) -> ReservationWorld:
    world = ReservationWorld()
    for name in ("a", "b"):
        world.cache.set_node(node(name).cpu("10").build())
    for info in pods:
        world.cache.set_pod(info, info.pod.spec.node_name)
    return world


def cpu(world: ReservationWorld, name: str) -> int:
    found = world.cache.node(name)
    assert found is not None
    return found.requested("cpu")


def test_what_a_pod_uses_that_is_taken_over_counts_once() -> None:
    world = world_with(pod("p").cpu("3").label("app", "x").on("a").info(counted_on_node=True))
    world.give(PodInfo.of_reservation(replace(R, status=ReservationStatus())))
    assert cpu(world, "a") == 4000
    world.cache.remove_pod("uid-default-p")
    assert cpu(world, "a") == 4000  # the Reservation holds what the pod has left, though it has no node yet
    world.reservations.put(R)
    assert (cpu(world, "a"), cpu(world, "b")) == (4000, 0)


def test_what_is_not_given_after_all_counts_as_before() -> None:
    world = world_with(pod("p").cpu("3").label("app", "x").on("a").info(counted_on_node=True))
    reserve = PodInfo.of_reservation(replace(R, status=ReservationStatus()))
    world.give(reserve)
    assert world.reservations.end_adoption(reserve.uid)
    assert not world.reservations.end_adoption(reserve.uid)
    world.cache.forget_pod(reserve.uid)
    assert cpu(world, "a") == 3000
    assert world.reservations.reservation_of("uid-default-p") is None


def test_a_reservation_that_gets_another_node_has_not_taken_over_the_pods() -> None:
    world = world_with(pod("p").cpu("3").label("app", "x").on("a").info(counted_on_node=True))
    world.give(PodInfo.of_reservation(replace(R, status=ReservationStatus())))
    elsewhere = replace(R, status=replace(R.status, node_name="b"))
    world.reservations.put(elsewhere)
    assert (cpu(world, "a"), cpu(world, "b")) == (3000, 4000)
    assert world.reservations.by_uid[R.metadata.uid].owners == {}


def test_a_link_on_another_node_counts_for_nothing() -> None:
    stale = linked(pod("p").cpu("3").label("app", "x"), R, "b")
    world = world_with(stale)
    world.reservations.put(R)
    assert world.reservations.by_uid[R.metadata.uid].owners == {}
    assert (cpu(world, "a"), cpu(world, "b")) == (4000, 3000)
    world.cache.set_pod(linked(pod("q").cpu("1").label("app", "x"), R, "b"), "b")  # and so does one that comes later
    assert world.reservations.by_uid[R.metadata.uid].owners == {}
    assert [info.uid for info in world.reservations.linked_to(R.metadata.uid)] == ["uid-default-p", "uid-default-q"]
