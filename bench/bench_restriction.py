"""What does a pod cost that may not go everywhere? (docs/decisions/0014-restrictions-beside-shapes.md)

Limits at 5,000 nodes: restricted to 1 to 1,000 nodes at most 100 us, whoever restricts it and however its restriction differs from that of
the pod before; a preferred or nominated node that fits at most 60 us, also at 50,000 nodes. Counted beside the times: how many nodes the
filters were asked about for each pod.

Last measured (min and median, us, on two cores with much other work on them; an unrestricted pod 7 and 9):

    restricted to 1 / 10 / 100 / 1,000 rows, equal pods, another set each time     17, 23 / 26, 45 / 25, 30 / 33, 38
    restricted to 1 / 10 / 100 / 1,000 rows, each pod the first of its shape       47, 61 / 91, 102 / 92, 104 / 111, 125
    of a DaemonSet                        71, 80
    preferred node, 5,000 / 50,000 nodes  11, 13 / 11, 13
    nominated node, 5,000 / 50,000 nodes  10, 11 / 10, 11
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any

import pytest
from clusters import fresh, make_node
from msgspec.structs import replace
from support.builders import PodBuilder, pod, requirement
from support.world import Setup, World

from koordsched._core.change import NodeChange
from koordsched.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import Nodes
from koordsched.config import REFERENCE, Environment
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import PreferNodesPlugin, RestrictNodesPlugin, Rows
from koordsched.framework.status import SKIP, Status
from koordsched.plugins import REGISTRY

RANGE, FIRST = "bench/range", "bench/first"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    preFilter: {enabled: [{name: Range}, {name: First}]}
"""


class Range(RestrictNodesPlugin):
    """Restricts to so many rows from one on: what a gang's domain or a plugin's own index would give."""

    name = "Range"
    reads = NodeChange.EXISTENCE

    def restriction_key(self, pod: PodInfo) -> Hashable | None:
        return pod.pod.metadata.annotations.get(RANGE)

    def restrict(self, pod: PodInfo, nodes: Nodes) -> Rows:
        begin, size = map(int, pod.pod.metadata.annotations[RANGE].split())
        return nodes.rows[begin : begin + size]


class First(PreferNodesPlugin):
    name = "First"

    def prefer_nodes(self, _state: CycleState, pod: PodInfo) -> Sequence[str] | Status:
        name = pod.pod.metadata.annotations.get(FIRST)
        return SKIP if name is None else (name,)


def world_of(nodes: int) -> World:
    catalogue = REFERENCE.with_plugin("Range", frozenset({"preFilter"})).with_plugin("First", frozenset({"preFilter"}))
    registry: Any = {**REGISTRY, "Range": lambda _args, _handle: Range(), "First": lambda _args, _handle: First()}
    world = World(Setup(CONFIG, Environment(catalogue=catalogue), registry))
    for index in range(nodes):
        world.cache.set_node(make_node(index).build())
    return world


def place_each(benchmark: Any, world: World, make: Callable[[int], PodInfo], rounds: int = 1000) -> None:
    state: dict[str, Any] = {}
    serial = count()
    for _ in range(300):
        state["pod"] = make(next(serial))
        world.cache.assume_pod(state["pod"], str(world.search.find(world.profile, state["pod"])[1]))
    state.clear()
    before = asked(world)

    def setup() -> None:
        if "pod" in state:
            world.cache.assume_pod(state["pod"], state["node"])
        state["pod"] = make(next(serial))

    def algorithm() -> None:
        state["node"] = world.search.find(world.profile, state["pod"])[1]

    benchmark.pedantic(algorithm, setup=setup, rounds=rounds)
    benchmark.extra_info["nodes asked about a pod"] = round((asked(world) - before) / rounds, 1)


def _untainted(i: int, nodes: int) -> int:
    """Return the number of a node; every tenth node has a taint, and an even number."""
    return i * 37 % nodes | 1


def asked(world: World) -> int:
    """Return how many nodes NodeResourcesFit was asked about, of all shapes."""
    return int(world.profile.shapes._filter_counters["NodeResourcesFit"].count)


def web(world: World, **annotations: str) -> PodInfo:
    made = pod("web").cpu("50m").memory("64Mi")
    for key, value in annotations.items():
        made = made.annotation({"rows": RANGE, "first": FIRST}[key], value)
    return world.signed(fresh(made).info())


@pytest.mark.parametrize("size", [1, 10, 100, 1_000])
def bench_restricted_equal_pods_each_to_other_nodes_5000_nodes(benchmark: Any, size: int) -> None:
    world = world_of(5_000)
    place_each(benchmark, world, lambda i: web(world, rows=f"{i * 37 % (5_001 - size)} {size}"))


@pytest.mark.parametrize("size", [1, 10, 100, 1_000])
def bench_restricted_pods_that_all_differ_5000_nodes(benchmark: Any, size: int) -> None:
    """Each is the first of its shape."""
    world = world_of(5_000)

    def make(i: int) -> PodInfo:
        made = pod("job").cpu(f"{10 + i}m").memory("64Mi").annotation(RANGE, f"{i * 37 % (5_001 - size)} {size}")
        return world.signed(fresh(made).info())

    place_each(benchmark, world, make)


@pytest.mark.parametrize("nodes", [5_000, 50_000])
def bench_preferred_node(benchmark: Any, nodes: int) -> None:
    world = world_of(nodes)
    place_each(benchmark, world, lambda i: web(world, first=f"node-{_untainted(i, nodes):05d}"))


@pytest.mark.parametrize("nodes", [5_000, 50_000])
def bench_nominated_node(benchmark: Any, nodes: int) -> None:
    world = world_of(nodes)

    def make(i: int) -> PodInfo:
        info = fresh(pod("web").cpu("50m").memory("64Mi").nominated(f"node-{_untainted(i, nodes):05d}")).info()
        return world.signed(info)

    place_each(benchmark, world, make)


def bench_daemonset_pods_5000_nodes(benchmark: Any) -> None:
    """Pods whose node affinity names their node: PreFilter of each shape restricts it."""
    world = world_of(5_000)

    def make(i: int) -> PodInfo:
        named = NodeSelectorTerm(match_fields=(requirement("metadata.name", "In", f"node-{_untainted(i, 5_000):05d}"),))
        affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=NodeSelector((named,))))
        made = pod("daemon").cpu("50m").build()
        return world.signed(fresh(PodBuilder(replace(made, spec=replace(made.spec, affinity=affinity)))).info())

    place_each(benchmark, world, make)


def bench_unrestricted_pods_beside_5000_nodes(benchmark: Any) -> None:
    world = world_of(5_000)
    place_each(benchmark, world, lambda _: web(world))
