"""kill -9 while pods are given CPUs of their own: no CPU is sold twice, and the next process believes what the last one believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.cpu_recount import QOS_CLASS, RESOURCE_SPEC, TOPOLOGIES, CpuRecount, annotation, cpu_ids, recount_cpus
from support.kills import killing
from support.live import PODS, Running, reason, until
from support.recount import recount

from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest

LAYOUT = CpuLayout.parse("2x2x4x2,linux")  # 32 CPUs, 8 of them on each of 4 NUMA nodes
NODES = 120
POLICY_LABEL = "node.koordinator.sh/numa-topology-policy"
POLICIES = ("", "", "BestEffort", "SingleNUMANode")
# One of each kind fits on a node: 22 of its CPUs.
KINDS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("LSR", "4", {}),
    ("LSE", "8", {"requiredCPUBindPolicy": "FullPCPUs"}),
    ("LSR", "3", {"preferredCPUBindPolicy": "SpreadByPCPUs", "preferredCPUExclusivePolicy": "PCPULevel"}),
    ("LSR", "2", {"requiredCPUBindPolicy": "SpreadByPCPUs"}),
    ("LSR", "4", {"preferredCPUBindPolicy": "Default", "preferredCPUExclusivePolicy": "NUMANodeLevel"}),
    ("LS", "1", {}),
)
PODS_OF_A_KIND = NODES
PROFILE = {"plugins": {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}}
TOO_LARGE = "too-large"
REST_PATH = "/apis/v1/plugins/NodeNUMAResource/nodes/"


def create_node(rest: Rest, name: str, policy: str) -> None:
    room = {"cpu": str(LAYOUT.cpus), "memory": "64Gi", "pods": "110"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    labels = {POLICY_LABEL: policy} if policy else {}
    rest.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status})
    rest.create(TOPOLOGIES, topology_manifest(name, LAYOUT, 64 << 30))


def create_pod(rest: Rest, name: str, kind: tuple[str, str, dict[str, str]]) -> None:
    qos, cpu, spec = kind
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    annotations = {RESOURCE_SPEC: json.dumps(spec)} if spec else {}
    metadata = {"name": name, "labels": {QOS_CLASS: qos}, "annotations": annotations}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "default-scheduler", "containers": [container]},
    }
    rest.create(PODS, body)


def fill(rest: Rest) -> None:
    for number in range(NODES):
        create_node(rest, f"n-{number}", POLICIES[number % len(POLICIES)])
    for number in range(PODS_OF_A_KIND):
        for letter, kind in zip("abcdef", KINDS, strict=True):
            create_pod(rest, f"{letter}-{number}", kind)
    create_pod(rest, TOO_LARGE, ("LSR", "33", {}))


def views(running: Running) -> dict[str, Any]:
    """Return what the scheduler shows of each node."""
    found = {}
    for number in range(NODES):
        status, text = running.served.get(f"{REST_PATH}n-{number}")
        assert status == 200, text
        found[f"n-{number}"] = json.loads(text)
    return found


def assert_sound(found: CpuRecount) -> None:
    assert found.sold_twice() == []
    assert found.not_as_requested() == []


def assert_shows(shown: dict[str, Any], found: CpuRecount) -> None:
    """See that the scheduler believes of each pod what the annotations say."""
    believed = {pod["name"]: (node, cpu_ids(pod.get("cpuset", ""))) for node, view in shown.items() for pod in view["allocatedPods"] or ()}
    assert {name: held for name, held in believed.items() if held[1]} == {name: held for name, held in found.held.items() if held[1]}


def test_no_cpu_is_sold_twice_however_often_the_scheduler_is_killed(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    fill(rest)
    bindable = PODS_OF_A_KIND * len(KINDS)
    with killing(plane, tmp_path, PROFILE, qps=60, seed=7) as kills:
        kills.again_and_again(bindable, lambda: assert_sound(recount_cpus(rest)))
        running = kills.start_quick(bindable)
        until(lambda: reason(rest, TOO_LARGE) == "Unschedulable")
        found = recount_cpus(rest)
        assert_sound(found)
        shown = views(running)
        assert_shows(shown, found)
        running.process.kill()
        running = kills.start_quick(bindable)
        running.await_readiness()
        assert views(running) == shown
        kills.end(running)
    assert recount(rest).overcommitted() == {}
    assert [name for name, pod in found.pods.items() if annotation(pod, RESOURCE_SPEC) == {} and name.startswith("a-")] == []
