"""How long does it take to choose a node, and from pop to assumed, while all nodes are looked at?

Limits: identical pods at most 60 us in the algorithm and 150 us from pop to assumed at 5,000 nodes; pods that all differ at most
400 us; identical pods at 50,000 nodes at most twice the cost at 5,000.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from clusters import Searching, cluster, different_pod, identical_pod
from support.world import NoCluster, World

from koordsched.api.podinfo import PodInfo
from koordsched.config import empty_config
from koordsched.config.flags import parse_flags
from koordsched.scheduler.binding_tasks import BindingTasks
from koordsched.scheduler.scheduler import Dependencies, Scheduler

ROUNDS = 2000


def place_each(benchmark: Any, world: Searching, make: Callable[[Searching], PodInfo], rounds: int = ROUNDS) -> None:
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
    asyncio.run(_on_plain_nodes(benchmark, cluster(5_000)))


async def _on_plain_nodes(benchmark: Any, world: World) -> None:
    scheduler = Scheduler(empty_config(), Dependencies(NoCluster(), world.clock, world.random, parse_flags([])))  # type: ignore[arg-type]
    for info in world.cache.nodes_by_name.values():
        assert info.node is not None
        scheduler.cache.set_node(info.node)
    await pop_to_assumed(benchmark, scheduler)


async def pop_to_assumed(benchmark: Any, scheduler: Scheduler) -> None:
    """Time queue.pop and the whole scheduling cycle, with metrics, Reserve, Permit and the start of the binding task."""
    signing = SchedulerSigning(scheduler)

    def setup() -> None:
        _stop_binding(scheduler)
        scheduler.queue.add(identical_pod(signing))

    def schedule() -> None:
        info = scheduler.queue.pop()
        assert info is not None
        scheduler.cycle.schedule(info)

    benchmark.pedantic(schedule, setup=setup, rounds=ROUNDS, warmup_rounds=200)
    _stop_binding(scheduler)
    await asyncio.sleep(0)


class SchedulerSigning(NamedTuple):
    """Gives pods their shapes as a whole scheduler does."""

    scheduler: Scheduler

    def signed(self, pod: PodInfo) -> PodInfo:
        pod.shape = self.scheduler.profiles["default-scheduler"].shapes.key(pod)
        return pod


def _stop_binding(scheduler: Scheduler) -> None:
    """Leave the pods assumed; the next one gets a binding task of its own."""
    for task in scheduler.cycle.binding.tasks.drop():
        task.cancel()
    scheduler.cycle.binding.tasks = BindingTasks()
