"""Where Reservations deviate from v1.8 on purpose (reservation.md §17): those decisions that no scenario shows.

Scenarios show D1 to D3, D12, D14 and D18 to D20 (`tests/scenarios/reservation*.yaml`), those of devices D17.
"""

from __future__ import annotations

from typing import Any

import msgspec
from support.builders import node, pod
from support.reservations import ReservationWorld, available, linked

from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.podinfo import PodInfo
from koordsched.plugins.reservation.gauges import register

ONE = {"cpu": "1"}


def a_world(*names: str) -> ReservationWorld:
    world = ReservationWorld()
    for name in names or ("n",):
        world.cache.set_node(node(name).cpu("8").build())
    return world


def owner(name: str = "owner") -> PodInfo:
    return pod(name).uid(f"uid-{name}").cpu("500m").label("app", "x").info()


def test_d5_of_reservations_that_are_filled_alike_the_oldest_is_given_then_the_first_name() -> None:
    world = a_world()
    ages = {"late": "2026-01-03T00:00:00Z", "b": "2026-01-02T00:00:00Z", "a": "2026-01-02T00:00:00Z"}
    for name, created in ages.items():
        world.reservations.put(available(name, "n", ONE, allocateOnce=True, metadata={"creationTimestamp": created}))
    assert [world.give(owner(f"o{number}"))[1] for number in range(3)] == ["a", "b", "late"]


def test_d7_an_owner_that_is_named_with_the_api_version_of_pods_is_one() -> None:
    world = a_world()
    for name, version in (("none", "v2"), ("r", "v1")):
        owners = [{"object": {"apiVersion": version, "kind": "Pod", "namespace": "default", "name": "owner"}}]
        world.reservations.put(available(name, "n", ONE, owners=owners))
    assert world.give(owner()) == ("n", "r")


def test_d9_a_reservation_that_is_nominated_for_a_node_counts_once_however_often_others_are_looked_at() -> None:
    world = a_world()
    whole = msgspec.to_builtins(available("r", "n", {"cpu": "3"}))
    del whole["status"]
    world.nominator.set(world.signed(PodInfo.of_reservation(msgspec.convert(whole, Reservation))), "n")
    for number in range(3):
        assert world.find(pod(f"fits-{number}").cpu("5").info()) == "n"
        refused = world.find(pod(f"large-{number}").cpu("6").info())
        assert not isinstance(refused, str), "3 of 8 are the Reservation's"


def test_d11_nothing_is_left_of_a_reservation_that_is_deleted_while_it_is_given_its_node() -> None:
    world = a_world()
    whole = msgspec.to_builtins(available("r", "n", ONE))
    del whole["status"]
    reserve_pod = PodInfo.of_reservation(msgspec.convert(whole, Reservation))
    assert world.give(reserve_pod) == ("n", "")
    world.reservations.remove("uid-r")
    world.take_back(reserve_pod)
    assert (world.cache.pods, world.reservations.by_uid, len(world.cache.credits)) == ({}, {}, 0)
    assert world.cache.node("n") is not None
    assert world.give(pod().cpu("8").info()) == ("n", "")


def test_d13_what_a_reservation_has_is_shown_as_long_as_it_is_there() -> None:
    tables: dict[str, Any] = {}

    class Metrics:
        def gauge_table(self, name: str, _help: str, _labels: tuple[str, ...], rows: Any) -> None:
            tables[name] = rows

    reservations = {"r": available("r", "n", ONE)}
    register(Metrics(), reservations)  # type: ignore[arg-type]  # what is used of them
    rows = tables["scheduler_reservation_resource"]
    assert (
        rows()
        == rows()
        == {
            ("r", "cpu", "allocatable", "core"): 1.0,
            ("r", "cpu", "allocated", "core"): 0.0,
            ("r", "cpu", "utilization", "ratio"): 0.0,
        }
    )
    del reservations["r"]
    assert rows() == {}


def test_d15_a_pod_that_is_seen_before_its_reservation_is_its_owner_once_that_is_seen() -> None:
    world = a_world()
    reservation = available("r", "n", ONE)
    world.cache.set_pod(linked(pod("owner").uid("uid-owner").cpu("500m").label("app", "x"), reservation, "n"), "n")
    assert world.reservations.reservation_of("uid-owner") is None
    world.reservations.put(reservation)
    assert list(world.reservations.by_uid["uid-r"].owners) == ["uid-owner"]
    assert world.reservations.by_uid["uid-r"].allocated == {"cpu": 500}


def test_d15_a_pod_whose_reservation_is_not_there_is_looked_at_without_it() -> None:
    world = a_world()
    world.reservations.put(available("r", "n", {"cpu": "8"}))
    world.cache.remove_pod("uid-r")  # the cache does not count it yet
    assert world.give(owner())[0] == "n"
