"""What does a node event cost while 100,000 pods are pending and unschedulable?

Limit: at most 20 us per event and affected shape, and no retry that cannot succeed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from clusters import cluster, fresh
from support.builders import NodeBuilder, node, pod
from support.world import NoCluster

from koordsched.api.core import Node
from koordsched.config import SchedulerConfiguration, empty_config
from koordsched.config.flags import parse_flags
from koordsched.framework.row_refusals import NO_REFUSALS
from koordsched.queue.event_detection import node_events
from koordsched.scheduler.scheduler import Dependencies, Scheduler

PENDING = 100_000
SHAPES = 10
EVENTS = 500


def bench_node_event_with_100000_unschedulable_pods(benchmark: Any) -> None:
    """One NodeUpdate (allocatable grows, but not enough), put to 10 shapes of 10,000 pods each; the row's time is for all 10."""
    asyncio.run(node_events_while_pods_wait(benchmark, empty_config()))


async def node_events_while_pods_wait(benchmark: Any, config: SchedulerConfiguration) -> None:
    world = cluster(0)
    scheduler = Scheduler(config, Dependencies(NoCluster(), world.clock, world.random, parse_flags([])))  # type: ignore[arg-type]
    profile = scheduler.profiles["default-scheduler"]
    current: dict[int, NodeBuilder] = {}
    for index in range(5_000):
        current[index] = node(f"node-{index}").cpu("4").memory("16Gi").pods(110)
        scheduler.cache.set_node(current[index].build())
    for index in range(5_000):  # no room left
        scheduler.cache.set_pod(fresh(pod("full").cpu("3500m")).on(f"node-{index}").info(counted_on_node=True), f"node-{index}")
    for index in range(PENDING):
        info = fresh(pod(f"p{index}").cpu(f"{1000 + index % SHAPES}m")).info()
        info.shape = profile.shapes.key(info)
        scheduler.queue.add(info)
    while (item := scheduler.queue.pop()) is not None:
        _fail(scheduler, item)
    assert scheduler.queue.sizes().unschedulable == PENDING
    attempts = sum(info.attempts for info in scheduler.queue.pending())
    tick = iter(range(10_000_000))

    def change() -> tuple[tuple[Node, Node], dict[str, Any]]:
        index = next(tick)
        old = current[index % 5_000]
        current[index % 5_000] = old.cpu(f"{4000 + 1 + index // 5_000}m")  # grows, yet stays too small
        return (old.build(), current[index % 5_000].build()), {}

    def event(old: Node, new: Node) -> None:
        scheduler.cache.set_node(new)
        for happened in node_events(old, new):
            scheduler.queue.move_all(happened, old, new)

    benchmark.pedantic(event, setup=change, rounds=EVENTS, warmup_rounds=50)
    assert scheduler.queue.pop() is None
    assert sum(info.attempts for info in scheduler.queue.pending()) == attempts  # not one retry
    if benchmark.enabled:
        benchmark.extra_info["us_per_event_and_shape"] = round(benchmark.stats.stats.mean * 1e6 / SHAPES, 2)


def _fail(scheduler: Scheduler, item: Any) -> None:
    """Let the attempt end as the failure path does, without a cluster to write to."""
    profile = scheduler.profiles["default-scheduler"]
    shape = profile.shapes.pre_filter(item.pod_info)
    profile.shapes.filter(shape, item.pod_info)
    diagnosis = profile.shapes.diagnoses.of_shape(shape, item.pod_info, NO_REFUSALS)
    item.unschedulable_plugins = set(diagnosis.plugins)
    item.rejected_in_filter = True
    scheduler.queue.add_unschedulable_if_not_present(item)
