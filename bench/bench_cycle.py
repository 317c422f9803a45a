"""How long does it take to choose a node, and from pop to assumed, while all nodes are looked at?

Limits: identical pods at most 60 us in the algorithm and 150 us from pop to assumed at 5,000 nodes; pods that all differ at most
400 us; identical pods at 50,000 nodes at most twice the cost at 5,000.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from clusters import cluster, different_pod, identical_pod
from support.world import NoCluster, World

from koordsched.api.podinfo import PodInfo
from koordsched.config import SchedulerConfiguration, empty_config
from koordsched.config.flags import parse_flags
from koordsched.scheduler.binding_tasks import BindingTasks
from koordsched.scheduler.scheduler import Dependencies, Scheduler

ROUNDS = 2000


def place_each(benchmark: Any, world: World, make: Callable[[World], PodInfo], rounds: int = ROUNDS) -> None:
    """Time the algorithm alone: signing comes before it and assuming after it, as in a cycle."""
    state: dict[str, Any] = {}  # the pod of this round, and its node once there is one

    def setup() -> None:
        if "pod" in state:
            world.cache.assume_pod(state["pod"], state["node"])
        state["pod"] = make(world)

    def algorithm() -> None:
        state["node"] = world.search.find(world.profile, state["pod"])[1]

    benchmark.pedantic(algorithm, setup=setup, rounds=rounds, warmup_rounds=200)


@pytest.mark.parametrize("nodes", [5_000, 50_000])
def bench_algorithm_identical_pods(benchmark: Any, nodes: int) -> None:
    place_each(benchmark, cluster(nodes), identical_pod)


def bench_algorithm_pods_that_all_differ_5000_nodes(benchmark: Any) -> None:
    place_each(benchmark, cluster(5_000), different_pod, rounds=1000)


def bench_pop_to_assumed_identical_pods_5000_nodes(benchmark: Any) -> None:
    asyncio.run(pop_to_assumed(benchmark, cluster(5_000), empty_config()))


async def pop_to_assumed(benchmark: Any, world: World, config: SchedulerConfiguration) -> None:
    """Time queue.pop and the whole scheduling cycle, with metrics, Reserve, Permit and the start of the binding task."""
    scheduler = Scheduler(config, Dependencies(NoCluster(), world.clock, world.random, parse_flags([])))  # type: ignore[arg-type]
    for info in world.cache.nodes_by_name.values():
        assert info.node is not None
        scheduler.cache.set_node(info.node)
    profile = scheduler.profiles["default-scheduler"]

    def setup() -> None:
        _stop_binding(scheduler)
        info = identical_pod(world)
        info.shape = profile.shapes.key(info)
        scheduler.queue.add(info)

    def schedule() -> None:
        info = scheduler.queue.pop()
        assert info is not None
        scheduler.cycle.schedule(info)

    benchmark.pedantic(schedule, setup=setup, rounds=ROUNDS, warmup_rounds=200)
    _stop_binding(scheduler)
    await asyncio.sleep(0)


def _stop_binding(scheduler: Scheduler) -> None:
    """Leave the pods assumed; the next one gets a binding task of its own."""
    for task in scheduler.cycle.binding.tasks.drop():
        task.cancel()
    scheduler.cycle.binding.tasks = BindingTasks()
