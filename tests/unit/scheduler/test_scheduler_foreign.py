"""Another scheduler in the same cluster: what it binds while this one knows the pods is counted here (frameworkext.md §4.5).

tests/scenarios/schedulers.yaml has what it bound before this one looked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.embedded import AnsweringCluster
from support.fakes import embedded, node_manifest

from koordsched.api.kinds import DEVICE, ELASTIC_QUOTA, NODE, POD, POD_GROUP, RESERVATION
from koordsched.cluster.port import Binding, Ref
from koordsched.config import default_config
from koordsched.plugins.deviceshare.layouts import gpus

OURS, THEIRS = "koord-scheduler", "other"
QUOTA = {"quota.scheduling.koordinator.sh/name": "q"}
KEEPS_ITS_MIN = {"quota.scheduling.koordinator.sh/allow-lent-resource": "false"}
GANG = {"pod-group.scheduling.sigs.k8s.io": "g"}
DEVICES = "scheduling.koordinator.sh/device-allocated"
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
GPU = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
"""One whole GPU."""


@asynccontextmanager
async def cluster() -> AsyncIterator[AnsweringCluster]:
    """Return a cluster of one node with 16 CPUs and two GPUs, and a scheduler with the profile that Koordinator's chart ships."""
    async with embedded(asyncio.get_running_loop(), default_config()) as world:
        node = node_manifest("n1", "16")
        node["status"]["allocatable"] |= dict.fromkeys(GPU, "200")
        await world.create(NODE, node)
        await world.create(DEVICE, {"metadata": {"name": "n1"}, "spec": {"devices": gpus("2,80Gi")}})
        yield world


def pod(name: str, scheduler: str, requests: dict[str, str], labels: dict[str, str] | None = None) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": requests}}
    metadata = {"name": name, "namespace": "default", "labels": labels or {}}
    return {"metadata": metadata, "spec": {"schedulerName": scheduler, "containers": [container]}}


def ref(name: str) -> Ref:
    return Ref(POD, "default", name)


async def bind(world: AnsweringCluster, name: str, **annotations: str) -> None:
    """Do what another scheduler does: write what it allocates to the pod, then bind it."""
    keys = {"devices": DEVICES, "reservation": ALLOCATED}
    if annotations:
        await world.patch(ref(name), {"metadata": {"annotations": {keys[key]: text for key, text in annotations.items()}}})
    await world.cluster.bind(Binding("default", name, world.cluster.raw(ref(name))["metadata"]["uid"], "n1"))
    await world.settle()


def nodes(world: AnsweringCluster) -> dict[str, str]:
    return {raw["metadata"]["name"]: raw["spec"].get("nodeName", "") for raw in world.cluster.raws(POD)}


async def test_devices_and_a_quota_are_taken_from_the_moment_of_the_binding_and_free_when_the_pod_ends() -> None:
    async with cluster() as world:
        await world.create(
            ELASTIC_QUOTA,
            {
                "metadata": {"name": "q", "namespace": "default", "labels": KEEPS_ITS_MIN},
                "spec": {"min": {"cpu": "4"}, "max": {"cpu": "4"}},
            },
        )
        await world.start()
        await world.create(POD, pod("theirs", THEIRS, {"cpu": "3", **GPU}, QUOTA))
        await world.settle()
        devices = {"minor": 0, "resources": {**GPU, "koordinator.sh/gpu-memory": "80Gi"}}
        await bind(world, "theirs", devices=json.dumps({"gpu": [devices]}))
        await world.create(POD, pod("two", OURS, {"cpu": "2"}, QUOTA))
        await world.create(POD, pod("gpu", OURS, GPU))
        await world.create(POD, pod("no-gpu", OURS, GPU))
        await world.sleep(1)
        assert nodes(world) == {"theirs": "n1", "two": "", "gpu": "n1", "no-gpu": ""}
        (given,) = json.loads(world.cluster.raw(ref("gpu"))["metadata"]["annotations"][DEVICES])["gpu"]
        assert given["minor"] == 1
        await world.patch(ref("theirs"), {"status": {"phase": "Succeeded"}})
        await world.sleep(15)
        assert nodes(world) == {"theirs": "n1", "two": "n1", "gpu": "n1", "no-gpu": "n1"}
        world.scheduler.queue.check_invariants()


