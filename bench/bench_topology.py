"""What does it cost to place gangs by the network: 10,000 nodes in spines, blocks and racks, 200 gangs of 64 with MustGather Block?

Limits: planning at most 20 ms a gang, and a gang in no more domains of any layer than the model of the reference's plan uses on the same
input; the event loop never held longer than 0.5 s. `plan_ms` is the planning alone, CPU time; a benchmark's row is the whole turn of a
gang; `slices_ms` is what taking in the nodes holds the loop before that; a first gang also evaluates all nodes.

And: what does it cost to make room for a gang in one domain of 5,000 nodes full of pods of lower priority? Limit: 1 s.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from bench_gangs import configuration, take_turn
from clusters import make_node
from support.builders import pod
from support.topology_model import Path, Plan, domains_used
from support.world import NoCluster

from koordsched._core.topology_tree import TopologyTree
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
from koordsched.plugins.coscheduling import network_tree
from koordsched.plugins.coscheduling.topology import NODES_AT_ONCE, NetworkTopology
from koordsched.plugins.coscheduling.topology_plan import TopologyPlan
from koordsched.scheduler.scheduler import Dependencies, Scheduler

NODES, GANGS, MEMBERS = 10_000, 200, 64
CPUS = 4  # of a member
LAYERS = (
    NetworkTopologyLayer("Spine", "", ("spine",)),
    NetworkTopologyLayer("Block", "Spine", ("block",)),
    NetworkTopologyLayer("Rack", "Block", ("rack",)),
    NetworkTopologyLayer("NodeTopologyLayer", "Rack"),
)
SIZES = {"spine": 640, "block": 40, "rack": 8}  # nodes


def new_scheduler(nodes: int = NODES, *, preempts: bool = False) -> Scheduler:
    settings = configuration(preempts=preempts)
    settings["profiles"][0]["pluginConfig"][0]["args"]["awareNetworkTopology"] = True
    config = load_config_object(settings, Environment())
    flags = parse_flags(["--enable-network-topology-manager=true"])
    scheduler = Scheduler(config, Dependencies(NoCluster(), RealClock(), random.Random(1), flags))  # type: ignore[arg-type]
    spec = ClusterNetworkTopologySpec(LAYERS)
    topology = ClusterNetworkTopology(metadata=ObjectMeta(name="default", uid="t"), spec=spec)
    scheduler._informers.of(CLUSTER_NETWORK_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology))
    for index in range(nodes):
        made = make_node(index)
        for key, size in SIZES.items():
            made = made.label(key, f"{key}-{index // size}")
        scheduler._informers.of(NODE)._objects.apply(WatchEvent(ADDED, made.build()))
    return scheduler


def arrive(scheduler: Scheduler, gang: str, *, layer: str = "Block", members: int = MEMBERS, cpus: int = CPUS, priority: int = 0) -> None:
    spec = f'{{"gatherStrategy":[{{"layer":"{layer}","strategy":"MustGather"}}]}}'
    metadata = ObjectMeta(name=gang, namespace="default", uid=f"group-{gang}", annotations={TOPOLOGY_SPEC: spec})
    group = PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=members))
    scheduler._informers.of(POD_GROUP)._objects.apply(WatchEvent(ADDED, group))
    for number in range(members):
        name = f"{gang}-{number:03d}"
        made = pod(name).cpu(str(cpus)).memory("4Gi").label(POD_GROUP_LABEL, gang).uid(f"uid-{name}").priority(priority).build()
        scheduler._informers.of(POD)._objects.apply(WatchEvent(ADDED, made))


def domains_of(node: Any) -> Path:
    return tuple(node.metadata.labels[key] for key in SIZES)


class PlanModel:
    """The reference's plan for a gang of this benchmark, on the nodes as they are when it is asked."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._infos = sorted(scheduler.cache.nodes_by_name.values(), key=lambda info: info.name)
        self._paths = {info.name: domains_of(info.node) for info in self._infos}
        self._slots = {
            info.name: 32 // CPUS if info.node is not None and not info.node.spec.taints else 0 for info in self._infos
        }  # as `make_node` makes them

    def take(self, node: str) -> None:
        self._slots[node] -= 1

    def counts(self) -> list[int]:
        """Return how many domains of each layer, and nodes, the plan uses."""
        tree: dict[str, Any] = {}
        for name, path in self._paths.items():
            place = tree
            for part in path:
                place = place.setdefault(part, {})
            place[name] = self._slots[name]
        found = Plan(tree, len(SIZES), MEMBERS, {}, {}).find(2)
        assert found is not None
        return counts_of([name for name, _ in found], self._paths)

    def counts_of(self, nodes: Sequence[str]) -> list[int]:
        return counts_of(nodes, self._paths)


