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
from support.numa import holding, lsr, topology
from support.owners import WITH_OWNERS
from support.world import World

from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import ADDED, WatchEvent

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


def bench_pods_of_an_owner_of_1000_placeholders(benchmark: Any) -> None:
    world = cluster(owned=True)
    for index in range(0, 5000, 5):
        world.cache.credits.grant("many", f"held-{index}")
    place_each(benchmark, world, "many")


def bench_pods_that_take_what_their_placeholder_holds(benchmark: Any) -> None:
    """Each goes to the node of a placeholder, which holds less then: a row of the view is compiled anew for the next one."""
    world = cluster(owned=True)
    state: dict[str, Any] = {"left": 1000}

    def setup() -> None:
        if "pod" in state:
            world.cache.assume_pod(state["pod"], "node-00034")
            state["left"] = state["left"] - 1 or 1000
            held = pod("held-34").uid("held-34").cpu(f"{state['left']}m").memory("1Gi").host_port(8006).on("node-00034")
            world.cache.set_pod(held.info(counted_on_node=True), "node-00034")
            world.cache.forget_pod(state["pod"].uid)
        state["pod"] = pod_of(world, "o17", cpu="1m")

    benchmark.pedantic(lambda: world.search.find(world.profile, state["pod"]), setup=setup, rounds=2000, warmup_rounds=100)


def cluster_with_cpus() -> World:
    """Return 1,000 nodes of 32 CPUs with two placeholders of 4 CPUs each, and an owner for every two placeholders on neighbours."""
    world = World(WITH_OWNERS)
    for index in range(1000):
        name = f"node-{index:05d}"
        world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology(name, "1x2x8x2", memory=64 << 30)))
        made = make_node(index).cpu("32").build()
        world.informer(NODE)._objects.apply(WatchEvent(ADDED, made))
        world.cache.set_node(made)
        for place in range(2):
            uid = f"held-{index}-{place}"
            held = holding(lsr(cpus=4), f"{4 * place}-{4 * place + 3}").uid(uid).on(name)
            world.cache.set_pod(held.info(counted_on_node=True), name)
            world.cache.credits.grant(f"o{(index + place) % 1000}", uid)
    return world


@pytest.mark.parametrize("owner", ["", "o17"])
def bench_pods_with_cpus_of_their_own(benchmark: Any, owner: str) -> None:
    """Each on what the ones before it reserved; o17: an owner of two placeholders that hold CPUs."""
    world = cluster_with_cpus()
    state: dict[str, Any] = {}

    def setup() -> None:
        if "pod" in state:
            world.cache.assume_pod(state["pod"], state["node"])
            assert world.profile.run_reserve(state["state"], state["pod"], state["node"]) is None
        builder = lsr("web").uid(f"uid-{next(_serial)}")
        state["pod"] = world.signed((builder.label("owner", owner) if owner else builder).info())

    def search() -> None:
        state["state"], state["node"] = world.search.find(world.profile, state["pod"])

    benchmark.pedantic(search, setup=setup, rounds=800, warmup_rounds=50)


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
