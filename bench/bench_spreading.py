"""What does topology spreading cost a pod, and does that grow with the pods that run?

Limits: hard zone, hard host and soft spread (the system's defaults for a ReplicaSet) at most 300 us from find to assumed at 5,000
nodes and 10,000 running pods, and at most 1.3 times that with 100,000.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from clusters import fresh
from support.builders import PodBuilder, node, pod
from support.world import World

from koordsched.api.core import TopologySpreadConstraint
from koordsched.api.groups import ReplicaSet, ReplicaSetSpec
from koordsched.api.kinds import REPLICA_SET
from koordsched.api.meta import LabelSelector, ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import ADDED, WatchEvent

NODES = 5_000
ZONES = 10
APPS = 50
ROUNDS = 1000
SELECTOR = LabelSelector(match_labels={"app": "app-0"})


def running(pods: int) -> World:
    """Return a world whose nodes run this many pods of 50 applications."""
    world = World()
    for index in range(NODES):
        made = node(f"node-{index:05d}").cpu("64").memory("256Gi").pods(500).zone(f"z{index % ZONES}")
        world.cache.set_node(made.build())
    for index in range(pods):
        name = f"node-{index % NODES:05d}"
        made_pod = fresh(pod("running").label("app", f"app-{index % APPS}").cpu("10m")).on(name)
        world.cache.set_pod(made_pod.info(counted_on_node=True), name)
    gc.collect()
    gc.freeze()
    return world


def spread(key: str) -> PodBuilder:
    constraint = TopologySpreadConstraint(max_skew=1, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=SELECTOR)
    return web().spread(constraint)


def web() -> PodBuilder:
    return pod("web").label("app", "app-0").cpu("10m").memory("10Mi")


def place_each(benchmark: Any, world: World, template: PodBuilder) -> None:
    """Time find and assume, which updates the counts; signing comes before."""
    next_pod: list[PodInfo] = []

    def setup() -> None:
        next_pod[:] = [world.signed(fresh(template).info())]

    benchmark.pedantic(lambda: world.place(next_pod[0]), setup=setup, rounds=ROUNDS, warmup_rounds=100)


@pytest.mark.parametrize("pods", [10_000, 100_000])
def bench_hard_zone_spread_5000_nodes(benchmark: Any, pods: int) -> None:
    place_each(benchmark, running(pods), spread("topology.kubernetes.io/zone"))


@pytest.mark.parametrize("pods", [10_000, 100_000])
def bench_hard_host_spread_5000_nodes(benchmark: Any, pods: int) -> None:
    place_each(benchmark, running(pods), spread("kubernetes.io/hostname"))


@pytest.mark.parametrize("pods", [10_000, 100_000])
def bench_system_default_spread_5000_nodes(benchmark: Any, pods: int) -> None:
    world = running(pods)
    replicas = ReplicaSet(
        metadata=ObjectMeta(name="web", namespace="default", resource_version="1"), spec=ReplicaSetSpec(selector=SELECTOR)
    )
    world.informer(REPLICA_SET)._objects.apply(WatchEvent(ADDED, replicas))
    place_each(benchmark, world, web().owned_by("apps/v1", "ReplicaSet", "web"))
