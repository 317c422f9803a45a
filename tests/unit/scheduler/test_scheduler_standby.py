"""A scheduler that is filled and waits: as true to the cluster as one that schedules, and without a word to it."""

from __future__ import annotations

import asyncio

from support.fakes import node_manifest, pod_manifest
from support.stages import Stage, nodes_of_pods
from support.virtual_loop import settle

from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Binding

TOO_LARGE = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100"}}}]}
GATED = {"schedulingGates": [{"name": "g"}]}
WRITES = {"bind", "patch", "patch status", "update", "delete"}


async def test_it_follows_the_cluster_and_writes_nothing_for_hours(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.create(POD, pod_manifest("early"))
        await world.scheduler.fill()
        await world.create(POD, pod_manifest("late"))
        await world.create(POD, {**pod_manifest("large"), "spec": {**pod_manifest()["spec"], **TOO_LARGE}})
        await world.create(POD, {**pod_manifest("gated"), "spec": {**pod_manifest()["spec"], **GATED}})
        await world.cluster.bind(Binding("default", "early", "", "n1"))  # by the one that leads
        await asyncio.sleep(3 * 3600)
        sizes = world.scheduler.queue.sizes()
        assert (sizes.active, sizes.backoff, sizes.unschedulable, sizes.gated) == (2, 0, 0, 1)
        assert len(world.scheduler.cache.pods) == 1
        assert sum(count for (verb, _), count in world.cluster.calls.items() if verb in WRITES) == 1
        assert world.cluster.raws(EVENT) == []
        await world.stop()


async def test_it_schedules_at_once_when_it_begins(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.scheduler.fill()
        await world.create(POD, pod_manifest("p"))
        await asyncio.sleep(3600)
        began = world.now()
        world.scheduler.begin()
        await settle()
        assert nodes_of_pods(world) == {"p": "n1"}
        assert world.now() == began
        await world.stop()


async def test_who_has_settled_has_ended_its_binds_and_decides_nothing_more(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", delay=2.0))
        await world.create(NODE, node_manifest("n1"))
        await world.create(POD, pod_manifest("begun"))
        await world.start()
        await asyncio.sleep(0.5)
        settling = asyncio.create_task(world.scheduler.settle())
        await asyncio.sleep(0)
        await world.create(POD, pod_manifest("late"))
        await settling
        assert nodes_of_pods(world) == {"begun": "n1", "late": ""}
        assert world.cluster.raws(EVENT) == []
        await asyncio.sleep(3600)
        await world.stop()
        assert nodes_of_pods(world) == {"begun": "n1", "late": ""}
        assert [event["reason"] for event in world.cluster.raws(EVENT)] == ["Scheduled"]
