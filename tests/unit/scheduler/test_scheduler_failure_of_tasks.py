"""A task of the scheduler that dies must be noticed, or pods would wait for ever without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from support.fakes import node_manifest, pod_manifest
from support.stages import Stage

from koordsched import tasks
from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Conflict
from koordsched.scheduler.binding_tasks import BindingTasks


class BugError(Exception):
    pass


def broken(*_: object) -> object:
    raise BugError


async def test_nothing_fails_while_all_goes_well(stage: Stage) -> None:
    async with stage() as world:
        await world.start()
        failure = asyncio.create_task(world.scheduler.until_failed())
        await asyncio.sleep(3600)
        await world.stop()
        assert not failure.done()
        failure.cancel()


@pytest.mark.parametrize(
    ("step", "task"),
    [("pop", "scheduling loop"), ("flush_unschedulable", "flush of unschedulable pods"), ("flush_backoff", "flush of the backoff queue")],
)
async def test_a_loop_or_timer_that_raises_is_a_failure(stage: Stage, monkeypatch: pytest.MonkeyPatch, step: str, task: str) -> None:
    failures = []
    with suppress(BugError):  # which the end of the world brings out again
        async with stage() as world:
            world.cluster.faults.rules.append(Fault(verb="bind", times=1, error=lambda: Conflict("no"), delay=1.0))
            await world.create(NODE, node_manifest("n1"))
            await world.create(POD, pod_manifest("bound-late"))
            await world.start()
            monkeypatch.setattr(world.scheduler.queue, step, broken)
            await world.create(POD, pod_manifest("another"))
            async with asyncio.timeout(3600):
                failures.append(await world.scheduler.until_failed())
    assert [(failure.task, type(failure.error)) for failure in failures] == [(task, BugError)]


async def test_a_writer_of_conditions_or_events_that_fails_is_started_again_and_loses_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage() as world:
        scheduler = world.scheduler
        (recorder,) = scheduler._recorders
        for writer, method in ((scheduler.status_writer, "_write_ready"), (recorder, "_write_queued")):
            monkeypatch.setattr(writer, method, raises_once(getattr(writer, method)))
        await world.create(POD, pod_manifest("pending"))
        await world.start()
        await asyncio.sleep(60)
        assert tasks.restarts == {"status writer": 1, "event writer": 1}
        tasks.restarts.clear()
        (pod,) = world.cluster.raws(POD)
        assert [condition["type"] for condition in pod["status"]["conditions"]] == ["PodScheduled"]
        assert "FailedScheduling" in [event["reason"] for event in world.cluster.raws(EVENT)]
        await world.stop()


def raises_once(method: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    called: list[int] = []

    async def call() -> None:
        called.append(1)
        if len(called) == 1:
            raise BugError
        await method()

    return call


async def test_a_binding_cycle_that_raises_does_not_keep_others_from_theirs() -> None:
    binding, seen = BindingTasks[int](), []

    async def work(number: int) -> None:
        if number == 1:
            raise BugError
        seen.append(number)

    for number in range(3):
        binding.add(number, work(number))
    await asyncio.sleep(1)
    assert (seen, len(binding), binding.tasks) == ([0, 2], 0, [])
    assert tasks.failures == {"binding cycle": 1}
    tasks.failures.clear()
