"""What is put on the cluster: equal nodes, and pods of a few sizes that all fit."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEDULER_NAME = "default-scheduler"
NAMESPACE = "default"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES_PATH = "/api/v1/nodes"
ZONES = 3
ROOM = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "400Gi", "pods": "110"}


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it.

    `rate`: pods that arrive a second; 0: all are there before the scheduler starts. `bound`: pods that have a node before it starts.
    """

    nodes: int
    pods: int
    sizes: int = 16
    rate: float = 0.0
    bound: int = 0


class Item(msgspec.Struct, frozen=True):
    """An object to create."""

    name: str
    path: str
    body: bytes


def nodes(workload: Workload) -> list[Item]:
    return [_item(NODES_PATH, _node(number)) for number in range(workload.nodes)]


def bound_pods(workload: Workload) -> list[Item]:
    """Return the pods that are there from the beginning, spread evenly over the nodes."""
    return [
        _item(PODS_PATH, _pod(f"bound-{number}", number % workload.sizes, {"nodeName": node_name(number % workload.nodes)}))
        for number in range(workload.bound)
    ]


def pending_pods(workload: Workload) -> list[Item]:
    return [pending_pod(f"pod-{number}", number % workload.sizes) for number in range(workload.pods)]


def pending_pod(name: str, size: int) -> Item:
    return _item(PODS_PATH, _pod(name, size, {}))


def node_name(number: int) -> str:
    return f"node-{number}"


def _item(path: str, body: dict[str, Any]) -> Item:
    return Item(body["metadata"]["name"], path, msgspec.json.encode(body))


def _node(number: int) -> dict[str, Any]:
    name = node_name(number)
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % ZONES}", "kubernetes.io/os": "linux"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": ROOM, "allocatable": ROOM, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _pod(name: str, size: int, spec: dict[str, Any]) -> dict[str, Any]:
    requests = {"cpu": f"{100 + 10 * size}m", "memory": f"{128 + 16 * size}Mi"}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": f"app-{size}"}},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container], **spec},
    }
