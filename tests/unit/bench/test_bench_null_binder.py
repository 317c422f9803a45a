"""The null binder: as little as a scheduler can do, and all that it must."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from side_by_side.gangs import BOUND_TOGETHER
from side_by_side.null_binder import WRITTEN, NullBinder
from side_by_side.workload import Workload, bound_pods, nodes, pending_pod, pending_pods, prerequisites
from support.virtual_loop import running

from koordsched.api.core import Pod
from koordsched.api.groups import Event
from koordsched.api.kinds import ELASTIC_QUOTA, EVENT, NODE, POD, POD_GROUP
from koordsched.api.koordinator.device_annotations import device_allocations
from koordsched.api.koordinator.gangs import PodGroup
from koordsched.api.koordinator.quotas import ElasticQuota
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import MemoryCluster
from koordsched.plugins.coscheduling import plugin

LOAD = Workload(nodes=3, pods=6, bound=2)


async def filled(clock: VirtualClock) -> MemoryCluster:
    cluster = MemoryCluster(clock, random=Random(1))
    for item in nodes(LOAD):
        await cluster.create(NODE, item.body)
    for item in [*bound_pods(LOAD), *pending_pods(LOAD)]:
        await create_pod(cluster, item.body)
    return cluster


async def create_pod(cluster: MemoryCluster, body: dict[str, Any]) -> None:
    await cluster.create(POD, {**body, "metadata": {**body["metadata"], "namespace": "default"}})


async def nodes_of_pods(cluster: MemoryCluster) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.node_name for pod in (await cluster.list(POD)).items if isinstance(pod, Pod)}


async def test_pods_go_to_the_nodes_in_turn_and_bound_ones_stay(clock: VirtualClock) -> None:
    cluster = await filled(clock)
    async with running(NullBinder(cluster, clock, Random(1)).run()):
        await asyncio.sleep(5)
    found = await nodes_of_pods(cluster)
    assert (found["bound-0"], found["bound-1"]) == ("node-0", "node-1")
    assert Counter(node for name, node in found.items() if name.startswith("pod-")) == {"node-0": 2, "node-1": 2, "node-2": 2}


async def test_a_pod_that_arrives_later_is_bound(clock: VirtualClock) -> None:
    cluster = await filled(clock)
    async with running(NullBinder(cluster, clock, Random(1)).run()):
        await asyncio.sleep(5)
        await create_pod(cluster, pending_pod("late", 0).body)
        await asyncio.sleep(5)
    assert (await nodes_of_pods(cluster))["late"].startswith("node-")


async def test_each_bind_has_its_scheduled_event(clock: VirtualClock) -> None:
    cluster = await filled(clock)
    async with running(NullBinder(cluster, clock, Random(1)).run()):
        await asyncio.sleep(15)
    events = [event for event in (await cluster.list(EVENT)).items if isinstance(event, Event)]
    bound = await nodes_of_pods(cluster)
    assert {event.note for event in events} == {
        f"Successfully assigned default/{name} to {bound[name]}" for name in map("pod-{}".format, range(6))
    }
    assert {(event.type, event.reason, event.action) for event in events} == {("Normal", "Scheduled", "Binding")}


async def test_with_cpusets_each_pod_of_a_node_has_its_own(clock: VirtualClock) -> None:
    cluster = await filled(clock)
    async with running(NullBinder(cluster, clock, Random(1), WRITTEN["cpuset"]).run()):
        await asyncio.sleep(5)
    pods = [pod for pod in (await cluster.list(POD)).items if isinstance(pod, Pod) and pod.metadata.name.startswith("pod-")]
    written = Counter((pod.spec.node_name, pod.metadata.annotations["scheduling.koordinator.sh/resource-status"]) for pod in pods)
    assert written == {(f"node-{number}", f'{{"cpuset":"{cpus}"}}'): 1 for number in range(3) for cpus in ("0-3", "4-7")}


async def test_with_a_theme_of_devices_each_pod_of_a_node_has_its_own(clock: VirtualClock) -> None:
    cluster = await filled(clock)
    async with running(NullBinder(cluster, clock, Random(1), WRITTEN["gpu-joint"]).run()):
        await asyncio.sleep(5)
    pods = [pod for pod in (await cluster.list(POD)).items if isinstance(pod, Pod) and pod.metadata.name.startswith("pod-")]
    written = {(pod.spec.node_name, tuple(minors(pod.metadata.annotations))) for pod in pods}
    assert written == {(f"node-{number}", gpus) for number in range(3) for gpus in ((0, 1), (2, 3))}


async def test_with_quotas_what_their_pods_use_is_written_once_a_second(clock: VirtualClock) -> None:
    load = Workload(theme="quota", nodes=3, pods=200)
    cluster = MemoryCluster(clock, random=Random(1))
    for item in nodes(load):
        await cluster.create(NODE, item.body)
    for item in prerequisites(load):
        if item.path.endswith("/elasticquotas"):
            await cluster.create(ELASTIC_QUOTA, {**item.body, "metadata": {**item.body["metadata"], "namespace": "default"}})
    for item in pending_pods(load):
        await create_pod(cluster, item.body)
    async with running(NullBinder(cluster, clock, Random(1), WRITTEN["quota"]).run()):
        await asyncio.sleep(5)
    written = {quota.metadata.name: quota for quota in (await cluster.list(ELASTIC_QUOTA)).items if isinstance(quota, ElasticQuota)}
    assert written["quota-7"].status.used == {"cpu": "1000m", "memory": "1024Mi"}
    assert written["parent-7"].status.used == {"cpu": "10000m", "memory": "10240Mi"}


async def test_with_gangs_pods_say_with_whom_they_are_bound_and_pod_groups_that_all_are(clock: VirtualClock) -> None:
    load = Workload(theme="gang-of-3", nodes=3, pods=7)
    cluster = MemoryCluster(clock, random=Random(1))
    for item in nodes(load):
        await cluster.create(NODE, item.body)
    for item in prerequisites(load):
        if item.path.endswith("/podgroups"):
            await cluster.create(POD_GROUP, {**item.body, "metadata": {**item.body["metadata"], "namespace": "default"}})
    for item in pending_pods(load):
        await create_pod(cluster, item.body)
    async with running(NullBinder(cluster, clock, Random(1), WRITTEN["gang-of-3"]).run()):
        await asyncio.sleep(5)
    pods = [pod for pod in (await cluster.list(POD)).items if isinstance(pod, Pod)]
    assert {tuple(pod.metadata.annotations) for pod in pods} == {BOUND_TOGETHER} == {plugin.BOUND_TOGETHER}
    counts = Counter(pod.metadata.annotations[BOUND_TOGETHER[1]] for pod in pods)
    assert counts == {"3": 6, "1": 1}
    groups = [group for group in (await cluster.list(POD_GROUP)).items if isinstance(group, PodGroup)]
    assert [(group.status.phase, group.status.scheduled) for group in groups] == [("Scheduled", 3), ("Scheduled", 3), ("Scheduled", 1)]
    assert cluster.calls["patch", POD_GROUP] == 3, "one of each"


def minors(annotations: Mapping[str, str]) -> list[int]:
    allocated = device_allocations(annotations)
    assert allocated is not None
    return [device.minor for device in allocated["gpu"]]
