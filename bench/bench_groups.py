"""How long does the turn of a group hold the loop, and what does an undone one leave the others to do?

Limits: an undone turn of 5,000 pods holds the loop for at most 0.5 s; no shape without a part in it asks anything again; one requeue.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from clusters import make_node
from support.builders import PodBuilder, pod
from support.fakes import config_with
from support.gangs import Gangs
from support.world import NoCluster

import koordsched.plugins
from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.clock import RealClock
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.config.flags import parse_flags
from koordsched.scheduler.scheduler import Dependencies, Scheduler

MEMBERS = 5_000
NODES = 5_000
STRANGERS = 50  # shapes that have no part in the turn


def bench_undone_turn_of_5000_pods(benchmark: Any) -> None:
    loop = asyncio.new_event_loop()
    koordsched.plugins.REGISTRY["Gangs"] = lambda _args, handle: Gangs(handle)
    try:
        loop.run_until_complete(_undone_turn(benchmark))
    finally:
        del koordsched.plugins.REGISTRY["Gangs"]
        loop.close()


async def _undone_turn(benchmark: Any) -> None:
    dependencies = Dependencies(NoCluster(), RealClock(), random.Random(1), parse_flags([]))  # type: ignore[arg-type]
    scheduler = Scheduler(config_with({"Gangs": "preEnqueue"}), dependencies)
    profile, table = scheduler.profiles["default-scheduler"], scheduler.cache.table
    for index in range(NODES):
        scheduler.cache.set_node(make_node(index).build())
    for index in range(MEMBERS):
        cpu = "500m" if index < MEMBERS - 1 else "64"  # the last one fits nowhere
        _arrive(scheduler, pod(f"m{index:05d}").cpu(cpu).memory("512Mi").label("gang", "g").label("size", str(MEMBERS)))
    strangers = [pod(f"s{index}").cpu(f"{100 + index}m").info() for index in range(STRANGERS)]
    for info in strangers:
        info.shape = profile.shapes.key(info)
        _evaluate(profile, info)
        _evaluate(profile, info)  # a shape is kept from its second use on
    asked, end = _asked(scheduler), table.log_end
    rounds = 5
    began = time.process_time()

    def turn() -> None:
        info = scheduler.queue.take("default/m00000")
        assert info is not None
        rest = scheduler.cycle.schedule(info)
        assert rest is not None
        try:
            rest.send(None)
        except StopIteration:
            return
        raise AssertionError("the turn awaited something")

    benchmark.pedantic(turn, rounds=rounds)
    benchmark.extra_info["CPU ms a turn"] = round(1000 * (time.process_time() - began) / rounds)
    assert table.rewinds == rounds
    assert table.log_end == end
    assert not scheduler.cache.pods
    assert len(scheduler.queue.pending()) == MEMBERS
    assert scheduler.queue.in_flight == []
    during = _asked(scheduler)
    for info in strangers:
        _evaluate(profile, info)
    assert _asked(scheduler) == during
    benchmark.extra_info["rows asked in a turn"] = (during - asked) // rounds


def _arrive(scheduler: Scheduler, builder: PodBuilder) -> None:
    """Let a pending pod come, as its watch would report it."""
    scheduler._informers.of(POD)._objects.apply(WatchEvent(ADDED, builder.uid(f"uid-{builder.build().metadata.name}").build()))


def _evaluate(profile: Any, info: PodInfo) -> None:
    shape = profile.shapes.pre_filter(info)
    profile.shapes.filter(shape, info)
    profile.shapes.pre_score(shape, info)
    profile.shapes.score(shape, info)


def _asked(scheduler: Scheduler) -> int:
    """Return how many answers about rows filters and scorers have given."""
    lines = scheduler.metrics.text().decode().splitlines()
    found = [line for line in lines if line.startswith("scheduler_plugin_evaluation_total") and ("Filter" in line or "Score" in line)]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in found))
