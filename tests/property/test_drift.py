"""Whatever is damaged in cache, plugins' state and queue, a full round of the standing check makes it what it would be if made anew; and a
scheduler that is not damaged is never mended, whatever happens on the cluster meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import node, pod
from support.described import described, ports_on_row
from support.drift import all_drift, check_all, standing_check
from support.embedded import AnsweringCluster
from support.fakes import embedded, node_manifest, pod_manifest
from support.virtual_loop import run_virtual, running

from koordsched.api.core import ContainerImage, Taint
from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import ClusterError, Ref, ServerError
from koordsched.config import load_config_object
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.plugins.nodenumaresource.state import NumaCheck, NumaState

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}}],
}
NODES = ("n0", "n1", "n2")
numbers = st.integers(0, 7)


async def begin(world: AnsweringCluster) -> None:
    """Three nodes with 8 CPUs, labels, images and taints here and there; pods with ports, CPUs of their own, and one that does not fit."""
    for i, name in enumerate(NODES):
        manifest = node_manifest(name, "8", zone=f"z{i % 2}")
        manifest["status"]["images"] = [{"names": [f"image:{i % 2}", "image:both"], "sizeBytes": 1000}]
        manifest["spec"] = {"taints": [{"key": "t", "value": "v", "effect": "PreferNoSchedule"}]} if i else {"unschedulable": False}
        await world.create(NODE, manifest)
        await world.create(NODE_RESOURCE_TOPOLOGY, topology_manifest(name, CpuLayout.parse("2x1x2x2"), 1 << 33))
    await world.start()
    for i in range(8):
        await world.create(POD, pod_of(f"p{i}", i))
    await world.settle()


def pod_of(name: str, i: int) -> dict[str, Any]:
    manifest = pod_manifest(name, "20" if i == 6 else "2", priority=9500)
    manifest["metadata"]["labels"] = {"app": f"a{i % 3}"} | ({"koordinator.sh/qosClass": "LSR"} if i % 2 else {})
    if i % 4 == 0:
        manifest["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8000 + i % 3}]
    if i == 7:
        manifest["spec"]["schedulingGates"] = [{"name": "wait"}]
    return manifest


def damage(world: AnsweringCluster, what: str, i: int, j: int) -> None:
    """Let one thing be wrong."""
    scheduler = world.scheduler
    cache, queue = scheduler.cache, scheduler.queue
    name = NODES[i % 3]
    info = cache.nodes_by_name.get(name)
    row = -1 if info is None else info.row
    counted = [uid for uid, state in cache.pods.items() if not state.assumed]
    waiting = queue.waiting()
    checked = next(each for each in cache.checked if isinstance(each, NumaCheck))
    numa: NumaState = checked._state
    if what == "lose node":
        cache.remove_node(name)
    elif what == "lose pod" and counted:
        cache.remove_pod(counted[j % len(counted)])
    elif what == "assume" and counted:
        cache.pods[counted[j % len(counted)]].assumed = True
        cache.assumed_count += 1
    elif what == "strange node":
        cache.set_node(node(f"strange{i}").cpu("4").label("zone", "z9").build())
    elif what == "strange pod":
        cache.set_pod(pod(f"strange{i}").uid(f"strange{i}").cpu("1").host_port(9000 + j).info(), NODES[j % 3])
    elif what == "lose waiting" and waiting:
        queue.forget(waiting[j % len(waiting)].pod_info)
    elif what == "strange waiting":
        strange = pod(f"waits{i}").uid(f"waits{i}").gate("wait").info()
        strange.shape = "any"
        queue.add(strange)
    elif what == "old waiting" and waiting:
        old = waiting[j % len(waiting)].pod_info
        old.pod = replace(old.pod, metadata=replace(old.pod.metadata, resource_version="1"))
    elif what == "release" and counted:
        numa.release(counted[j % len(counted)])
    elif what == "topology":
        numa.set_options(name, None)
    elif info is not None and what in COLUMNS:
        damage_columns(cache, row, what, j)


COLUMNS = ("requested", "labels", "taints", "images", "ports", "no ports", "allocatable", "live", "order")


def damage_columns(cache: Cache, row: int, what: str, j: int) -> None:
    columns = cache.columns
    if what == "requested":
        cache.table.add(row, columns.request(pod().cpu(f"{1 + j}").memory("1Gi").info().resources))
    elif what == "labels":
        columns.set_labels(row, {}, {"zone": f"wrong{j}", "more": "x"})
    elif what == "taints":
        columns.set_taints(row, (), (Taint(key="wrong", value=f"{j}", effect="NoSchedule"),))
    elif what == "images":
        columns.set_images(row, (), (ContainerImage(names=(f"wrong:{j}",), size_bytes=1),))
    elif what == "ports":
        columns.host_ports.use(row, pod().host_port(8000 + j).info().ports)
    elif what == "no ports":
        for port in sorted(ports_on_row(cache, row))[:1]:
            columns.host_ports.free(row, (port,))
    elif what == "allocatable":
        columns.set_allocatable(row, {"cpu": 1000 * j, "example.com/gpu": j})
    elif what == "live":
        cache.table.set_live(row, False)
    else:
        found = cache.infos[row]
        if found is not None:
            cache.order.drop(found)


DAMAGES = (
    "lose node",
    "lose pod",
    "assume",
    "strange node",
    "strange pod",
    "lose waiting",
    "strange waiting",
    "old waiting",
    "release",
    "topology",
    *COLUMNS,
)


def anew(world: AnsweringCluster) -> Cache:
    """Return a cache that is filled from the watched objects."""
    made = Cache()
    for found in world.scheduler._nodes.store.values():
        made.set_node(found)
    for found_pod in world.scheduler.pods.values():
        if found_pod.spec.node_name:
            made.set_pod(PodInfo(found_pod, counted_on_node=True), found_pod.spec.node_name)
    return made


@given(st.lists(st.tuples(st.sampled_from(DAMAGES), numbers, numbers), min_size=1, max_size=6))
@example([("no ports", 0, 0), ("no ports", 1, 0), ("no ports", 2, 0), *(("lose pod", 0, j) for j in range(8))])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_was_damaged_is_as_made_anew_after_a_round(damages: list[tuple[str, int, int]]) -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG)) as world:
            await begin(world)
            for what, i, j in damages:
                damage(world, what, i, j)
            damaged = not (await world.scheduler.debugger.compare_with_watch()).ok
            await check_all(world)
            assert bool(all_drift(world)) is damaged
            await world.settle()
            await asyncio.sleep(15)  # what was taken in again may have found a node
            assert (await world.scheduler.debugger.compare()).ok
            assert described(world.scheduler.cache) == described(anew(world))
            assert world.scheduler.cache.assumed_count == 0
            world.scheduler.queue.check_invariants()
            counted = all_drift(world)
            await check_all(world)
            assert all_drift(world) == counted

    run_virtual(body)


STEPS = ("add", "add", "delete", "finish", "label", "resize", "break", "relist", "slow", "wait")
steps = st.tuples(st.sampled_from(STEPS), numbers, numbers)


@given(st.lists(steps, min_size=5, max_size=40))
@example([("relist", 0, 2), ("add", 0, 2), ("add", 0, 1), ("relist", 0, 0), ("resize", 0, 0)])  # the informer waits before it lists again
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_is_mended_where_nothing_is_wrong(sequence: list[tuple[str, int, int]]) -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG)) as world:
            await begin(world)
            async with running(standing_check(world).run(1.0)):
                for number, step in enumerate(sequence):
                    await play(world, number, *step)
                world.cluster.faults.rules.clear()
                await asyncio.sleep(60)
            assert all_drift(world) == ""

    run_virtual(body)


async def play(world: AnsweringCluster, number: int, what: str, i: int, j: int) -> None:
    raws = world.cluster.raws(POD)
    ref = Ref(POD, "default", raws[i % len(raws)]["metadata"]["name"]) if raws else None
    faults = world.cluster.faults.rules
    try:
        if what == "add":
            await world.create(POD, pod_of(f"q{number}", i))
        elif what == "delete" and ref is not None:
            await world.delete(ref)
        elif what == "finish" and ref is not None:
            await world.patch(ref, {"status": {"phase": "Succeeded"}})
        elif what == "label" and ref is not None:
            await world.patch(ref, {"metadata": {"labels": {"app": f"a{j}"}}})
        elif what == "resize":
            await world.patch(Ref(NODE, "", NODES[i % 3]), {"status": {"allocatable": {"cpu": str(4 + j)}}})
        elif what == "break":
            faults.append(Fault(verb="bind" if j % 2 else "patch", kind=POD, times=1 + i, error=lambda: ServerError("away")))
        elif what == "relist":
            world.cluster.compact()
            world.cluster.cut_watches()
        elif what == "slow":
            faults.append(Fault(verb="bind" if j % 2 else "list", times=3, delay=float(i)))
    except ClusterError:
        return
    await asyncio.sleep((0.0, 0.1, 0.5, 3.0)[j % 4])
