"""What does it cost to place gangs by the network: 10,000 nodes in 16 spines of 16 blocks, 200 gangs of 64 with MustGather Block?

Limits: planning at most 20 ms a gang. `plan` is the planning alone, `turn` the whole turn of a gang; a first gang also evaluates all nodes.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from bench_gangs import configuration, take_turn
from clusters import make_node
from support.builders import pod
from support.world import NoCluster

from koordsched.api.kinds import CLUSTER_NETWORK_TOPOLOGY, NODE, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.gangs import (
    ClusterNetworkTopology,
    ClusterNetworkTopologySpec,
    NetworkTopologyLayer,
    PodGroup,
    PodGroupSpec,
)
from koordsched.api.koordinator.network_topology import TOPOLOGY_SPEC
from koordsched.api.meta import ObjectMeta
from koordsched.clock import RealClock
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.config import Environment, load_config_object
from koordsched.config.flags import parse_flags
from koordsched.plugins.coscheduling.topology_plan import TopologyPlan
from koordsched.scheduler.scheduler import Dependencies, Scheduler

NODES, GANGS, MEMBERS = 10_000, 200, 64
LAYERS = (
    NetworkTopologyLayer("Spine", "", ("spine",)),
    NetworkTopologyLayer("Block", "Spine", ("block",)),
    NetworkTopologyLayer("Rack", "Block", ("rack",)),
    NetworkTopologyLayer("NodeTopologyLayer", "Rack"),
)
SPEC = '{"gatherStrategy":[{"layer":"Block","strategy":"MustGather"}]}'


def new_scheduler() -> Scheduler:
    settings = configuration(preempts=False)
    settings["profiles"][0]["pluginConfig"] = [{"name": "Coscheduling", "args": {"awareNetworkTopology": True}}]
    config = load_config_object(settings, Environment())
    flags = parse_flags(["--enable-network-topology-manager=true"])
    scheduler = Scheduler(config, Dependencies(NoCluster(), RealClock(), random.Random(1), flags))  # type: ignore[arg-type]
    spec = ClusterNetworkTopologySpec(LAYERS)
    topology = ClusterNetworkTopology(metadata=ObjectMeta(name="default", uid="t"), spec=spec)
    scheduler._informers.of(CLUSTER_NETWORK_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology))
    for index in range(NODES):
        made = make_node(index)
        for key, size in (("spine", 640), ("block", 40), ("rack", 8)):
            made = made.label(key, f"{key}-{index // size}")
        scheduler._informers.of(NODE)._objects.apply(WatchEvent(ADDED, made.build()))
    return scheduler


def arrive(scheduler: Scheduler, gang: str) -> None:
    metadata = ObjectMeta(name=gang, namespace="default", uid=f"group-{gang}", annotations={TOPOLOGY_SPEC: SPEC})
    group = PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=MEMBERS))
    scheduler._informers.of(POD_GROUP)._objects.apply(WatchEvent(ADDED, group))
    for number in range(MEMBERS):
        name = f"{gang}-{number:02d}"
        made = pod(name).cpu("4").memory("4Gi").label(POD_GROUP_LABEL, gang).uid(f"uid-{name}").build()
        scheduler._informers.of(POD)._objects.apply(WatchEvent(ADDED, made))


def bench_topology_gangs(benchmark: Any, monkeypatch: Any) -> None:
    loop = asyncio.new_event_loop()
    planning: list[float] = []
    prepare, nodes = TopologyPlan.prepare, TopologyPlan.nodes

    def timed_prepare(*args: Any) -> Any:
        started = time.thread_time()
        try:
            return prepare(*args)
        finally:
            planning.append(time.thread_time() - started)

    def timed_nodes(*args: Any) -> Any:
        started = time.thread_time()
        try:
            return nodes(*args)
        finally:
            planning[-1] += time.thread_time() - started

    monkeypatch.setattr(TopologyPlan, "prepare", timed_prepare)
    monkeypatch.setattr(TopologyPlan, "nodes", timed_nodes)

    async def run() -> None:
        scheduler = new_scheduler()
        for number in range(GANGS):
            arrive(scheduler, f"g{number:03d}")

        def one() -> None:
            info = scheduler.queue.pop()
            assert info is not None
            take_turn(scheduler, info)

        benchmark.pedantic(one, rounds=GANGS)
        assert len(scheduler.cache.pods) == GANGS * MEMBERS
        blocks: dict[str, set[str]] = {}
        for state in scheduler.cache.pods.values():
            node = state.node.node
            assert node is not None
            blocks.setdefault(state.info.pod.metadata.labels[POD_GROUP_LABEL], set()).add(node.metadata.labels["block"])
        assert all(len(found) == 1 for found in blocks.values())
        ordered = sorted(planning)
        benchmark.extra_info["plan_ms"] = {"first": 1e3 * planning[0], "median": 1e3 * ordered[len(ordered) // 2], "max": 1e3 * ordered[-1]}
        scheduler.cycle.binding.tasks.drop()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    print(benchmark.extra_info)  # noqa: T201
