"""CPUs that a reservation holds are its owners', and are counted once (reservation.md §15, checklist 41)."""

from __future__ import annotations

import pytest
from support.builders import node
from support.numa import holding, lsr, topology
from support.reservations import ReservationWorld, available
from support.world import Setup

from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.reservation_links import RESERVATION_IGNORED
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.plugins.nodenumaresource.state import NumaState
from koordsched.plugins.reservation.state import ReservationState

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Reservation, weight: 5000}, {name: NodeNUMAResource}]}
"""


def machine() -> ReservationWorld:
    """Return a world with one node of 8 CPUs, two a core."""
    world = ReservationWorld(Setup(CONFIG))
    world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology("n0", "1x1x4x2", memory=8 << 30)))
    made = node("n0").cpu("8").memory("8Gi").build()
    world.informer(NODE)._objects.apply(WatchEvent(ADDED, made))
    world.cache.set_node(made)
    return world


def reserving(cpus: str, policy: str = "Restricted", count: int = 2, name: str = "r") -> Reservation:
    annotations = holding(lsr(cpus=count), cpus).build().metadata.annotations
    return available(name, "n0", {"cpu": str(count)}, allocatePolicy=policy, metadata={"annotations": annotations})


def owner(name: str, cpus: int = 2) -> PodInfo:
    return lsr(name, cpus=cpus).uid(name).label("app", "x").info()


def cpus_of(world: ReservationWorld, uid: str) -> list[int]:
    state = world.cache.shared.find(NumaState)
    assert state is not None
    held = state.held_by(uid)
    return [] if held is None else [cpu for cpu in range(64) if held.cpus >> cpu & 1]


def test_an_owner_gets_the_cpus_of_its_reservation() -> None:
    world = machine()
    world.reservations.put(reserving("4-5"))
    assert world.give(owner("a")) == ("n0", "r")
    assert cpus_of(world, "a") == [4, 5]
    assert cpus_of(world, "uid-r") == []


def test_a_stranger_does_not_get_them() -> None:
    world = machine()
    world.reservations.put(reserving("0-1"))
    world.give(lsr("s", cpus=2).uid("s").info())
    assert not set(cpus_of(world, "s")) & {0, 1}
    assert cpus_of(world, "uid-r") == [0, 1]


def test_what_an_owner_leaves_returns_to_the_reservation() -> None:
    world = machine()
    world.reservations.put(reserving("4-7", count=4))
    first = owner("a")
    world.give(first)
    held = cpus_of(world, "a")
    assert len(held) == 2
    assert set(held) | set(cpus_of(world, "uid-r")) == {4, 5, 6, 7}
    world.take_back(first)
    assert cpus_of(world, "uid-r") == [4, 5, 6, 7]


def test_an_aligned_reservation_adds_free_cpus_to_its_own() -> None:
    world = machine()
    world.reservations.put(reserving("4-5", policy="Aligned"))
    world.give(owner("a", cpus=4))
    assert set(cpus_of(world, "a")) >= {4, 5}
    assert len(cpus_of(world, "a")) == 4


def whole_cores(name: str, cpus: int = 2) -> PodInfo:
    spec = '{"requiredCPUBindPolicy":"FullPCPUs"}'
    return lsr(name, cpus=cpus).uid(name).label("app", "x").annotation("scheduling.koordinator.sh/resource-spec", spec).info()


def test_of_several_reservations_the_one_is_given_that_has_whole_cores() -> None:
    """By amounts the older one is as good as the other."""
    world = machine()
    world.reservations.put(reserving("0,2", name="a"))
    world.reservations.put(reserving("4-5", name="b"))
    world.give(lsr("s", cpus=4).uid("s").info())
    assert world.give(whole_cores("p")) == ("n0", "b")
    assert cpus_of(world, "p") == [4, 5]
    with pytest.raises(LookupError, match="not enough cpus available to satisfy request"):
        world.give(whole_cores("q"))


def test_cpus_of_two_reservations_are_not_added_up() -> None:
    """Two CPUs are free besides: an owner of either has four, of both together it would have six."""
    world = machine()
    world.reservations.put(reserving("0-1", policy="Aligned", name="a"))
    world.reservations.put(reserving("2-3", policy="Aligned", name="b"))
    world.give(lsr("s", cpus=2).uid("s").info())
    with pytest.raises(LookupError, match="0/1 nodes are available"):
        world.give(owner("p", cpus=6))
    assert world.give(owner("q", cpus=4))[1] in {"a", "b"}


def test_an_owner_of_a_restricted_reservation_that_it_does_not_demand_goes_without_where_its_cpus_do_not_suit() -> None:
    world = machine()
    world.reservations.put(reserving("0,2", name="a"))
    assert world.give(whole_cores("p")) == ("n0", "")
    assert not set(cpus_of(world, "p")) & {0, 2}
    assert cpus_of(world, "uid-a") == [0, 2]


def test_a_pod_that_ignores_reservations_gets_reserved_cpus_that_no_pod_uses() -> None:
    world = machine()
    world.reservations.put(reserving("0-3", policy="", count=4))
    world.cache.set_pod(holding(lsr("s", cpus=4).uid("s"), "4-7").on("n0").info(counted_on_node=True), "n0")
    world.give(lsr("i", cpus=2).uid("i").label(RESERVATION_IGNORED, "true").info())
    assert cpus_of(world, "i") == [0, 1]
    assert world.give(owner("a")) == ("n0", "r")
    assert cpus_of(world, "a") == [2, 3]
    with pytest.raises(LookupError):
        world.give(lsr("j", cpus=2).uid("j").label(RESERVATION_IGNORED, "true").info())


def test_after_a_restart_owner_and_reservation_hold_what_they_held() -> None:
    """Whichever of both is known first."""
    for reservation_first in (True, False):
        world = machine()
        reservation = reserving("4-7", count=4)
        bound = holding(lsr("a", cpus=2).uid("a"), "4-5")
        bound = bound.annotation("scheduling.koordinator.sh/reservation-allocated", '{"name":"r","uid":"uid-r"}').on("n0")
        if reservation_first:
            world.reservations.put(reservation)
        world.cache.set_pod(bound.info(counted_on_node=True), "n0")
        world.reservations.put(reservation)
        assert cpus_of(world, "a") == [4, 5]
        assert cpus_of(world, "uid-r") == [6, 7]
        world.cache.remove_pod("a")
        assert cpus_of(world, "uid-r") == [4, 5, 6, 7]
        found = world.cache.shared.find(ReservationState)
        assert found is not None
        found.remove("uid-r")
        assert cpus_of(world, "uid-r") == []
        assert all(not list(checked.differences("n0")) for checked in world.cache.checked)
