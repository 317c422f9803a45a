"""What does it cost to find which of several reservations of a node has the devices that an owner needs?

1,000 nodes of 8 GPUs, on each one reservation of two GPUs of the same switch, which is what the pods need, and three or no more of two
GPUs of different switches. Filter asks about each node with matching reservations, in one call; here that is every node, and for equal
owners the nodes that have changed. bench_nomination is Reserve alone: the reservations of the chosen node are tried again.

Last measured (least thread CPU time of several runs, November 2026), with one reservation a node and with four: an owner equal to those
before it, until it has a node, 0.16 and 0.17 ms, and in Reserve 0.11 and 0.12 (0.15 and 0.24 in turn with that, when each reservation lent
by itself); one of a new kind 1.9 and 4.2 ms on a rested machine, 5.1 and 14 where others kept the caches busy. There the first of a new set
took 12 to 15 ms, and 32 in turn with that when each follower of pods was asked about each row by itself, which is 21 on a rested machine:
half of it compiles what rows are without the reservations, about an eighth each hides these, restores them, and finds those that suit. Of a
new kind under SingleNUMANode 15 and 22 ms there.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from bench_reservation import place, place_each
from support.builders import node, pod
from support.devices import allocation, device
from support.numa import topology
from support.reservations import WITH_DEVICES, ReservationWorld, available
from support.world import Setup

from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATE_HINT, DEVICE_ALLOCATED
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.plugins.deviceshare.check import device_state

NODES = 1_000
SAME_SWITCH = '{"gpu":{"requiredTopologyScope":"PCIe"}}'
SUITABLE = [(0, 1), (2, 4), (3, 6), (5, 7)]  # the first of one switch
SWITCHES = [(0, 1), (2, 3), (4, 5), (6, 7)]
_serial = count()


def cluster(reservations: int, numa_policy: str = "") -> ReservationWorld:
    """Return nodes with so many Available reservations each, of which one has two GPUs of one switch."""
    return _cluster([(minors, "x") for minors in SUITABLE[:reservations]], numa_policy)


def cluster_of_sets() -> ReservationWorld:
    """Return nodes with four Available reservations each, of the GPUs of one switch and for owners of their own: x0 to x3."""
    return _cluster([(minors, f"x{place}") for place, minors in enumerate(SWITCHES)])


def _cluster(reservations: list[tuple[tuple[int, int], str]], numa_policy: str = "") -> ReservationWorld:
    world = ReservationWorld(Setup(WITH_DEVICES))
    for index in range(NODES):
        name = f"node-{index:04d}"
        described = node(name).cpu("96").memory("512Gi").pods(110).allocatable("koordinator.sh/gpu", "800")
        if numa_policy:
            described = described.label("node.koordinator.sh/numa-topology-policy", numa_policy)
            world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology(name, "1x2x24x2", memory=512 << 30)))
        world.informer(NODE)._objects.apply(WatchEvent(ADDED, built := described.build()))
        world.cache.set_node(built)
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


@pytest.mark.parametrize("reservations", [1, 4])
def bench_owners_of_a_new_kind_under_numa_policies(benchmark: Any, reservations: int) -> None:
    """Every node aligns CPUs, memory and GPUs under SingleNUMANode."""
    world, sizes = cluster(reservations, "SingleNUMANode"), count(1000)
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
