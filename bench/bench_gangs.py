"""What does a gang cost: all of its members placed in one turn, or none?

Limits (algorithm): a gang of 5,000 on 5,000 nodes is decided in 0.3 s; a gang of 3 in 0.2 ms; a node's event with 1,000 gangs that wait for
room 20 us a shape. A search for a packing that finds none holds the loop for some milliseconds, however many kinds of members there are.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from clusters import make_node
from support.builders import pod
from support.world import NoCluster

from koordsched._core.packing import PackingSearch
from koordsched.api.kinds import POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.gangs import PodGroup, PodGroupSpec
from koordsched.api.meta import ObjectMeta
from koordsched.clock import RealClock
from koordsched.cluster.port import ADDED, DELETED, WatchEvent
from koordsched.config import Environment, load_config_object
from koordsched.config.flags import parse_flags
from koordsched.queue.queued_pod import QueuedPodInfo
from koordsched.scheduler.group_packing import MOST_COMBINATIONS, MOST_WORK
from koordsched.scheduler.scheduler import Dependencies, Scheduler
from koordsched.serve.command import GC_THRESHOLDS

NODES, MEMBERS, ROUNDS = 5_000, 5_000, 5
CARD = "example.com/card"
POINTS = ("preEnqueue", "preFilter", "postFilter", "reserve", "permit", "preBind", "postBind")


def configuration(preempts: bool) -> dict[str, Any]:
    """Return a profile with Coscheduling."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    **{point: {"enabled": [{"name": "Coscheduling"}]} for point in POINTS},
                    "postFilter": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
                },
                "pluginConfig": [{"name": "Coscheduling", "args": {"enablePreemption": preempts}}],
            }
        ],
    }


@contextmanager
def running(preempts: bool = False) -> Iterator[tuple[Scheduler, asyncio.AbstractEventLoop]]:
    """Make a scheduler of 5,000 nodes on a loop that runs only when asked, with the garbage collection of the serving process."""
    loop, thresholds = asyncio.new_event_loop(), gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)

    async def make() -> Scheduler:
        config = load_config_object(configuration(preempts), Environment())
        scheduler = Scheduler(config, Dependencies(NoCluster(), RealClock(), random.Random(1), parse_flags([])))  # type: ignore[arg-type]
        for index in range(NODES):
            scheduler.cache.set_node(make_node(index).build())
        return scheduler

    try:
        yield loop.run_until_complete(make()), loop
    finally:
        gc.set_threshold(*thresholds)
        loop.close()


def arrive(scheduler: Scheduler, gang: str, cpus: list[str], priority: int = 0, card: bool = False) -> None:
    """Let a PodGroup and its members come, as their watches would report them. card: whether each asks for one."""
    metadata = ObjectMeta(name=gang, namespace="default", uid=f"group-{gang}")
    group = PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=len(cpus)))
    scheduler._informers.of(POD_GROUP)._objects.apply(WatchEvent(ADDED, group))
    for number, cpu in enumerate(cpus):
        name = f"{gang}-{number:05d}"
        made = pod(name).cpu(cpu).memory("512Mi").label(POD_GROUP_LABEL, gang).uid(f"uid-{name}").priority(priority)
        made = made.request(CARD, "1") if card else made
        scheduler._informers.of(POD)._objects.apply(WatchEvent(ADDED, made.build()))


def take_turn(scheduler: Scheduler, info: QueuedPodInfo) -> None:
    """Run the turn of the popped pod's gang, which awaits nothing."""
    rest = scheduler.cycle.schedule(info)
    assert rest is not None
    try:
        rest.send(None)
    except StopIteration:
        return
    raise AssertionError("the turn awaited something")


def bench_gang_of_5000_that_does_not_fit(benchmark: Any) -> None:
    with running() as (scheduler, loop):

        async def run() -> None:
            arrive(scheduler, "g", ["500m"] * (MEMBERS - 1) + ["64"])

            def turn() -> None:
                info = scheduler.queue.take("default/g-00000")
                assert info is not None
                take_turn(scheduler, info)

            benchmark.pedantic(turn, rounds=5)
            assert not scheduler.cache.pods
            assert scheduler.queue.sizes().active == 0

        loop.run_until_complete(run())


def bench_gang_of_5000(benchmark: Any) -> None:
    with running() as (scheduler, loop):

        async def run() -> None:
            gangs = iter(range(ROUNDS))

            def next_gang() -> tuple[tuple[Scheduler, QueuedPodInfo], dict[str, Any]]:
                arrive(scheduler, f"g{next(gangs)}", ["500m"] * MEMBERS)
                info = scheduler.queue.pop()
                assert info is not None
                gc.collect()
                return (scheduler, info), {}

            benchmark.pedantic(take_turn, setup=next_gang, rounds=ROUNDS)
            assert len(scheduler.cache.pods) == ROUNDS * MEMBERS
            scheduler.cycle.binding.tasks.drop()

        loop.run_until_complete(run())