async def test_a_member_of_a_gang_that_another_one_has_to_bind_is_waited_for() -> None:
    async with cluster() as world:
        await world.create(POD_GROUP, {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}})
        await world.start()
        await world.create(POD, pod("ours", OURS, {"cpu": "1"}, GANG))
        await world.create(POD, pod("theirs", THEIRS, {"cpu": "1"}, GANG))
        await world.sleep(30)
        assert nodes(world) == {"ours": "", "theirs": ""}
        await bind(world, "theirs")
        await world.sleep(15)
        assert nodes(world) == {"ours": "n1", "theirs": "n1"}


async def test_an_owner_that_another_one_has_bound_takes_of_our_reservation() -> None:
    """Of 8 CPUs it takes 5; an owner of ours that needs the Reservation gets 3 of it, not 4."""
    async with cluster() as world:
        spec = {
            "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
            "allocateOnce": False,
            "allocatePolicy": "Restricted",
            "ttl": "1h",
            "template": pod("", OURS, {"cpu": "8"}) | {"metadata": {}},
        }
        await world.start()
        await world.create(RESERVATION, {"metadata": {"name": "r"}, "spec": spec})
        await world.sleep(1)
        reservation = Ref(RESERVATION, "", "r")
        assert world.cluster.raw(reservation)["status"]["phase"] == "Available"
        uid = world.cluster.raw(reservation)["metadata"]["uid"]
        await world.create(POD, pod("theirs", THEIRS, {"cpu": "5"}, {"app": "x"}))
        await bind(world, "theirs", reservation=json.dumps({"name": "r", "uid": uid}))
        await world.sleep(1)
        assert world.cluster.raw(reservation)["status"]["allocated"] == {"cpu": "5"}
        for name, cpus in (("four", "4"), ("three", "3")):
            manifest = pod(name, OURS, {"cpu": cpus}, {"app": "x"})
            manifest["metadata"]["annotations"] = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
            await world.create(POD, manifest)
        await world.sleep(1)
        assert nodes(world) == {"theirs": "n1", "four": "", "three": "n1"}
        await world.delete(ref("theirs"))
        await world.sleep(15)
        assert nodes(world) == {"four": "n1", "three": "n1"}
        assert world.cluster.raw(reservation)["status"]["allocated"] == {"cpu": "7"}


async def test_a_reservation_that_another_one_has_placed_while_ours_was_placing_it_is_where_the_cluster_says() -> None:
    """Its template passes to another scheduler, which makes it Available at once: what counts is one Reservation, on its node."""
    async with cluster() as world:
        await world.create(NODE, node_manifest("n2", "16"))
        await world.start()
        spec = {
            "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
            "ttl": "1h",
            "template": pod("", OURS, {"cpu": "20"}) | {"metadata": {}},
        }
        await world.create(RESERVATION, {"metadata": {"name": "r"}, "spec": spec})
        await world.sleep(1)
        await world.patch(Ref(RESERVATION, "", "r"), {"spec": {"template": {"spec": {"schedulerName": THEIRS}}}})
        await world.patch(Ref(RESERVATION, "", "r"), {"status": {"phase": "Available", "nodeName": "n2", "allocatable": {"cpu": "10"}}})
        await world.settle()
        assert world.scheduler.queue.waiting() == world.scheduler.queue.in_flight == []
        await world.create(POD, pod("stranger", OURS, {"cpu": "7"}))
        await world.sleep(1)
        assert nodes(world) == {"stranger": "n1"}, "n2 has 6 left"


async def test_what_passes_to_another_scheduler_while_it_is_nominated_keeps_no_pod_from_the_node() -> None:
    """koordinator #3091: a pod and a Reservation, too large for the node, are nominated for it and handed over."""
    async with cluster() as world:
        await world.start()
        await world.create(POD, pod("p", OURS, {"cpu": "20"}))
        spec = {
            "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
            "ttl": "1h",
            "template": pod("", OURS, {"cpu": "20"}) | {"metadata": {}},
        }
        await world.create(RESERVATION, {"metadata": {"name": "r"}, "spec": spec})
        await world.settle()
        queue = world.scheduler.queue
        waiting = queue.waiting()
        assert len(waiting) == 2
        for info in waiting:
            queue.nominate(info.pod_info, "n1")
        assert len(queue.nominator.nominations) == 2
        await world.patch(ref("p"), {"metadata": {"labels": {"scheduling.koordinator.sh/scheduler-name": THEIRS}}})
        await world.patch(Ref(RESERVATION, "", "r"), {"spec": {"template": {"spec": {"schedulerName": THEIRS}}}})
        await world.settle()
        assert queue.waiting() == queue.in_flight == []
        assert not queue.nominator.nominations
