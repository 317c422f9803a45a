"""How long does it take to place a pod that looks at other pods, on 5,000 nodes, and does it matter how many pods there are?

Limits, find and assume together, mean of a pod: required terms at most 300 us, preferred ones at most 400 us; with 100,000 bound
pods at most 1.3 times the cost with 10,000.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import Any

import pytest
from clusters import fresh, make_node
from support.affinity import Far, NamespacedWorld, Near, selector, term, with_affinity
from support.builders import PodBuilder, pod

from koordsched.api.podinfo import PodInfo

ROUNDS = 1000
APPS = 200
HOST, ZONE = "kubernetes.io/hostname", "zone"
TEAM = selector({"team": "blue"})


def bound(index: int) -> PodInfo:
    """Make a bound pod of one of 200 applications in one of 20 namespaces."""
    made = pod("old", f"ns-{index % 20}").label("app", f"app-{index % APPS}").cpu("100m")
    return fresh(made.on(f"node-{index * 7 % 5000:05d}")).info(counted_on_node=True)


@cache
def crowded(pods: int) -> NamespacedWorld:
    """Return a world of 5,000 nodes with this many bound pods in namespaces of which half belong to a team."""
    world = NamespacedWorld()
    for index in range(5_000):
        world.cache.set_node(make_node(index).build())
    for index in range(20):
        world.set_namespace(f"ns-{index}", {"team": "blue"} if index % 2 else {})
    for index in range(pods):
        info = bound(index)
        world.cache.set_pod(info, info.pod.spec.node_name)
    gc.collect()
    gc.freeze()
    return world


def new(app: str, namespace: str = "ns-0") -> PodBuilder:
    return pod("new", namespace).label("app", app).cpu("100m")


SHAPES = {
    "affinity_zone": with_affinity(new("app-0"), Near(required=[term(ZONE, {"app": "app-0"})])),
    "affinity_to_itself": with_affinity(new("near"), Near(required=[term(ZONE, {"app": "near"})])),
    "anti_affinity_hostname": with_affinity(new("far"), far=Far(required=[term(HOST, {"app": "far"})])),
    "anti_affinity_zone": with_affinity(new("alone"), far=Far(required=[term(ZONE, {"app": "app-1"}, namespaces=("ns-7",))])),
    "namespace_selector": with_affinity(new("spread", "ns-1"), far=Far(required=[term(HOST, {"app": "spread"}, namespace_selector=TEAM)])),
    "preferred": with_affinity(
        new("liked"), Near(preferred=[(50, term(ZONE, {"app": "app-0"}))]), Far(preferred=[(10, term(HOST, {"app": "liked"}))])
    ),
    "plain": new("plain"),
}


@pytest.mark.parametrize("pods", [10_000, 100_000])
@pytest.mark.parametrize("shape", sorted(SHAPES))
def bench_find_and_assume(benchmark: Any, shape: str, pods: int) -> None:
    world, state = crowded(pods), {}  # type: tuple[NamespacedWorld, dict[str, PodInfo]]
    placed: list[PodInfo] = []

    def setup() -> None:
        state["pod"] = world.signed(fresh(SHAPES[shape]).info())

    def find_and_assume() -> None:
        info = state["pod"]
        node = world.search.find(world.profile, info)[1]
        world.cache.assume_pod(info, node)  # type: ignore[arg-type]
        placed.append(info)

    benchmark.pedantic(find_and_assume, setup=setup, rounds=ROUNDS, warmup_rounds=50)
    for info in placed:
        world.cache.forget_pod(info.uid)
