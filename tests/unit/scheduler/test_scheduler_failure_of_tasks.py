"""A task of the scheduler that dies must be noticed, or pods would wait for ever without a word."""

from __future__ import annotations

import asyncio

import pytest
from support.fakes import node_manifest, pod_manifest
from support.stages import Stage

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Conflict


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


@pytest.mark.parametrize("step", ["pop", "flush_unschedulable", "flush_backoff"])
async def test_a_loop_or_timer_that_raises_is_a_failure(stage: Stage, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    failures = []
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, error=lambda: Conflict("no"), delay=1.0))
        await world.create(NODE, node_manifest("n1"))
        await world.create(POD, pod_manifest("bound-late"))
        await world.start()
        monkeypatch.setattr(world.scheduler.queue, step, broken)
        await world.create(POD, pod_manifest("another"))
        async with asyncio.timeout(3600):
            failures.append(await world.scheduler.until_failed())
    assert [type(failure.error) for failure in failures] == [BugError]
