"""kill -9 while pods are given devices: none is given out twice, and the next process believes what the last one believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.device_recount import (
    CORE,
    DEVICES,
    JOINT,
    MEMORY,
    RATIO,
    RDMA,
    WHOLE_GPUS,
    DeviceRecount,
    quantity,
    recount_devices,
)
from support.kills import killing
from support.live import PODS, Running, reason, until

from koordsched.plugins.deviceshare.layouts import device_manifest

NODES = 120
HINT = "scheduling.koordinator.sh/device-allocate-hint"
VF = {HINT: json.dumps({"rdma": {"vfSelector": {}}})}
JOINTLY = {JOINT: json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"})}
# One of each kind are 5.75 of the 8 GPUs of a node.
KINDS: tuple[tuple[dict[str, str], dict[str, str]], ...] = (
    ({WHOLE_GPUS: "2"}, {}),
    ({CORE: "50", RATIO: "50"}, {}),
    ({WHOLE_GPUS: "2", RDMA: "1"}, VF | JOINTLY),
    ({RDMA: "1"}, VF),
    ({MEMORY: "20Gi"}, {}),
    ({WHOLE_GPUS: "1", RDMA: "30"}, JOINTLY),
)
PODS_OF_A_KIND = NODES
PROFILE = {"plugins": {"multiPoint": {"enabled": [{"name": "DeviceShare"}]}}}
MEANINGLESS = "meaningless"
SUMMARIES = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"


def create_node(rest: Rest, name: str) -> None:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", WHOLE_GPUS: "8", CORE: "800", RATIO: "800", MEMORY: "640Gi", RDMA: "400"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    rest.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
    rest.create(DEVICES, device_manifest(name, gpus="2x2x2", nics="2x2x1,8"))


def create_pod(rest: Rest, name: str, kind: tuple[dict[str, str], dict[str, str]]) -> None:
    amounts, annotations = kind
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", **amounts}, "limits": amounts}}
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec})


def fill(rest: Rest) -> None:
    for number in range(NODES):
        create_node(rest, f"n-{number}")
    for number in range(PODS_OF_A_KIND):
        for letter, kind in zip("abcdef", KINDS, strict=True):
            create_pod(rest, f"{letter}-{number}", kind)
    create_pod(rest, MEANINGLESS, ({WHOLE_GPUS: "8", CORE: "50"}, {}))  # two ways of asking for GPUs at once mean nothing


def summaries(running: Running) -> dict[str, Any]:
    """Return what the scheduler shows of each node."""
    status, text = running.served.get(SUMMARIES)
    assert status == 200, text
    shown: dict[str, Any] = json.loads(text)
    return shown


def assert_sound(found: DeviceRecount) -> None:
    assert found.given_twice() == []
    assert found.not_as_requested() == []


def assert_shows(shown: dict[str, Any], found: DeviceRecount) -> None:
    """See that the scheduler believes of each pod what the annotations say."""
    believed = {
        (node, kind, int(minor), pod, name): quantity(amount)
        for node, summary in shown.items()
        for kind, pods in (summary.get("allocateSet") or {}).items()
        for pod, minors in pods.items()
        for minor, resources in minors.items()
        for name, amount in resources.items()
    }
    written = {
        (node, kind, entry.get("minor", 0), f"default/{pod}", name): quantity(amount)
        for pod, (node, types) in found.held.items()
        for kind, entries in types.items()
        for entry in entries
        for name, amount in entry["resources"].items()
    }
    assert believed == written


def test_no_device_is_given_twice_however_often_the_scheduler_is_killed(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    fill(rest)
    bindable = PODS_OF_A_KIND * len(KINDS)
    with killing(plane, tmp_path, PROFILE, qps=60, seed=7) as kills:
        kills.again_and_again(bindable, lambda: assert_sound(recount_devices(rest)))
        running = kills.start_quick(bindable)
        until(lambda: reason(rest, MEANINGLESS) == "Unschedulable")
        found = recount_devices(rest)
        assert_sound(found)
        shown = summaries(running)
        assert_shows(shown, found)
        running.process.kill()
        running = kills.start_quick(bindable)
        running.await_readiness()
        assert summaries(running) == shown
        kills.end(running)
