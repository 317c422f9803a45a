"""How long does an attempt to preempt take, with 5,000 nodes and 20,000 pods of lower priority?

Limit: at most 1 ms an attempt in process. An attempt is PostFilter: from the diagnosis of a pod that fits nowhere to the chosen
node with its victims, evictions not included. And: what does a whole decision cost where thousands were nominated just before, and a pod
event the plugin that follows them?
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clusters import cluster, fresh
from support.builders import PodBuilder, node, pod
from support.world import World

from koordsched.api.core import TopologySpreadConstraint
from koordsched.api.kinds import POD
from koordsched.api.meta import LabelSelector
from koordsched.api.podinfo import PodInfo
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import PostFilterPlugin
from koordsched.framework.preemption.engine import PreemptionEngine
from koordsched.framework.preemption.job import Job
from koordsched.framework.preemption.rules import PreemptionRules

NODES, PODS_A_NODE = 5_000, 4
ROUNDS = 300
ZONE, ZONES = "topology.kubernetes.io/zone", 3


def occupied(filler: Callable[[int], PodBuilder]) -> World:
    """Return a cluster without room: four pods of 900m on each node of four cores."""
    world = cluster(0)
    for index in range(NODES):
        world.cache.set_node(node(f"node-{index}").cpu("4").memory("16Gi").pods(110).zone(f"z{index % ZONES}").build())
    for index in range(NODES * PODS_A_NODE):
        name = f"node-{index % NODES}"
        made = fresh(filler(index).cpu("900m").memory("500Mi")).on(name).started(f"2026-01-01T00:{index % 60:02d}:00Z")
        world.cache.set_pod(made.info(counted_on_node=True), name)
    return world


class Attempts:
    """Pods that come and preempt, one after the other."""

    def __init__(self, world: World, preemptor: PodBuilder, plugin: str = "DefaultPreemption") -> None:
        self.world = world
        self._preemptor = preemptor
        self._plugin = next(each for each in world.profile.post_filter if each.name == plugin)
        self._store: dict[str, Any] = world.informer(POD).store

    def next(self) -> tuple[tuple[PostFilterPlugin, PodInfo, Diagnosis], dict[str, Any]]:
        """Let one more pod fail."""
        made = self.world.signed(fresh(self._preemptor).info())
        self._store[made.key] = made.pod
        found = self.world.find(made)
        assert isinstance(found, Diagnosis)
        return (self._plugin, made, found), {}


def attempt(plugin: PostFilterPlugin, made: PodInfo, diagnosis: Diagnosis) -> None:
    work = plugin.post_filter(CycleState(), made, diagnosis)
    try:
        work.send(None)
    except StopIteration as end:
        result, status = end.value
        assert status is None
        assert result is not None


def bench_attempt_20000_pods_of_lower_priority(benchmark: Any) -> None:
    attempts = Attempts(occupied(lambda index: pod(f"low-{index}")), pod("high").priority(10).cpu("3").memory("500Mi"))
    benchmark.pedantic(attempt, setup=attempts.next, rounds=ROUNDS, warmup_rounds=1)


def bench_attempt_20000_pods_of_100_priorities(benchmark: Any) -> None:
    attempts = Attempts(occupied(lambda index: pod(f"low-{index}").priority(index % 100)), pod("high").priority(1000).cpu("3"))
    benchmark.pedantic(attempt, setup=attempts.next, rounds=ROUNDS, warmup_rounds=1)


@pytest.mark.parametrize("matter", [False, True], ids=["victims-do-not-count", "victims-count"])
def bench_attempt_of_a_pod_with_a_hard_zone_spread(benchmark: Any, matter: bool) -> None:
    """Evicting pods that the constraint counts could change its answer where it refuses: such nodes have to be tried with all filters."""
    even = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=LabelSelector({"app": "web"})
    )
    world = occupied(lambda index: pod(f"low-{index}").label("app", "web" if matter and index else "other"))
    attempts = Attempts(world, pod("high").label("app", "web").priority(10).cpu("3").spread(even))
    benchmark.pedantic(attempt, setup=attempts.next, rounds=20 if matter else ROUNDS, warmup_rounds=1)


@pytest.mark.parametrize("room", [True, False], ids=["room", "no-room"])
def bench_attempt_of_a_job_of_100_pods(benchmark: Any, room: bool) -> None:
    """A node for each, or nothing: without room for all, divisions say so before anything is simulated."""
    attempts = Attempts(occupied(lambda index: pod(f"low-{index}").priority(index % 100)), pod("high").priority(1000).cpu("3"))
    world, engine = attempts.world, PreemptionEngine(attempts.world, PreemptionRules(plugin="Jobs"))

    def job() -> tuple[tuple[Job], dict[str, Any]]:
        (_, trigger, found), _ = attempts.next()
        others = [world.signed(fresh(pod("high").priority(1000).cpu("3")).info()) for _ in range(99 if room else NODES)]
        for each in list(world.nominator.nodes):
            for uid in list(world.nominator.nodes[each]):
                world.nominator.remove(uid)
        return (Job(trigger, found, [trigger, *others]),), {}

    def preempt(made: Job) -> None:
        work = engine.preempt_for_job(made)
        try:
            work.send(None)
        except StopIteration as end:
            _, status = end.value
        assert (status is None) == room

    benchmark.pedantic(preempt, setup=job, rounds=10, warmup_rounds=1)


def bench_first_attempt_of_a_request(benchmark: Any) -> None:
    """Nothing is known yet of this request: the dry run begins with all rows."""
    world = occupied(lambda index: pod(f"low-{index}").priority(index % 100))
    requests = iter(range(1000))

    def first() -> tuple[tuple[PostFilterPlugin, PodInfo, Diagnosis], dict[str, Any]]:
        return Attempts(world, pod("high").priority(1000).cpu(f"{2000 + next(requests)}m")).next()

    benchmark.pedantic(attempt, setup=first, rounds=50, warmup_rounds=1)


def bench_attempt_where_ten_pods_came_or_went_in_between(benchmark: Any) -> None:
    world = occupied(lambda index: pod(f"low-{index}").priority(index % 100))
    attempts = Attempts(world, pod("high").priority(1000).cpu("3"))
    serial = iter(range(1_000_000))

    def change() -> tuple[tuple[PostFilterPlugin, PodInfo, Diagnosis], dict[str, Any]]:
        for _ in range(5):
            index = next(serial)
            there = world.cache.nodes_by_name[f"node-{index % NODES}"]
            gone = next(iter(there.pods.values()))
            world.cache.remove_pod(gone.uid)
            world.cache.set_pod(fresh(pod("low").cpu("900m").memory("500Mi")).on(there.name).info(counted_on_node=True), there.name)
        return attempts.next()

    benchmark.pedantic(attempt, setup=change, rounds=ROUNDS, warmup_rounds=1)


def bench_decision_beside_3000_nodes_made_free_for_others(benchmark: Any) -> None:
    """The whole decision: filters find the freed nodes feasible, those nominated for them keep the pod away, and it preempts elsewhere."""
    world = occupied(lambda index: pod(f"low-{index}"))
    preemptor = pod("high").priority(10).cpu("3").memory("500Mi")
    for index in range(3_000):
        there = world.cache.nodes_by_name[f"node-{index}"]
        for victim in list(there.pods)[:3]:
            world.cache.remove_pod(victim)
        world.nominator.set(world.signed(fresh(preemptor).info()), there.name)
    attempts = Attempts(world, preemptor)
    benchmark.pedantic(lambda: attempt(*attempts.next()[0]), rounds=ROUNDS, warmup_rounds=1)


def bench_pod_event_while_pods_preempt(benchmark: Any) -> None:
    """One pod of priority 0 added and removed, as the plugin follows it; the row is for both."""
    world = occupied(lambda index: pod(f"low-{index}"))
    attempt(*Attempts(world, pod("high").priority(10).cpu("3")).next()[0])
    follower = world.cache._followers[-1]
    plain = pod("plain").cpu("1").info()

    def both() -> None:
        follower.pod_added(plain, 7)
        follower.pod_removed(plain, 7)

    benchmark.pedantic(both, rounds=200, iterations=50, warmup_rounds=1)
