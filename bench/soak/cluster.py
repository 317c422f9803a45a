"""The nodes, all that describes them, and what befalls both."""

from __future__ import annotations

import time
from random import Random
from typing import Any

from churn.cluster import NODES, PODS, Json, Nodes, gently
from side_by_side import gpus, koordinator
from support.controlplane.rest import Rest
from support.cpu_recount import TOPOLOGIES
from support.device_recount import DEVICES, quantity

from koordsched.api.kinds import NODE_METRIC
from koordsched.clock import rfc3339
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest

METRICS = f"/apis/{NODE_METRIC.api_version}/nodemetrics"
LAYOUT = CpuLayout.parse("2x1x8x2")
MEMORY = 128 << 30
ROOM = {"cpu": str(LAYOUT.cpus), "memory": str(MEMORY), "pods": "110"}
GPUS = {resource: amount for resource, amount in gpus.ROOM.items() if "/" in resource}
NODES_OF_A_BLOCK, NODES_OF_A_RACK = 10, 5
POLICY_LABEL = "node.koordinator.sh/numa-topology-policy"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
HOT = 0.6
"""What part of its CPUs a hot node uses for what no pod accounts for."""


class DescribedNodes(Nodes):
    """Nodes with a NodeResourceTopology and a NodeMetric each, and every second with devices. Names are never used twice."""

    def __init__(self, rest: Rest, random: Random, count: int) -> None:
        self.devices: dict[str, list[Json]] = {}  # by node, as its Device lists them
        self._reported = 0
        super().__init__(rest, random, count)

    def add(self) -> None:
        number = self._made
        name = f"node-{number}"
        labels = {HOSTNAME: name, ZONE: f"z{number % 3}"}
        labels |= {"block": f"b{number // NODES_OF_A_BLOCK}", "rack": f"r{number // NODES_OF_A_RACK}"}
        if number % 4 == 3:
            labels[POLICY_LABEL] = "BestEffort"
        with_devices = number % 2 == 0
        room = ROOM | GPUS if with_devices else ROOM
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        self._rest.create(TOPOLOGIES, topology_manifest(name, LAYOUT, MEMORY))
        if with_devices:
            body = gpus.device(name)[1]
            self.devices[name] = body["spec"]["devices"]
            self._rest.create(DEVICES, body)
        self._rest.create(METRICS, koordinator.node_metric(name, number, time.time()))
        self._rest.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status})
        self._made += 1
        self.names.append(name)
        self.report(name)

    def change(self) -> None:
        """Let one thing befall one node or one of its devices."""
        changes = [self._cordon, self._uncordon, self._uncordon, self._taint, self._untaint, self._untaint, self._fail_device]
        self._random.choice(changes)(self._random.choice(self.names))

    def take_away(self, name: str) -> None:
        """Delete the node with its pods and what describes it; its topology goes when no pod is there any more (`collect`)."""
        super().take_away(name)
        self._rest.delete(f"{METRICS}/{name}")
        if self.devices.pop(name, None) is not None:
            self._rest.delete(f"{DEVICES}/{name}")

    def collect(self) -> None:
        """Delete what describes nodes that have gone, once no pod is on them any more."""
        for topology in self._rest.get(TOPOLOGIES)["items"]:
            if topology["metadata"]["name"] not in self.names:
                gently(self._rest.delete, f"{TOPOLOGIES}/{topology['metadata']['name']}")

    def report_next(self) -> None:
        """Write the NodeMetric of the next node in turn anew."""
        self._reported += 1
        self.report(self.names[self._reported % len(self.names)])

    def report(self, name: str) -> None:
        """Write what a koordlet would see: each pod uses a part of what it asks for, and something else runs there, too."""
        listed = self._rest.get(f"{PODS}?fieldSelector=spec.nodeName%3D{name}")["items"]
        cpu = LAYOUT.cpus * (HOT if self._random.random() < 0.05 else self._random.uniform(0.02, 0.1))
        memory = MEMORY * self._random.uniform(0.02, 0.1)
        of_pods = []
        for pod in listed:
            part = self._random.uniform(0.2, 0.6)
            used = {resource: part * float(amount) for resource, amount in asked(pod).items()}
            cpu, memory = cpu + used.get("cpu", 0.0), memory + used.get("memory", 0.0)
            of_pods.append({"namespace": "default", "name": pod["metadata"]["name"], "podUsage": usage(used)})
        status = {
            "updateTime": rfc3339(time.time()),
            "nodeMetric": {"nodeUsage": usage({"cpu": cpu, "memory": memory})},
            "podsMetric": of_pods,
        }
        gently(self._rest.patch, f"{METRICS}/{name}/status", {"status": status})

    def _fail_device(self, name: str) -> None:
        """Let one of the node's devices fail, or all be well again."""
        devices = self.devices.get(name)
        if devices is None:
            return
        broken = [entry for entry in devices if not entry["health"]]
        for entry in broken or [self._random.choice(devices)]:
            entry["health"] = not entry["health"]
        self._rest.patch(f"{DEVICES}/{name}", {"spec": {"devices": devices}})


def asked(pod: Json) -> dict[str, Any]:
    """Add up what the pod's containers request of CPUs and memory."""
    total: dict[str, Any] = {"cpu": 0, "memory": 0}
    for container in pod["spec"]["containers"]:
        for name, amount in container.get("resources", {}).get("requests", {}).items():
            if name in total:
                total[name] += quantity(amount)
    return total


def usage(amounts: dict[str, float]) -> Json:
    return {"resources": {"cpu": f"{int(1000 * amounts.get('cpu', 0))}m", "memory": str(int(amounts.get("memory", 0)))}}
