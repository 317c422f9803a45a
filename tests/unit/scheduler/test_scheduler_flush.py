"""The flush of pods that have waited five minutes, and the metric that shows when it was needed (framework.md §3.3, §12)."""

from __future__ import annotations

import asyncio

from support.fakes import FakeFilter, node_manifest, pod_manifest
from support.stages import Stage

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.port import Ref
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.status import unschedulable

FLUSHED = "scheduler_pod_scheduled_after_flush_total"


def flushed(world: EmbeddedCluster) -> str:
    return next(line for line in world.scheduler.metrics.text().decode().splitlines() if line.startswith(f"{FLUSHED} "))


async def test_a_pod_that_only_the_flush_helped_is_counted(stage: Stage) -> None:
    judge = FakeFilter("F", n1=unschedulable("full"))  # registers no event: only the flush can help
    async with stage((judge, "filter")) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest())
        await world.create(POD, pod_manifest("huge", "5"))
        await asyncio.sleep(10)
        judge.refuse.clear()
        await asyncio.sleep(280)
        assert "nodeName" not in world.cluster.raw(Ref(POD, "default", "p"))["spec"]
        await world.patch(Ref(NODE, "", "n1"), {"metadata": {"annotations": {"note": "F reads it"}}})  # so that F is asked again at all
        await asyncio.sleep(50)
        assert world.cluster.raw(Ref(POD, "default", "p"))["spec"]["nodeName"] == "n1"
        assert flushed(world) == f"{FLUSHED} 1.0"  # the other one was flushed too, but not bound


async def test_a_pod_that_an_event_helped_is_not_counted(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1", "1"))
        await world.start()
        await world.create(POD, pod_manifest("p", "2"))
        await asyncio.sleep(400)
        await world.create(NODE, node_manifest("n2", "2"))
        await asyncio.sleep(12)
        assert world.cluster.raw(Ref(POD, "default", "p"))["spec"]["nodeName"] == "n2"
        assert flushed(world) == f"{FLUSHED} 0.0"
