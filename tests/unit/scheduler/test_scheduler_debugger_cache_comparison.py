"""Debugger: cache and queue against what the watches say. Each test damages one fact and reads what is reported."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import node, pod
from support.fakes import Late, node_manifest, pod_manifest
from support.known import known
from support.stages import Stage

from koordsched.api.core import ContainerImage, Taint
from koordsched.api.kinds import NODE, POD
from koordsched.cache.columns import CORDON
from koordsched.cluster.port import MODIFIED, Ref, WatchEvent
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.status import Code, Status
from koordsched.scheduler.debugger import Comparison, WrongNode
from koordsched.scheduler.debugger.cache_comparison import compare_with_watch
from koordsched.slices import SLICE_SECONDS, Slices

GATED: dict[str, Any] = {"schedulingGates": [{"name": "wait"}]}


async def prepare(world: EmbeddedCluster) -> None:
    """One node with 4 cpu, on it `bound` with 1 cpu and host port 80; `big`, which fits nowhere; `gated`; `other`, which is not ours."""
    await world.create(NODE, node_manifest("n1", zone="a"))
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80, "hostPort": 80}]}
    await world.create(POD, pod_manifest("bound", containers=[container]))
    await world.start()
    await world.create(POD, pod_manifest("big", "9"))
    await world.create(POD, pod_manifest("gated", **GATED))
    await world.create(POD, pod_manifest("other", schedulerName="another-scheduler"))
    await world.settle()


async def compared(world: EmbeddedCluster) -> Comparison:
    return await world.scheduler.debugger.compare_with_watch()


def uid(world: EmbeddedCluster, name: str) -> str:
    return str(world.cluster.raw(Ref(POD, "default", name))["metadata"]["uid"])


def named(world: EmbeddedCluster, name: str) -> str:
    return f"default/{name} ({uid(world, name)})"


async def test_a_sound_scheduler_differs_in_nothing(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        assert (await compared(world)) == Comparison(nodes=1, pods=4)
        assert (await compared(world)).ok


async def test_what_changes_while_a_comparison_pauses_is_no_difference(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        slices = Slices(count(0.0, 2 * SLICE_SECONDS).__next__, 1.0)  # a pause after each object
        comparison = asyncio.create_task(compare_with_watch(world.scheduler._sources(), slices))
        for i in range(8):
            await world.create(NODE, node_manifest(f"late{i}"))
            await world.create(POD, pod_manifest(f"late{i}"))
            await asyncio.sleep(0.7)
            if i % 2:
                await world.delete(Ref(POD, "default", f"late{i - 1}"))
        found = await comparison
        assert slices.seconds > 10 * SLICE_SECONDS
        assert found.ok
        assert (found.nodes, found.pods) == (9, 8)


async def test_a_pod_that_waits_on_permit_is_counted_where_it_is_assumed(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (Status(Code.WAIT), 600.0)
    async with stage((late, "permit")) as world:
        await prepare(world)
        assert world.scheduler.cache.assumed_count == 1
        assert (await compared(world)) == Comparison(nodes=1, pods=4)


async def test_a_pending_pod_that_is_being_deleted_need_not_be_anywhere(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        held = pod_manifest("held", "1")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await world.create(POD, {**held, "spec": {**held["spec"], **GATED}})
        await world.settle()
        await world.delete(Ref(POD, "default", "held"))
        await world.settle()
        world.scheduler.queue.forget(known(world.scheduler.queue.get("default/held")).pod_info)
        assert (await compared(world)).ok


async def test_a_node_that_the_cache_lost_is_missed(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        world.scheduler.cache.remove_node("n1")
        assert (await compared(world)) == Comparison(missed_nodes=("n1",), nodes=1, pods=4)


async def test_a_node_that_only_the_cache_has_is_redundant(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        world.scheduler.cache.set_node(node("n9").build())
        assert (await compared(world)) == Comparison(redundant_nodes=("n9",), nodes=1, pods=4)


async def test_a_bound_pod_that_the_cache_lost_is_missed_and_its_node_is_wrong(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        lost = uid(world, "bound")
        world.scheduler.cache.remove_pod(lost)
        found = await compared(world)
        assert (found.missed_pods, found.redundant_pods, found.ok) == ((f"default/bound ({lost})",), (), False)
        assert found.wrong_nodes == (
            WrongNode("n1", "host port TCP 0.0.0.0:80", False, True),
            WrongNode("n1", "non-zero requested cpu", 0, 1000),
            WrongNode("n1", "non-zero requested memory", 0, 200 * 1024 * 1024),
            WrongNode("n1", "pods", [], [lost]),
            WrongNode("n1", "requested cpu", 0, 1000),
            WrongNode("n1", "requested pods", 0, 1),
        )


async def test_a_pending_pod_that_the_queue_lost_is_missed(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        queue = world.scheduler.queue
        for name in ("big", "gated"):
            queue.forget(known(queue.get(f"default/{name}")).pod_info)
        assert (await compared(world)).missed_pods == (named(world, "big"), named(world, "gated"))


async def test_a_pod_that_does_not_exist_is_redundant_wherever_it_is(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        world.scheduler.cache.set_pod(pod("dead").uid("u1").info(), "n1")
        gone = pod("gone").uid("u2").gate("wait").info()
        gone.shape = "any"
        world.scheduler.queue.add(gone)
        found = await compared(world)
        assert found.redundant_pods == ("default/dead (u1)", "default/gone (u2)")
        assert WrongNode("n1", "requested pods", 2, 1) in found.wrong_nodes


async def test_a_bound_pod_that_still_waits_in_the_queue_is_redundant(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        twice = pod("bound").uid(uid(world, "bound")).gate("wait").info()
        twice.shape = "any"
        world.scheduler.queue.add(twice)
        assert (await compared(world)) == Comparison(redundant_pods=(named(world, "bound"),), nodes=1, pods=4)


async def test_a_bound_pod_that_is_still_taken_for_assumed_makes_its_node_wrong(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        world.scheduler.cache.pods[uid(world, "bound")].assumed = True
        assert (await compared(world)).wrong_nodes == (WrongNode("n1", "assumed pods", [uid(world, "bound")], []),)


async def test_columns_that_drifted_are_named_with_both_values(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        cache = world.scheduler.cache
        row = cache.nodes_by_name["n1"].row
        cache.table.add(row, cache.columns.request(pod().cpu("250m").memory("1Gi").info().resources))
        cache.columns.set_allocatable(row, {"pods": 110, "cpu": 4000, "memory": 8 * 2**30, "example.com/gpu": 8})
        cache.columns.set_labels(row, {}, {"zone": "b"})
        cache.columns.host_ports.free(row, pod().host_port(80).info().ports)
        cache.columns.host_ports.use(row, pod().host_port(443, "UDP").info().ports)
        cache.columns.set_taints(row, (), (Taint(key="t", value="v", effect="NoSchedule"), CORDON))
        cache.columns.set_images(row, (), (ContainerImage(names=("i:1",), size_bytes=1),))
        assert (await compared(world)).wrong_nodes == (
            WrongNode("n1", "allocatable example.com/gpu", 8, 0),
            WrongNode("n1", "cordoned", True, False),
            WrongNode("n1", "host port TCP 0.0.0.0:80", False, True),
            WrongNode("n1", "host port UDP 0.0.0.0:443", True, False),
            WrongNode("n1", "image i:1", True, False),
            WrongNode("n1", "label zone", "b", "a"),
            WrongNode("n1", "non-zero requested cpu", 1250, 1000),
            WrongNode("n1", "non-zero requested memory", 2**30 + 200 * 2**20, 200 * 2**20),
            WrongNode("n1", "requested cpu", 1250, 1000),
            WrongNode("n1", "requested memory", 2**30, 0),
            WrongNode("n1", "requested pods", 2, 1),
            WrongNode("n1", "taints", "t=v:NoSchedule", ""),
        )


async def test_facts_that_a_column_lost_are_named_too(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        images = [{"names": ["i:1"], "sizeBytes": 1}]
        status = {**node_manifest("n2")["status"], "images": images}
        taints = [{"key": "t", "effect": "NoExecute"}]
        await world.create(NODE, {**node_manifest("n2"), "status": status, "spec": {"taints": taints, "unschedulable": True}})
        await world.settle()
        cache = world.scheduler.cache
        info = cache.nodes_by_name["n2"]
        cache.columns.clear_node(info.row, known(info.node))
        cache.table.set_live(info.row, True)
        assert (await compared(world)).wrong_nodes == (
            WrongNode("n2", "allocatable cpu", 0, 4000),
            WrongNode("n2", "allocatable memory", 0, 8 * 2**30),
            WrongNode("n2", "allocatable pods", 0, 110),
            WrongNode("n2", "cordoned", False, True),
            WrongNode("n2", "image i:1", False, True),
            WrongNode("n2", "taints", "", "t=:NoExecute"),
        )


async def test_a_row_that_is_not_live_though_its_node_is_known_is_wrong(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        cache = world.scheduler.cache
        cache.table.set_live(cache.nodes_by_name["n1"].row, False)
        assert (await compared(world)).wrong_nodes == (WrongNode("n1", "live", False, True),)


async def test_pods_on_a_node_that_never_was_are_wrong(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        world.scheduler.cache.set_pod(pod("dead").uid("u1").cpu("1").memory("1Gi").info(), "n9")
        assert (await compared(world)).wrong_nodes == (
            WrongNode("n9", "non-zero requested cpu", 1000, 0),
            WrongNode("n9", "non-zero requested memory", 2**30, 0),
            WrongNode("n9", "pods", ["u1"], []),
            WrongNode("n9", "requested cpu", 1000, 0),
            WrongNode("n9", "requested memory", 2**30, 0),
            WrongNode("n9", "requested pods", 1, 0),
        )


async def test_a_node_that_sampling_would_never_look_at_is_wrong(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        cache = world.scheduler.cache
        cache.order.drop(cache.nodes_by_name["n1"])
        assert (await compared(world)).wrong_nodes == (WrongNode("n1", "in the order of nodes", False, True),)


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "pending"])
async def test_an_unreadable_pod_is_named_but_no_difference(stage: Stage, bound: bool) -> None:
    async with stage() as world:
        await prepare(world)
        builder = pod("odd").cpu("abc").on("n1") if bound else pod("odd").cpu("abc")
        feed(world, builder.resource_version("999").build())
        found = await compared(world)
        assert (found.ok, found.unreadable) == (True, ("pod default/odd",))


async def test_an_unreadable_node_is_named_but_no_difference(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        odd = node("odd").cpu("abc").build()
        world.scheduler._nodes._objects.apply(WatchEvent(MODIFIED, odd))
        assert (await compared(world)) == Comparison(unreadable=("node odd",), nodes=2, pods=4)


async def test_a_pod_is_expected_to_take_what_a_resize_that_is_under_way_takes(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        running = {"name": "main", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}
        await world.patch(Ref(POD, "default", "bound"), {"status": {"phase": "Running", "containerStatuses": [running]}})
        await world.settle()
        assert world.scheduler.cache.nodes_by_name["n1"].requested("cpu") == 2000
        assert (await compared(world)).ok


async def test_a_pod_that_became_unreadable_stays_counted_as_it_was(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        was = world.scheduler.cache.pods[uid(world, "bound")].info.pod
        meta = replace(was.metadata, resource_version="999")
        feed(world, replace(was, metadata=meta, spec=pod().cpu("abc").on("n1").build().spec))
        found = await compared(world)
        assert (found.ok, found.unreadable) == (True, ("pod default/bound",))


def feed(world: EmbeddedCluster, obj: Any) -> None:
    """Let the pod watch bring an object that an API server would refuse."""
    world.scheduler._pods._objects.apply(WatchEvent(MODIFIED, obj))


async def test_a_comparison_of_some_nodes_and_pods_says_nothing_of_others(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        await world.create(NODE, node_manifest("n2"))
        await world.settle()
        scheduler = world.scheduler
        queue, cache = scheduler.queue, scheduler.cache
        for name in ("big", "gated"):
            queue.forget(known(queue.get(f"default/{name}")).pod_info)
        for name in ("dead", "late"):
            gone = pod(name).uid(f"u-{name}").gate("wait").info()
            gone.shape = "any"
            queue.add(gone)
        cache.set_pod(pod("x").uid("u-x").info(), "n2")
        cache.set_pod(pod("y").uid("u-y").info(), "n2")
        cache.columns.set_labels(cache.nodes_by_name["n1"].row, {}, {"rack": "r"})

        async def some(nodes: set[str], pods: list[str]) -> Comparison:
            return await compare_with_watch(scheduler._sources(), Slices(scheduler.clock.perf), nodes, pods)

        assert (await some(set(), [])).ok
        found = await some(set(), ["default/big", "default/dead", "default/x", "default/none"])
        assert (found.missed_pods, found.redundant_pods) == ((named(world, "big"),), ("default/dead (u-dead)", "default/x (u-x)"))
        assert found.wrong_nodes == ()
        assert [(wrong.node, wrong.column) for wrong in (await some({"n1"}, [])).wrong_nodes] == [("n1", "label rack")]


async def test_with_some_nodes_go_their_pods_and_those_that_are_on_none(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        await world.create(NODE, node_manifest("n2"))
        await world.settle()
        scheduler = world.scheduler
        scheduler.queue.forget(known(scheduler.queue.get("default/big")).pod_info)
        for name in ("n1", "n2"):
            scheduler.cache.set_pod(pod(f"gone-{name}").uid(f"u-{name}").info(), name)
        lost = uid(world, "bound")  # on n1
        scheduler.cache.remove_pod(lost)

        async def with_pods(nodes: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
            found = await compare_with_watch(scheduler._sources(), Slices(scheduler.clock.perf), nodes)
            return found.missed_pods, found.redundant_pods

        big = named(world, "big")
        assert await with_pods({"n1"}) == (tuple(sorted((big, f"default/bound ({lost})"))), ("default/gone-n1 (u-n1)",))
        assert await with_pods({"n2"}) == ((big,), ("default/gone-n2 (u-n2)",))
        assert await with_pods(set()) == ((big,), ())
