"""What does it cost to find which of several reservations of a node has the devices that an owner needs?

1,000 nodes of 8 GPUs, on each one reservation of two GPUs of the same switch, which is what the pods need, and three or no more of two
GPUs of different switches. Filter asks about each node with matching reservations, in one call; here that is every node, and for equal
owners the nodes that have changed. bench_nomination is Reserve alone: the reservations of the chosen node are tried again.

Last measured (CPU time on two cores beside much other work, November 2026), with one reservation a node and with four: an owner equal to
those before it, until it has a node, 0.18 and 0.19 ms (the least of 150; 0.87 and 2.96 in turn with that, when the view hid all
reservations with their devices each time, and not those of the rows that have changed alone); one of a new kind 1.9 and 4.2 ms (38 and 62
when each node was asked about by itself), and for the first of all, which compiles what each reservation has left, 2.4 us more a
reservation. Reserve alone 0.15 and 0.23 ms.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from bench_reservation import place, place_each
from support.builders import node, pod
from support.devices import allocation, device
from support.reservations import WITH_DEVICES, ReservationWorld, available
from support.world import Setup

from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATE_HINT, DEVICE_ALLOCATED
from koordsched.api.podinfo import PodInfo
from koordsched.plugins.deviceshare.check import device_state

NODES = 1_000
SAME_SWITCH = '{"gpu":{"requiredTopologyScope":"PCIe"}}'
SUITABLE = [(0, 1), (2, 4), (3, 6), (5, 7)]  # the first of one switch
SWITCHES = [(0, 1), (2, 3), (4, 5), (6, 7)]
_serial = count()


def cluster(reservations: int) -> ReservationWorld:
    """Return nodes with so many Available reservations each, of which one has two GPUs of one switch."""
    return _cluster([(minors, "x") for minors in SUITABLE[:reservations]])


def cluster_of_sets() -> ReservationWorld:
    """Return nodes with four Available reservations each, of the GPUs of one switch and for owners of their own: x0 to x3."""
    return _cluster([(minors, f"x{place}") for place, minors in enumerate(SWITCHES)])


def _cluster(reservations: list[tuple[tuple[int, int], str]]) -> ReservationWorld:
    world = ReservationWorld(Setup(WITH_DEVICES))
    for index in range(NODES):
        name = f"node-{index:04d}"
        world.cache.set_node(node(name).cpu("96").memory("512Gi").pods(110).allocatable("koordinator.sh/gpu", "800").build())
        device_state(world).set_device(device(name, gpus="2x2x2,80Gi"))
        for number, (minors, of) in enumerate(reservations):
            metadata = {"annotations": {DEVICE_ALLOCATED: allocation(gpu=list(minors))}}
            world.reservations.put(available(f"r{index}-{number}", name, {"koordinator.sh/gpu": "200"}, of, metadata=metadata))
    return world


def owner(world: ReservationWorld, milli_cpu: int = 0, of: str = "x") -> PodInfo:
    serial = next(_serial)
    made = pod(f"owner-{serial}").uid(f"uid-{serial}").label("app", of).request("koordinator.sh/gpu", "200")
    made = made.annotation(DEVICE_ALLOCATE_HINT, SAME_SWITCH)
    return world.signed((made.cpu(f"{milli_cpu}m") if milli_cpu else made).info())


@pytest.mark.parametrize("reservations", [1, 4])
def bench_equal_owners(benchmark: Any, reservations: int) -> None:
    world = cluster(reservations)
    place_each(benchmark, world, lambda: owner(world), rounds=300, warmup=2)


@pytest.mark.parametrize("reservations", [1, 4])
def bench_owners_of_a_new_kind(benchmark: Any, reservations: int) -> None:
    world, sizes = cluster(reservations), count(1000)
    place_each(benchmark, world, lambda: owner(world, next(sizes)), rounds=10, warmup=1)


def bench_owners_of_a_new_set(benchmark: Any) -> None:
    """Each is the first of all that match its 1,000 reservations, one a node; what their nodes are without these was never asked."""
    worlds, sets = [cluster_of_sets() for _ in range(3)], count()

    def make() -> tuple[tuple[ReservationWorld, PodInfo], dict[str, Any]]:
        serial = next(sets)
        world = worlds[serial // len(SWITCHES)]
        return (world, owner(world, of=f"x{serial % len(SWITCHES)}")), {}

    benchmark.pedantic(place, setup=make, rounds=11, warmup_rounds=1)


@pytest.mark.parametrize("reservations", [1, 4])
def bench_nomination(benchmark: Any, reservations: int) -> None:
    """Reserve alone, of equal pods: the reservations of the chosen node are tried again, and compared."""
    world: ReservationWorld = cluster(reservations)

    def assumed() -> tuple[tuple[Any, PodInfo, str], dict[str, Any]]:
        info = owner(world)
        cycle, found = world.search.find(world.profile, info)
        assert isinstance(found, str), found.message
        world.cache.assume_pod(info, found)
        return (cycle, info, found), {}

    def reserve(cycle: Any, info: PodInfo, found: str) -> None:
        assert world.profile.run_reserve(cycle, info, found) is None
        drawn = world.reservations.reservation_of(info.uid)
        assert drawn is not None
        assert drawn.name.endswith("-0")

    benchmark.pedantic(reserve, setup=assumed, rounds=200, warmup_rounds=2)
