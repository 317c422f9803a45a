"""What gangs of Coscheduling wait for: which events try them again, what their preemption leaves, and who stands for them in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.coscheduling import coscheduling_config, coscheduling_profile
from support.fakes import SCHEDULER, embedded, node_manifest, pod_manifest
from support.stages import condition, metric, nodes_of_pods, ref

from koordsched.api.kinds import NODE, POD
from koordsched.embedded.cluster import EmbeddedCluster

GANG = "gang.scheduling.koordinator.sh"
SKIPPED = 'koord_scheduler_probe_skipped_total{profile="default-scheduler"}'


@asynccontextmanager
async def world_of(*, preempts: bool = False, others: tuple[str, ...] = ()) -> AsyncIterator[EmbeddedCluster]:
    """Make a cluster with Coscheduling and nothing on it. others: names of further profiles that are the same."""
    profiles = [coscheduling_profile(name, enablePreemption=preempts) for name in (SCHEDULER, *others)]
    async with embedded(asyncio.get_running_loop(), coscheduling_config(*profiles)) as world:
        yield world


def member(name: str, cpu: str = "1", least: int = 2, **spec: Any) -> dict[str, Any]:
    made = pod_manifest(name, cpu)
    made["metadata"]["annotations"] = {f"{GANG}/name": "g", f"{GANG}/min-available": str(least)}
    made["spec"] |= spec
    return made


def attempts(world: EmbeddedCluster) -> float:
    return metric(world, 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}')


async def test_a_gang_is_not_tried_again_as_long_as_the_member_that_it_failed_for_fits_on_no_node() -> None:
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "4"))
        await world.start()
        for made in (member("a"), member("b", "8")):
            await world.create(POD, made)
        await world.settle()
        assert attempts(world) == 1
        for index in range(5):  # each has room for a, none for b
            await world.create(NODE, node_manifest(f"small-{index}", "6"))
            await world.sleep(30)
        assert attempts(world) == 1
        await world.create(NODE, node_manifest("large", "8"))
        await world.sleep(15)
        assert nodes_of_pods(world)["b"] == "large"
        assert nodes_of_pods(world)["a"]


async def test_a_member_that_asks_for_less_by_now_lets_its_gang_try_again() -> None:
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "4"))
        await world.start()
        for made in (member("a"), member("b", "8"), member("c")):
            await world.create(POD, made)
        await world.settle()
        assert condition(world, "b")[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        await world.delete(ref("b"))
        await world.sleep(15)
        assert {name: node for name, node in nodes_of_pods(world).items() if node} == {"a": "n1", "c": "n1"}


async def test_the_room_that_was_made_for_a_gang_is_given_back_when_a_member_is_deleted() -> None:
    async with world_of(preempts=True) as world:
        for name in ("n1", "n2"):
            await world.create(NODE, node_manifest(name, "4"))
            low = pod_manifest(f"on-{name}", "4")
            low["spec"] |= {"nodeName": name, "priority": 0, "terminationGracePeriodSeconds": 300}
            low["metadata"]["finalizers"] = ["test/slow"]
            await world.create(POD, low)
        await world.start()
        for made in (member("a", "4", priority=9), member("b", "4", priority=9)):
            await world.create(POD, made)
        await world.sleep(2)
        nominator = world.scheduler.queue.nominator
        assert len(nominator) == 2
        await world.delete(ref("b"))
        await world.sleep(2)
        assert len(nominator) == 0
        stored = await world.get(ref("a"))
        assert stored is not None
        assert "nominatedNodeName" not in stored["status"] or not stored["status"]["nominatedNodeName"]


async def test_a_representative_that_is_handed_to_another_profile_leaves_its_gang_one_that_stands_for_it() -> None:
    async with world_of(others=("second",)) as world:
        await world.start()
        for name in ("a", "b", "c"):
            await world.create(POD, member(name, least=2))
        await world.settle()
        # "a" stands for the gang. It is another scheduler's from now on, which never schedules it.
        await world.patch(ref("a"), {"spec": {"schedulerName": "elsewhere"}})
        await world.settle()
        await world.create(NODE, node_manifest("n1", "8"))
        await world.sleep(15)
        placed = nodes_of_pods(world)
        assert (placed["b"], placed["c"]) == ("n1", "n1")


async def test_a_representative_that_gets_a_scheduling_gate_leaves_its_gang_another_one() -> None:
    async with world_of() as world:
        await world.start()
        for name in ("a", "b", "c"):
            await world.create(POD, member(name, least=2))
        await world.settle()
        await world.delete(ref("a"))
        await world.create(POD, member("a", least=2, schedulingGates=[{"name": "later"}]))
        await world.create(NODE, node_manifest("n1", "8"))
        await world.sleep(15)
        placed = nodes_of_pods(world)
        assert (placed["a"], placed["b"], placed["c"]) == ("", "n1", "n1")


async def test_how_long_a_preemption_took_is_shown_by_job_and_result_until_the_job_has_been_idle_for_five_minutes() -> None:
    name = "scheduler_job_preemption_duration_seconds_count"
    made_room = f'{name}{{jobName="default/g",result="preempt success, alreadyWaitingForBound: %d/%d"}}'
    never = f'{name}{{jobName="default/never",result="not eligible due to preemptionPolicy=Never."}}'
    in_vain = f'{name}{{jobName="default/huge",result="preemption not helpful"}}'
    async with world_of(preempts=True) as world:
        await world.create(NODE, node_manifest("n1", "4"))
        low = pod_manifest("low", "4")
        low["spec"] |= {"nodeName": "n1", "priority": 0}
        await world.create(POD, low)
        await world.start()
        for name_, fields in (("never", {"preemptionPolicy": "Never"}), ("huge", {})):
            plain = pod_manifest(name_, "9" if name_ == "huge" else "1")
            plain["spec"] |= {"priority": 5, **fields}
            await world.create(POD, plain)
        for made in (member("a", "1", priority=9), member("b", "1", priority=9)):
            await world.create(POD, made)
        await world.sleep(5)
        assert nodes_of_pods(world)["b"] == "n1"
        assert (metric(world, made_room), metric(world, never)) == (1, 1)
        assert metric(world, in_vain) == 1
        await world.sleep(400)
        assert metric(world, made_room) == 0
        assert metric(world, never) == 0
