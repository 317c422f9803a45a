"""What do reservations cost, with 10,000 Available ones on 5,000 nodes, two each?

Limits (issue 21): strangers at most 2 us above the same run without reservations; an owner with 1,000 matched reservations at most 5 ms the
first time and 300 us after; by name at most 10 us above a plain pod; distinct owners at most 1.3 x distinct pods.

Last measured (minimum; a 2-core machine whose empty loop of 10^7 takes 0.3 s, beside other work, November 2026): strangers 8.8 us, 8.3
without reservations, and 0.4 us more when they are signed; an owner with 1,000 reservations 5.7 ms, then 219 us, 142 without affinity. Over
their limits: by name 102 us where an equal plain pod takes 8.7, since each such pod has a shape of its own; distinct owners 287 us,
distinct pods 158.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from clusters import make_node
from support.builders import pod
from support.reservations import ReservationWorld, available

from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.podinfo import PodInfo

NODES = 5_000
RESERVATIONS = 10_000
_serial = count()


def cluster(owners: int, reservations: int = RESERVATIONS) -> ReservationWorld:
    """Return 5,000 nodes with reservations for so many distinct owners."""
    world = ReservationWorld()
    for index in range(NODES):
        world.cache.set_node(make_node(index).build())
    for index in range(reservations):
        name = f"node-{index % NODES:05d}"
        world.reservations.put(available(f"r{index}", name, {"cpu": "1", "memory": "1Gi"}, f"o{index * owners // max(reservations, 1)}"))
    return world


def pod_of(world: ReservationWorld, owner: str = "", cpu: str = "500m", affinity: str = "") -> PodInfo:
    serial = next(_serial)
    builder = pod(f"web-{serial}").uid(f"uid-{serial}").cpu(cpu).memory("512Mi").label("app", owner or "web")
    return world.signed((builder.annotation(RESERVATION_AFFINITY, affinity) if affinity else builder).info())


def place_each(benchmark: Any, world: ReservationWorld, make: Any, rounds: int = 2000, warmup: int = 20) -> None:
    """Time the search for pods and their Reserve, each on what the ones before it took."""
    state: dict[str, Any] = {}

    def setup() -> None:
        state["pod"] = make()

    def turn() -> None:
        info = state["pod"]
        cycle, node = world.search.find(world.profile, info)
        assert isinstance(node, str), node.message
        world.cache.assume_pod(info, node)
        assert world.profile.run_reserve(cycle, info, node) is None

    benchmark.pedantic(turn, setup=setup, rounds=rounds, warmup_rounds=warmup)


@pytest.mark.parametrize("reservations", [0, RESERVATIONS])
def bench_strangers(benchmark: Any, reservations: int) -> None:
    world = cluster(100, reservations)
    place_each(benchmark, world, lambda: pod_of(world))


@pytest.mark.parametrize("reservations", [0, RESERVATIONS])
def bench_signing_strangers(benchmark: Any, reservations: int) -> None:
    world = cluster(100, reservations)
    benchmark.pedantic(world.profile.shapes.key, setup=lambda: ((pod_of(world),), {}), rounds=5000)


def bench_owner_of_1000_reservations_first(benchmark: Any) -> None:
    world, owners = cluster(10), count()
    place_each(benchmark, world, lambda: pod_of(world, f"o{next(owners)}"), rounds=10, warmup=0)


def bench_owner_of_1000_reservations(benchmark: Any) -> None:
    world = cluster(10)
    place_each(benchmark, world, lambda: pod_of(world, "o3", affinity="{}"), rounds=900)


def bench_owner_of_1000_reservations_without_affinity(benchmark: Any) -> None:
    world = cluster(10)
    place_each(benchmark, world, lambda: pod_of(world, "o3"), rounds=900)


@pytest.mark.parametrize("by_name", [False, True])
def bench_by_name(benchmark: Any, by_name: bool) -> None:
    """Each names another reservation, or is an equal plain pod."""
    world = cluster(100)
    names = iter([index for index in range(RESERVATIONS) if make_node(index % NODES).build().spec.taints == ()])

    def make() -> PodInfo:
        index = next(names)
        return pod_of(world, f"o{index // 100}", affinity=f'{{"name":"r{index}"}}') if by_name else pod_of(world)

    place_each(benchmark, world, make)


@pytest.mark.parametrize("owners", [False, True])
def bench_distinct(benchmark: Any, owners: bool) -> None:
    """Each pod is the first of its shape; owners: because it has two reservations of its own."""
    world, names = cluster(5000), count()

    def make() -> PodInfo:
        index = next(names)
        return pod_of(world, f"o{index}") if owners else pod_of(world, cpu=f"{300 + index}m")

    place_each(benchmark, world, make, rounds=1000)


def bench_a_reservation_changes(benchmark: Any) -> None:
    """One owner's share comes or goes: all that has to be counted and matched anew."""
    world = cluster(100)
    names = count()

    def change() -> None:
        index = next(names)
        world.reservations.put(
            available(f"r{index % 10000}", f"node-{index % NODES:05d}", {"cpu": "1", "memory": "1Gi"}, f"o{index % 10000 // 100}")
        )

    benchmark.pedantic(change, rounds=2000)
