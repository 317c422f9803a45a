"""What plugins may ask of the scheduler that runs beside it: tasks, timers, and whether a nominated pod still fits."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.builders import pod
from support.fakes import FakeFilter, config_with, embedded, pod_manifest
from support.stages import Stage, begin, nodes_of_pods, ref

import koordsched.plugins
from koordsched import tasks
from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import NodeInfo
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.handle import Handle
from koordsched.framework.transformers import Transformer


async def test_a_task_that_has_ended_is_forgotten_and_one_that_failed_is_logged(stage: Stage) -> None:
    async def work(error: Exception | None = None) -> None:
        await asyncio.sleep(1)
        if error is not None:
            raise error

    async with stage() as world:
        await world.start()
        handle = world.scheduler._handle
        with capture_logs() as logs:
            handle.spawn(work())
            handle.spawn(work(KeyError("oops")))
            assert handle.running == 2
            await asyncio.sleep(2)
            assert handle.running == 0
        assert [(line["log_level"], line["err"]) for line in logs] == [("error", "KeyError('oops')")]
        assert logs[0]["task"] == work.__qualname__
        assert tasks.failures == {work.__qualname__: 1}
        tasks.failures.clear()


async def test_a_timer_rings_once_and_at_the_end_no_more(stage: Stage) -> None:
    rung: list[str] = []
    async with stage() as world:
        await world.start()
        handle = world.scheduler._handle
        handle.call_later(5.0, lambda: rung.append("first"))
        handle.call_later(50.0, lambda: rung.append("second"))
        await asyncio.sleep(4.9)
        assert rung == []
        await asyncio.sleep(0.2)
        assert rung == ["first"]
        assert len(handle._timers) == 1
        await handle.end()
        await asyncio.sleep(100)
    assert rung == ["first"]


async def test_a_filter_that_fails_leaves_a_nominated_pod_its_nomination(stage: Stage) -> None:
    class Broken(FakeFilter):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
            if self.refuse_all is not None:
                raise KeyError("oops")

    plugin = Broken()
    async with stage((plugin, "filter")) as world:
        await begin(world, pod_manifest("p", "1"))
        (there,) = world.scheduler.cache.pods.values()
        plugin.refuse_all = object()  # type: ignore[assignment] # only whether it is there matters
        with capture_logs() as logs:
            assert world.scheduler._handle.fits(there.info, there.node, [], [])
        (reported,) = logs
        assert (reported["event"], reported["log_level"]) == ("could not find out whether a nominated pod still fits", "error")
        assert (reported["pod"], reported["node"]) == ("default/p", "n1")


async def test_a_nominated_pod_fits_with_the_pods_that_come_and_without_those_that_go(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("p", "1"))  # on n1, which has 4 cpu
        (there,) = world.scheduler.cache.pods.values()
        three, four = (pod(f"c{cpu}").cpu(cpu).info() for cpu in ("3", "4"))
        fits = partial(world.scheduler._handle.fits, four, there.node)
        assert fits([], []) is False
        assert fits([], [there.info]) is True
        assert fits([three], [there.info]) is False
        assert world.scheduler._handle.fits(three, there.node, [], []) is True
        assert world.scheduler._handle.fits(three, there.node, [pod("small").cpu("1").info()], []) is False


# Transformers of plugins


class Queues(FakeFilter):
    """Gives pods of the night queue a low priority, after the scheduler's own transformers."""

    def __init__(self, handle: Handle) -> None:
        super().__init__("Queues")
        self.seen: list[str] = []
        transformer = Transformer(name="Queues", kind=POD, transform=self._transform, labels=frozenset({"queue"}))
        handle.informer(POD)  # it may be there already
        handle.add_transformer(transformer)

    def _transform(self, made: Pod) -> Pod:
        self.seen.append(f"{made.metadata.name} {made.spec.scheduler_name}")
        return replace(made, spec=replace(made.spec, priority=-10))


async def test_a_plugin_may_transform_objects_after_the_schedulers_own_transformers(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Queues] = []

    def make(_args: object, handle: Handle) -> Queues:
        made.append(Queues(handle))
        return made[-1]

    own = {"multiPoint": {"enabled": [{"name": "Queues"}]}}
    profiles = [{"schedulerName": name, "plugins": own} for name in ("default-scheduler", "second")]
    monkeypatch.setitem(koordsched.plugins.REGISTRY, "Queues", make)
    config = config_with({"Queues": "filter"}, profiles=profiles)
    async with embedded(asyncio.get_running_loop(), config) as world:
        labels = {"queue": "night", "scheduling.koordinator.sh/scheduler-name": "second"}
        night, day = pod_manifest("night"), pod_manifest("day")
        await begin(world, {**night, "metadata": {**night["metadata"], "labels": labels}}, day)
        assert {name: found.spec.priority for name, found in world.scheduler.pods.items()} == {"default/night": -10, "default/day": 0}
        assert nodes_of_pods(world) == {"night": "n1", "day": "n1"}
        assert world.cluster.raw(ref("night"))["spec"]["priority"] == 0
    assert set(made[0].seen) == {"night second"}
    assert len(made[0].seen) == 2, "when it came and when it was bound"
    assert made[1].seen == [], "the second profile's plugin has the same name"
