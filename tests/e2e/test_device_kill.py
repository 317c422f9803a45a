"""kill -9 while pods are given devices: none is given out twice, and the next process believes what the last one believed.

KOORDSCHED_KILLS says how often; a few times are enough to see a fault of the kind that shows every time.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from random import Random
from typing import Any

from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
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
from support.live import PODS, Launch, Running, found_equal, reason, until
from support.placements import Placements

from koordsched.plugins.deviceshare.layouts import device_manifest

KILLS = int(os.environ.get("KOORDSCHED_KILLS", "3"))
MANIFESTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
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
PROFILES = [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "DeviceShare"}]}}}]
MEANINGLESS = "meaningless"
CONNECTION = {"qps": 60, "burst": 30}  # so slowly that the pods last for all kills
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


def kill_while_it_binds(running: Running, placements: Placements, random: Random) -> None:
    """Kill the process when it has bound a few pods more."""
    goal = placements.bound + random.randrange(1, 8)
    until(lambda: placements.bound >= goal)
    time.sleep(random.uniform(0, 0.05))
    running.process.kill()


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
    rest, random = plane.rest(), Random(7)
    fill(rest)
    with service_account(rest, MANIFESTS) as token, Placements(plane.kubeconfig()) as placements:
        launch = Launch(plane, tmp_path, plane.kubeconfig(by_token(token)), connection=CONNECTION, config={"profiles": PROFILES})
        for _ in range(KILLS):
            kill_while_it_binds(launch.start(), placements, random)
            assert placements.settled() < PODS_OF_A_KIND * len(KINDS), "there was nothing left to bind"
            assert_sound(recount_devices(rest))
        quick = launch._replace(connection={"qps": 5000, "burst": 5000})
        running = quick.start()
        until(lambda: placements.bound == PODS_OF_A_KIND * len(KINDS))
        until(lambda: reason(rest, MEANINGLESS) == "Unschedulable")
        found = recount_devices(rest)
        assert_sound(found)
        shown = summaries(running)
        assert_shows(shown, found)
        running.process.kill()
        running = quick.start()
        running.await_readiness()
        assert summaries(running) == shown
        until(lambda: found_equal(running.debug("/debug/compare")))
        outcome = running.stop()
    assert placements.strayed() == []
    assert outcome.code == 0
    assert "Traceback" not in outcome.text