def counts_of(nodes: Sequence[str], paths: Mapping[str, Path]) -> list[int]:
    return [*(domains_used(nodes, paths, level) for level in range(1, len(SIZES) + 1)), len(set(nodes))]


def bench_topology_gangs(benchmark: Any, monkeypatch: Any) -> None:
    loop = asyncio.new_event_loop()
    planning: list[float] = []
    slices: list[float] = []
    trees: list[object] = []

    def timed(function: Any, times: list[float], *, adds: bool = False) -> Any:
        def call(*args: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*args)
            finally:
                taken = time.thread_time() - started
                if adds:
                    times[-1] += taken
                else:
                    times.append(taken)

        return call

    def built(*args: Any) -> Any:
        trees.append(args)
        return TopologyTree(*args)

    monkeypatch.setattr(TopologyPlan, "prepare", timed(TopologyPlan.prepare, planning))
    monkeypatch.setattr(TopologyPlan, "nodes", timed(TopologyPlan.nodes, planning, adds=True))
    monkeypatch.setattr(NetworkTopology, "_take_in_some", timed(NetworkTopology._take_in_some, slices))
    monkeypatch.setattr(network_tree, "TopologyTree", built)

    async def run() -> None:
        scheduler = new_scheduler()
        for _ in range(NODES // NODES_AT_ONCE + 1):  # the loop takes in the nodes by itself
            await asyncio.sleep(0)
        assert len(slices) == NODES // NODES_AT_ONCE
        for number in range(GANGS):
            arrive(scheduler, f"g{number:03d}")
        model = PlanModel(scheduler)

        def one() -> None:
            info = scheduler.queue.pop()
            assert info is not None
            take_turn(scheduler, info)

        def compared() -> None:
            """Compare the gang that was placed last with the model's plan, and let the model know of it."""
            expected = model.counts()
            placed = [state for state in scheduler.cache.pods.values() if state.info.uid not in known]
            known.update(state.info.uid for state in placed)
            nodes = [state.node.name for state in placed]
            found = model.counts_of(nodes)
            assert len(nodes) == MEMBERS
            assert found[1] == 1, "one block"
            assert all(ours <= theirs for ours, theirs in zip(found, expected, strict=True)), (found, expected)
            for name in nodes:
                model.take(name)

        known: set[str] = set()
        benchmark.pedantic(one, teardown=compared, rounds=GANGS)
        assert len(known) == GANGS * MEMBERS
        assert len(planning) == GANGS, "one plan each"
        assert len(trees) == 1, "the tree is built once"
        ordered = sorted(planning)
        benchmark.extra_info["plan_ms"] = {"first": 1e3 * planning[0], "median": 1e3 * ordered[len(ordered) // 2], "max": 1e3 * ordered[-1]}
        benchmark.extra_info["slices_ms"] = {"count": len(slices), "max": 1e3 * max(slices)}
        scheduler.cycle.binding.tasks.drop()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    print(benchmark.extra_info)  # noqa: T201


@pytest.mark.parametrize(("layer", "members"), [("Spine", 500), ("Block", 64), ("Rack", 16)])
def bench_topology_gang_that_preempts(benchmark: Any, layer: str, members: int) -> None:
    """5,000 nodes full of pods of lower priority: room for all members in one domain of the layer with the fewest victims, in one turn."""
    loop = asyncio.new_event_loop()
    nodes = 5_000

    async def run() -> None:
        scheduler = new_scheduler(nodes, preempts=True)
        random_ = random.Random(1)
        for index in range(nodes):
            left, number = 32, 0
            while left:
                cpus = min(left, random_.choice([1, 2, 4, 8]))
                left, number, name = left - cpus, number + 1, f"low-{index}-{number}"
                made = pod(name).cpu(str(cpus)).memory("1Gi").priority(index % 50).uid(f"uid-{name}").on(f"node-{index:05d}")
                scheduler._informers.of(POD)._objects.apply(WatchEvent(ADDED, made.build()))
        arrive(scheduler, "g", layer=layer, members=members, cpus=8, priority=1000)

        def turn() -> None:
            info = scheduler.queue.take("default/g-000")
            assert info is not None
            take_turn(scheduler, info)

        benchmark.pedantic(turn, rounds=1)
        nominated = scheduler.queue.nominator.nodes
        assert sum(map(len, nominated.values())) == members
        used = {domains_of(scheduler.cache.nodes_by_name[name].node)[list(SIZES).index(layer.lower())] for name in nominated}
        assert len(used) == 1
        scheduler.cycle.binding.tasks.drop()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
