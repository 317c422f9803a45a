"""What does it cost to take over running pods (pre-allocation), with 20,000 of them on 5,000 nodes?

Each node runs four pods of 100 applications; half of all pods have the cluster's label. An application has 200 pods.

Last measured (minimum; niced to -20 on one of two cores, empty loop of 10^7 then some 0.3 s, November 2026): the first of its kind 2.1 ms
with 200 candidates, 1.5 ms with 10,000 (mode Cluster); the next ones 39 and 350 us, where one that takes over nothing takes 17 us; a pod
that comes and goes 10.5 us, 15.3 us where a Reservation waits for such pods. The very first one of mode Cluster, in CPU time beside
others: 43 to 52 ms, of which 0.5 are signing; it was 140 to 215 when it had to look for its candidates, which are known from the start
now where that mode is enabled.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from bench_reservation import place_each
from clusters import make_node
from msgspec.structs import replace
from support.builders import pod
from support.reservations import ReservationWorld, available
from support.world import Setup

from koordsched.api.koordinator.reservations import ReservationStatus
from koordsched.api.podinfo import PodInfo

NODES = 5_000
APPLICATIONS = 100
LABEL = "pod.koordinator.sh/is-pre-allocatable"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Reservation, weight: 5000}]}
  pluginConfig: [{name: Reservation, args: {preAllocationConfig: {enableClusterMode: true}}}]
"""
_serial = count()


def cluster() -> ReservationWorld:
    world = ReservationWorld(Setup(CONFIG))
    for index in range(NODES):
        world.cache.set_node(make_node(index).build())
    for index in range(4 * NODES):
        run(world, index)
    return world


def run(world: ReservationWorld, index: int) -> PodInfo:
    builder = pod(f"p{index}").uid(f"uid-p{index}").cpu("1").memory("1Gi").label("app", f"o{index % APPLICATIONS}")
    builder = builder.label(LABEL, "true") if index % 2 else builder
    made = builder.on(f"node-{index % NODES:05d}").info(counted_on_node=True)
    world.cache.set_pod(made, f"node-{index % NODES:05d}")
    return made


def reserve_pod(world: ReservationWorld, owner: int, mode: str, cpu: str = "2", *, takes_over: bool = True) -> PodInfo:
    policy = {"mode": mode, "enableMultiple": True}
    made = available(
        f"r{next(_serial)}", "", {"cpu": cpu, "memory": "2Gi"}, f"o{owner}", preAllocation=takes_over, preAllocationPolicy=policy
    )
    return world.signed(PodInfo.of_reservation(replace(made, status=ReservationStatus())))


def bench_without_taking_over(benchmark: Any) -> None:
    world = cluster()
    place_each(benchmark, world, lambda: reserve_pod(world, 1, "Default", takes_over=False), rounds=300)


@pytest.mark.parametrize("mode", ["Default", "Cluster"])
def bench_the_very_first(benchmark: Any, mode: str) -> None:
    """No Reservation has looked for running pods before."""

    def setup() -> tuple[tuple[ReservationWorld], dict[str, Any]]:
        return (cluster(),), {}

    def turn(world: ReservationWorld) -> None:
        world.search.find(world.profile, reserve_pod(world, 0, mode))

    benchmark.pedantic(turn, setup=setup, rounds=3)


@pytest.mark.parametrize("mode", ["Default", "Cluster"])
def bench_first_of_its_kind(benchmark: Any, mode: str) -> None:
    """Signing, which finds the candidates, included."""
    world, owners = cluster(), count()
    reserve_pod(world, 0, mode)
    state: dict[str, Any] = {}

    def turn() -> None:
        number = next(owners)
        info = reserve_pod(world, number % APPLICATIONS, mode, f"{2000 + number}m")
        state["found"] = world.search.find(world.profile, info)

    benchmark.pedantic(turn, rounds=20)
    assert isinstance(state["found"][1], str)


@pytest.mark.parametrize("mode", ["Default", "Cluster"])
def bench_next_of_a_kind(benchmark: Any, mode: str) -> None:
    world = cluster()
    reserve_pod(world, 1, mode)
    place_each(benchmark, world, lambda: reserve_pod(world, 1, mode), rounds=40, warmup=2)


@pytest.mark.parametrize("follows", [False, True])
def bench_a_pod_comes_and_goes(benchmark: Any, follows: bool) -> None:
    """follows: a Reservation waits for such pods."""
    world = cluster()
    kept = reserve_pod(world, 1, "Default") if follows else None
    serial = count(100 * NODES + 1, APPLICATIONS)

    def turn() -> None:
        world.cache.remove_pod(run(world, next(serial)).uid)

    benchmark.pedantic(turn, rounds=3000, warmup_rounds=10)
    assert kept is None or kept.shape is not None
