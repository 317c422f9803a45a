"""What a scheduler decides before Devices are listed: pods that need none, if no pending pod needs one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.embedded import AnsweringCluster
from support.fakes import config_with, embedded, node_manifest, pod_manifest
from support.stages import nodes_of_pods

from koordsched.api.kinds import DEVICE, NODE, POD, RESERVATION
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Ref
from koordsched.config import SchedulerConfiguration, default_config, load_config_object
from koordsched.plugins.deviceshare.layouts import gpus

GPU = "koordinator.sh/gpu"
LATE = 10.0
"""Seconds until the API server has listed the Devices."""


@asynccontextmanager
async def cluster(config: SchedulerConfiguration | None = None) -> AsyncIterator[AnsweringCluster]:
    """Make a node with two GPUs whose Device comes late. The scheduler has not begun."""
    async with embedded(asyncio.get_running_loop(), config or default_config()) as world:
        node = node_manifest("n1", "16")
        node["status"]["allocatable"][GPU] = "200"
        await world.create(NODE, node)
        await world.create(DEVICE, {"metadata": {"name": "n1"}, "spec": {"devices": gpus("2,80Gi")}})
        world.cluster.faults.rules.append(Fault(verb="list", kind=DEVICE, delay=LATE))
        yield world


async def create(world: AnsweringCluster, name: str, gpu: str = "") -> None:
    made = pod_manifest(name, schedulerName=next(iter(world.scheduler.profiles)))
    if gpu:
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", GPU: gpu}, "limits": {GPU: gpu}}
    await world.create(POD, made)


async def begin(world: AnsweringCluster) -> float:
    """Start the scheduler as the serving process does, and return the seconds until it begins."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await world.scheduler.fill(early=True)
    world.scheduler.begin()
    return loop.time() - before


async def test_pods_that_need_no_device_are_decided_about_before_devices_are_known() -> None:
    async with cluster() as world:
        await create(world, "plain")
        assert await begin(world) < LATE
        await world.sleep(LATE / 2)
        assert nodes_of_pods(world) == {"plain": "n1"}
        assert world.scheduler.unsynced == [DEVICE.plural_group]
        await world.sleep(LATE)
        assert world.scheduler.synced


async def test_a_pod_that_comes_meanwhile_and_needs_a_device_waits_for_them() -> None:
    async with cluster() as world:
        await begin(world)
        await create(world, "gpu", "100")
        await create(world, "plain")
        await world.patch(Ref(POD, "default", "gpu"), {"metadata": {"labels": {"changed": "yes"}}})
        await world.sleep(LATE / 2)
        assert nodes_of_pods(world) == {"gpu": "", "plain": "n1"}
        (diagnosis,) = world.scheduler.explanations.explainer.answer("default/gpu")
        assert diagnosis.message == f"it waits for the first list of {DEVICE.plural_group}"
        await world.sleep(LATE)
        assert nodes_of_pods(world) == {"gpu": "n1", "plain": "n1"}
        assert "changed" in world.cluster.raw(Ref(POD, "default", "gpu"))["metadata"]["labels"]


async def test_nothing_is_decided_before_if_a_pod_waits_already_that_needs_a_device() -> None:
    """Or the plain pod would get the CPU that the other one, which comes first in the queue, needs."""
    async with cluster() as world:
        await create(world, "plain")
        await create(world, "gpu", "100")
        assert await begin(world) >= LATE
        await world.settle()
        assert nodes_of_pods(world) == {"gpu": "n1", "plain": "n1"}


async def test_a_reservation_of_devices_waits_for_them_too() -> None:
    async with cluster() as world:
        container = {"name": "main", "image": "none", "resources": {"requests": {GPU: "100"}, "limits": {GPU: "100"}}}
        template = {"spec": {"schedulerName": next(iter(world.scheduler.profiles)), "containers": [container]}}
        spec = {"owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}], "ttl": "1h", "template": template}
        await world.create(RESERVATION, {"metadata": {"name": "r"}, "spec": spec})
        assert await begin(world) >= LATE
        await world.settle()
        assert world.cluster.raw(Ref(RESERVATION, "", "r"))["status"]["nodeName"] == "n1"


async def test_one_that_is_deleted_while_it_waits_is_not_queued_and_its_successor_is() -> None:
    async with cluster() as world:
        await begin(world)
        for name in ("gone", "again"):
            await create(world, name, "100")
        await world.sleep(LATE / 2)
        for name in ("gone", "again"):
            await world.delete(Ref(POD, "default", name))
        await create(world, "again")
        await world.sleep(LATE)
        assert nodes_of_pods(world) == {"again": "n1"}


async def test_where_devices_count_for_the_score_of_every_pod_every_pod_waits_for_them() -> None:
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "DeviceShare"}]}},
        "pluginConfig": [{"name": "DeviceShare", "args": {"scoringStrategy": {"type": "LeastFragmented"}}}],
    }
    body = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    async with cluster(load_config_object(body)) as world:
        await create(world, "plain")
        assert await begin(world) >= LATE


@pytest.mark.parametrize("gpu", ["", "100"])
async def test_without_the_plugin_no_pod_waits(gpu: str) -> None:
    async with cluster(config_with({})) as world:
        await create(world, "p", gpu)
        assert await begin(world) < LATE