@pytest.mark.parametrize("varied", [False, True], ids=["alike", "varied"])
def bench_gang_of_500_that_preempts(benchmark: Any, varied: bool) -> None:
    """5,000 nodes full of pods of lower priority: room for all 500 with the fewest victims, in one turn."""
    with running(preempts=True) as (scheduler, loop):

        async def run() -> None:
            random_ = random.Random(1)
            for index in range(NODES):
                sizes, left = [], 32
                while left:
                    sizes.append(min(left, random_.choice([1, 2, 4, 8]) if varied else 4))
                    left -= sizes[-1]
                for number, cpu in enumerate(sizes):
                    name = f"low-{index}-{number}"
                    made = pod(name).cpu(str(cpu)).memory("1Gi").priority(index % 50).uid(f"uid-{name}").on(f"node-{index:05d}")
                    scheduler._informers.of(POD)._objects.apply(WatchEvent(ADDED, made.build()))
            arrive(scheduler, "g", ["8"] * 500, priority=1000)

            def turn() -> None:
                info = scheduler.queue.take("default/g-00000")
                assert info is not None
                take_turn(scheduler, info)

            benchmark.pedantic(turn, rounds=1)
            assert len(scheduler.queue.nominator) == 500
            scheduler.cycle.binding.tasks.drop()

        loop.run_until_complete(run())


@pytest.mark.parametrize("kinds", [20, 60, 200, 500])
def bench_packing_that_fails(benchmark: Any, kinds: int) -> None:
    """Members that all differ, on a third as many nodes, which are too few by amounts but not by slots."""
    random_, nodes, resources = random.Random(1), kinds // 3, 3
    units = -np.sort(-np.array([[random_.randint(6, 13) for _ in range(resources)] for _ in range(kinds)], np.int64), axis=0)
    free, slots = np.full((nodes, resources), 25, np.int64), np.full((nodes, kinds), 2, np.int64)
    each, one = np.arange(kinds, dtype=np.int32), np.ones(kinds, np.int64)
    of, needs = (each, np.zeros(kinds, np.int32), one), np.array([kinds], np.int64)

    def search() -> None:
        found = PackingSearch(free, slots, units, np.ones(kinds, np.uint8), of, needs, {}, MOST_WORK, MOST_COMBINATIONS)
        assert found.run() is None
        assert found.work > MOST_WORK

    benchmark.pedantic(search, rounds=5)


def bench_gangs_of_3(benchmark: Any) -> None:
    gangs = 1000
    with running() as (scheduler, loop):

        async def run() -> None:
            for number in range(gangs):
                arrive(scheduler, f"g{number}", ["500m"] * 3)

            def one() -> None:
                info = scheduler.queue.pop()
                assert info is not None
                take_turn(scheduler, info)

            benchmark.pedantic(one, rounds=gangs)
            assert len(scheduler.cache.pods) == 3 * gangs
            scheduler.cycle.binding.tasks.drop()

        loop.run_until_complete(run())


@pytest.mark.parametrize("preempts", [False, True], ids=["", "preempting"])
@pytest.mark.parametrize("shapes", [1, 100])
@pytest.mark.parametrize("lacking", ["member", "slots"])
def bench_event_with_1000_gangs_waiting(benchmark: Any, lacking: str, shapes: int, preempts: bool) -> None:
    """A pod leaves a node. member: one of each gang fits nowhere. slots: each would fit, but there are too few slots for all together.

    `us_a_gang` is CPU time, the least of ten events.
    """
    gangs, events = 1000, 10
    with running(preempts) as (scheduler, loop):

        async def run() -> None:
            scheduler.cache.set_node(make_node(1).allocatable(CARD, "2").build())
            for number in range(gangs):
                cpu = f"{500 + number % shapes}m"
                arrive(
                    scheduler, f"g{number}", [cpu, cpu, f"{64 + number % shapes}" if lacking == "member" else cpu], card=lacking == "slots"
                )
            for _ in range(gangs):
                info = scheduler.queue.pop()
                assert info is not None
                take_turn(scheduler, info)
            assert scheduler.queue.sizes().unschedulable == gangs
            pods, taken = scheduler._informers.of(POD)._objects, []
            others = [pod(f"other-{number}").cpu("1").on("node-00001").uid(f"other-{number}").build() for number in range(events)]
            for other in others:
                pods.apply(WatchEvent(ADDED, other))

            def event() -> None:
                began = time.thread_time()
                pods.apply(WatchEvent(DELETED, others.pop()))
                taken.append(time.thread_time() - began)

            benchmark.pedantic(event, rounds=events)
            assert scheduler.queue.sizes().unschedulable == gangs
            benchmark.extra_info["us_a_gang"] = 1e6 * min(taken) / gangs

        loop.run_until_complete(run())
    print(benchmark.extra_info)  # noqa: T201
