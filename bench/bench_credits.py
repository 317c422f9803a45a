"""What does capacity that belongs to owners cost, with 10,000 placeholders of 5,000 owners on 5,000 nodes?

Limits: pods without an owner at most 2 us more than in a cluster in which no owner has anything; an owner's first pod at most 1 ms more
than the first pod of another shape, and 20 us more after that.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from clusters import make_node
from support.builders import pod
from support.owners import WITH_OWNERS
from support.world import World

from koordsched.api.podinfo import PodInfo

NODES = 5_000
OWNERS = 5_000
_serial = count()


def cluster(*, owned: bool) -> World:
    """Return 5,000 nodes with two placeholders each; owned: with an owner for every two of them."""
    world = World(WITH_OWNERS)
    for index in range(NODES):
        world.cache.set_node(make_node(index).build())
    for index in range(2 * OWNERS):
        name = f"node-{index % NODES:05d}"
        held = pod(f"held-{index}").uid(f"held-{index}").cpu("1").memory("1Gi").host_port(8000 + index % 7).on(name)
        world.cache.set_pod(held.info(counted_on_node=True), name)
        if owned:
            world.cache.credits.grant(f"o{index // 2}", f"held-{index}")
    return world


def pod_of(world: World, owner: str = "", cpu: str = "500m") -> PodInfo:
    builder = pod("web").uid(f"uid-{next(_serial)}").cpu(cpu).memory("512Mi")
    return world.signed((builder.label("owner", owner) if owner else builder).info())


def place_each(benchmark: Any, world: World, owner: str) -> None:
    """Time the search for pods of one owner, each on what the ones before it took."""
    state: dict[str, Any] = {}

    def setup() -> None:
        if "pod" in state:
            world.cache.assume_pod(state["pod"], state["node"])
        state["pod"] = pod_of(world, owner)

    def search() -> None:
        state["node"] = world.search.find(world.profile, state["pod"])[1]

    benchmark.pedantic(search, setup=setup, rounds=2000, warmup_rounds=100)


@pytest.mark.parametrize("owned", [False, True])
def bench_pods_without_an_owner(benchmark: Any, owned: bool) -> None:
    place_each(benchmark, cluster(owned=owned), "")


def bench_pods_of_one_owner(benchmark: Any) -> None:
    place_each(benchmark, cluster(owned=True), "o17")


@pytest.mark.parametrize("owned", [False, True])
def bench_first_pod_of_each_owner(benchmark: Any, owned: bool) -> None:
    """Each pod is the first of its shape; owned: and of an owner with two placeholders."""
    world, owners = cluster(owned=owned), count()

    def setup() -> tuple[tuple[PodInfo], dict[str, Any]]:
        return (pod_of(world, f"o{next(owners)}"),), {}

    benchmark.pedantic(lambda info: world.search.find(world.profile, info), setup=setup, rounds=500, warmup_rounds=20)


def bench_a_change_of_credits(benchmark: Any) -> None:
    """Nothing that is known of pods without an owner is asked again."""
    world = cluster(owned=True)
    info = pod_of(world)
    for _ in range(2):
        world.find(info)
    shape = world.profile.shapes.pre_filter(info)
    changes = count()
    benchmark.pedantic(lambda: world.cache.credits.grant("o17", f"new-{next(changes)}"), rounds=1000)
    assert shape.prepared
    assert shape.evaluation.is_current()
