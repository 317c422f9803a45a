"""What does LoadAwareScheduling cost at 5,000 nodes, each with a NodeMetric of its node and ten pods?

Its share of a new shape: Filter and Score of all nodes, limit 40 us. Pods of one shape from pop to assumption: limit 65 us. A NodeMetric
that comes: limit 50 us, so that the 5,000 of a minute take at most 1 % of a core, 600 ms. A NodeMetric while 10,000 pods wait that the
plugin refused: limit 20 us above that. Memory: at most 1 KiB a node, without the objects themselves.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from itertools import count
from typing import Any

from clusters import fresh, make_node
from support.builders import pod
from support.loads import metric, pod_usage
from support.world import EMPTY_CONFIG, NoCluster, Setup, World

from koordsched._core.load import filter_load, score_load
from koordsched.api.kinds import NODE, NODE_METRIC
from koordsched.api.koordinator.measurements import NodeMetric
from koordsched.clock import RealClock
from koordsched.config import Environment, load_config_text
from koordsched.config.flags import parse_flags
from koordsched.framework.row_refusals import NO_REFUSALS
from koordsched.plugins.loadaware.plugin import LoadAwareScheduling, load_state
from koordsched.plugins.loadaware.state import LoadState
from koordsched.queue.events import ActionType, EventResource, cluster_event
from koordsched.scheduler.scheduler import Dependencies, Scheduler

NODES, PODS, REFUSED = 5_000, 10, 10_000
CONFIG = f"{EMPTY_CONFIG}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: LoadAwareScheduling}}]}}}}}}]\n"
WITHOUT = f"{EMPTY_CONFIG}profiles: [{{}}]\n"
_serial = count()


def bench_share_of_a_new_shape(benchmark: Any) -> None:
    world = _world()
    plugin = _plugin(world)
    rows = world.cache.nodes().rows

    estimate = plugin._estimator.estimate(pod("web").cpu("2").info())
    assert not filter_load(plugin._table, estimate, rows).any()
    assert score_load(plugin._table, estimate, plugin._scoring, rows).any()

    def kernels() -> None:
        filter_load(plugin._table, estimate, rows)
        score_load(plugin._table, estimate, plugin._scoring, rows)

    benchmark.pedantic(kernels, rounds=2000, warmup_rounds=20)
    benchmark.extra_info["rows"] = len(rows)


def bench_identical_pods(benchmark: Any) -> None:
    _place(benchmark, _world())


def bench_identical_pods_without_the_plugin(benchmark: Any) -> None:
    _place(benchmark, _world(WITHOUT))


def _place(benchmark: Any, world: World) -> None:
    def one() -> None:
        info = world.signed(fresh(pod("web").cpu("500m").memory("512Mi")).info())
        _, found = world.search.find(world.profile, info)
        assert isinstance(found, str)
        world.cache.assume_pod(info, found)

    benchmark.pedantic(one, rounds=3000, warmup_rounds=50)


def bench_a_node_metric_comes(benchmark: Any) -> None:
    """As the informer reports it, and the shapes that were asked before are brought up to date with its row."""
    world = _world()
    state = load_state(world)
    metrics = [_metric(next(_serial)) for _ in range(2000)]
    arriving = iter(metrics)
    benchmark.pedantic(lambda: state.set_metric(next(arriving), is_news=True), rounds=2000)
    benchmark.extra_info["a minute of 5,000, ms"] = round(benchmark.stats.stats.mean * NODES * 1e3)


def bench_a_node_metric_with_10000_refused_pods(benchmark: Any) -> None:
    """The event of a metric that lets none of them pass, put to the one shape that they have; its columns are brought up to date."""
    asyncio.run(_metric_events_while_pods_wait(benchmark))


async def _metric_events_while_pods_wait(benchmark: Any) -> None:
    world = World()
    config = load_config_text(CONFIG, Environment())
    scheduler = Scheduler(config, Dependencies(NoCluster(), world.clock, world.random, parse_flags([])))  # type: ignore[arg-type]
    profile = scheduler.profiles["default-scheduler"]
    state = scheduler.cache.shared.one(LoadState, _never)
    for index in range(NODES):
        made = make_node(index).build()
        state.set_node(made)
        scheduler.cache.set_node(made)
        state.set_metric(_hot(index), is_news=False)
    for index in range(REFUSED):
        info = fresh(pod(f"p{index}").cpu("1")).info()
        info.shape = profile.shapes.key(info)
        scheduler.queue.add(info)
    while (item := scheduler.queue.pop()) is not None:
        shape = profile.shapes.pre_filter(item.pod_info)
        profile.shapes.filter(shape, item.pod_info)
        item.unschedulable_plugins = set(profile.shapes.diagnoses.of_shape(shape, item.pod_info, NO_REFUSALS).plugins)
        item.rejected_in_filter = True
        scheduler.queue.add_unschedulable_if_not_present(item)
    assert scheduler.queue.sizes().unschedulable == REFUSED
    event = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, NODE_METRIC.plural_group)

    def change() -> tuple[tuple[NodeMetric], dict[str, Any]]:
        measured = _hot(next(_serial))
        state.set_metric(measured, is_news=False)
        return (measured,), {}

    benchmark.pedantic(lambda measured: scheduler.queue.move_all(event, measured, measured), setup=change, rounds=1000, warmup_rounds=50)
    assert scheduler.queue.pop() is None  # not one retry


def _hot(serial: int) -> NodeMetric:
    return metric(f"node-{serial % NODES:05d}", f"{30000 + serial % 2000}m", "1Gi", at=RealClock().now())


def _never() -> LoadState:
    raise LookupError("the plugin has made it")


def bench_memory(benchmark: Any) -> None:
    """What the plugin keeps of 5,000 nodes with metrics, on which no pods are counted."""
    world = _world(fill=False)
    nodes = [make_node(index).build() for index in range(NODES)]
    metrics = [_metric(index) for index in range(NODES)]
    state = load_state(world)
    gc.collect()
    tracemalloc.start()
    for each in nodes:
        world.informer(NODE).store[each.metadata.name] = each
        state.set_node(each)
    for measured in metrics:
        state.set_metric(measured, is_news=False)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    benchmark.pedantic(lambda: None)
    benchmark.extra_info["bytes a node"] = kept // NODES
    assert kept // NODES <= 1024


def _world(config: str = CONFIG, *, fill: bool = True) -> World:
    world = World(Setup(config))
    if not fill:
        return world
    for index in range(NODES):
        made = make_node(index).build()
        if config is CONFIG:
            world.informer(NODE).store[made.metadata.name] = made
            load_state(world).set_node(made)
        world.cache.set_node(made)
        for number in range(PODS):
            builder = pod(f"p{index}-{number}").cpu("100m").memory("128Mi").on(made.metadata.name)
            world.cache.set_pod(builder.info(counted_on_node=True), made.metadata.name)
        if config is CONFIG:
            measured = _metric(index)
            world.informer(NODE_METRIC).store[made.metadata.name] = measured
            load_state(world).set_metric(measured, is_news=False)
    gc.collect()
    gc.freeze()
    return world


def _metric(serial: int) -> NodeMetric:
    """Make the metric of a node; its numbers are other ones each time, as koordlet's are."""
    index = serial % NODES
    pods = [
        pod_usage(f"p{index}-{number}", f"{50 + (serial * 7 + number) % 400}m", str(10**8 + serial * 4096 + number))
        for number in range(PODS)
    ]
    return metric(f"node-{index:05d}", f"{2000 + serial % 9000}m", str(10**10 + serial * 4096), at=RealClock().now(), pods=pods)


def _plugin(world: World) -> LoadAwareScheduling:
    found = world.profile.made[LoadAwareScheduling.name]
    assert isinstance(found, LoadAwareScheduling)
    return found
