"""Debugger: the watches against a fresh list. What is on its way is no difference, what stays different for five seconds is."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from support.fakes import node_manifest, pod_manifest
from support.stages import Stage

from koordsched.api.kinds import NODE, POD, Kind
from koordsched.cluster.memory import Fault
from koordsched.cluster.object_store import newer
from koordsched.cluster.port import Ref, ServerError
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.scheduler.debugger import Comparison, Stale


async def prepare(world: EmbeddedCluster) -> None:
    """One node with a bound pod, p."""
    await world.create(NODE, node_manifest("n1"))
    await world.create(POD, pod_manifest("p"))
    await world.start()
    await world.settle()


async def deafen(world: EmbeddedCluster, kind: Kind, times: int | None = None) -> None:
    """Let the watch of a kind fail: for ever, or so many times."""
    world.cluster.faults.rules.append(Fault(verb="watch", kind=kind, times=times, error=lambda: ServerError("down")))
    world.cluster.cut_watches(lambda: ServerError("cut"))
    await asyncio.sleep(0.01)


def named(world: EmbeddedCluster, name: str) -> str:
    return f"default/{name} ({world.cluster.raw(Ref(POD, 'default', name))['metadata']['uid']})"


def version(world: EmbeddedCluster, ref: Ref) -> str:
    return str(world.cluster.raw(ref)["metadata"]["resourceVersion"])


async def test_a_sound_scheduler_equals_the_cluster_at_once(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        before = world.now()
        assert await world.scheduler.debugger.compare() == Comparison(nodes=1, pods=1)
        assert world.now() == before


async def test_pods_that_ended_are_not_missed(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await world.patch(Ref(POD, "default", "p"), {"status": {"phase": "Succeeded"}})
        await world.settle()
        assert await world.scheduler.debugger.compare() == Comparison(nodes=1, pods=0)


async def test_what_the_watch_never_reported_is_missed(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await deafen(world, POD)
        await deafen(world, NODE)
        await world.create(POD, pod_manifest("late"))
        await world.create(NODE, node_manifest("n2"))
        found = await world.scheduler.debugger.compare()
        assert found == Comparison(missed_nodes=("n2",), missed_pods=(named(world, "late"),), nodes=1, pods=1)


async def test_what_was_deleted_unseen_is_redundant(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        gone = named(world, "p")
        await deafen(world, POD)
        await deafen(world, NODE)
        await world.delete(Ref(POD, "default", "p"))
        await world.delete(Ref(NODE, "", "n1"))
        found = await world.scheduler.debugger.compare()
        assert found == Comparison(redundant_nodes=("n1",), redundant_pods=(gone,), nodes=1, pods=1)


async def test_a_change_that_was_not_seen_makes_an_object_stale(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        watched = version(world, Ref(NODE, "", "n1"))
        await deafen(world, NODE)
        await world.patch(Ref(NODE, "", "n1"), {"metadata": {"labels": {"a": "b"}}})
        found = await world.scheduler.debugger.compare()
        assert found.stale == (Stale("node", "n1", watched, version(world, Ref(NODE, "", "n1"))),)
        assert not found.ok


async def test_an_object_of_the_same_version_with_another_content_is_stale(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        store = world.scheduler._nodes.store
        store["n1"] = replace(store["n1"], metadata=replace(store["n1"].metadata, annotations={"a": "b"}))
        found = await world.scheduler.debugger.compare()
        now = version(world, Ref(NODE, "", "n1"))
        assert found.stale == (Stale("node", "n1", now, now),)


async def test_what_comes_a_few_seconds_late_is_no_difference(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await deafen(world, POD, times=1)
        await world.create(POD, pod_manifest("late"))
        before = world.now()
        assert await world.scheduler.debugger.compare() == Comparison(nodes=1, pods=2)
        assert 1 <= world.now() - before <= 5


async def test_a_pod_deleted_while_it_is_being_bound_is_no_difference(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        world.cluster.faults.rules.append(Fault(verb="bind", delay=2.0))
        await world.create(POD, pod_manifest("slow"))
        await asyncio.sleep(0.1)
        await world.delete(Ref(POD, "default", "slow"))
        await asyncio.sleep(0.1)
        assert world.cluster.calls["bind", POD] == 2  # the second is on its way
        debugger = world.scheduler.debugger
        assert (await debugger.compare_with_watch()).ok
        assert await debugger.compare() == Comparison(nodes=1, pods=1)


async def test_pods_that_come_and_go_all_the_time_are_no_difference(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)

        async def churn() -> None:
            for i in range(600):
                await world.create(POD, pod_manifest(f"c{i}", "10m"))
                await asyncio.sleep(0.01)
                await world.delete(Ref(POD, "default", f"c{i}"))

        churning = asyncio.create_task(churn())
        world.cluster.faults.rules.append(Fault(verb="list", delay=0.025))
        for _ in range(5):
            assert (await world.scheduler.debugger.compare()).ok
        assert not churning.done()
        await churning


async def test_more_pods_than_a_page_holds_are_all_listed(stage: Stage) -> None:
    async with stage() as world:
        for i in range(501):
            await world.create(POD, pod_manifest(f"p{i}", schedulerName="another-scheduler"))
        await world.start()
        assert await world.scheduler.debugger.compare() == Comparison(nodes=0, pods=501)


async def test_without_a_list_there_is_no_comparison(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        world.cluster.faults.rules.append(Fault(verb="list", kind=POD, error=lambda: ServerError("down")))
        with pytest.raises(ServerError, match="down"):
            await world.scheduler.debugger.compare()


def test_resource_versions_compare_by_length_and_then_as_text() -> None:
    assert newer("10", "9")
    assert newer("11", "10")
    assert not newer("9", "10")
    assert not newer("10", "10")
