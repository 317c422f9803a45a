"""The themes `gpu` and `gpu-joint`: nodes of 8 GPUs and 4 RDMA interfaces, and pods that want half a GPU, or two GPUs with an interface.

A pair of GPUs and an interface hang on each of a node's four PCIe switches, two of these on each NUMA node; an interface has 16 virtual
functions. Also what that needs: who schedules may patch pods and read Devices, and the annotation that a binder writes which does not
choose devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from support.controlplane.credentials import SCHEDULER

GPU, JOINT = "gpu", "gpu-joint"
PLUGINS = {"multiPoint": {"enabled": [{"name": "DeviceShare"}]}}
GPUS, SWITCHES, FUNCTIONS = 8, 4, 16  # of a node, of a node, of an interface
MEMORY_GIBI = 80
ROOM = {
    "cpu": "208",
    "memory": "2Ti",
    "ephemeral-storage": "400Gi",
    "pods": "110",
    "nvidia.com/gpu": str(GPUS),
    "koordinator.sh/gpu": str(100 * GPUS),
    "koordinator.sh/gpu-core": str(100 * GPUS),
    "koordinator.sh/gpu-memory": f"{MEMORY_GIBI * GPUS}Gi",
    "koordinator.sh/gpu-memory-ratio": str(100 * GPUS),
    "koordinator.sh/rdma": str(100 * SWITCHES),
}
LABELS = {"node.koordinator.sh/gpu-vendor": "nvidia", "node.koordinator.sh/gpu-model": "A100-SXM4-80GB"}

HALF = {"cpu": "4", "memory": "16Gi", "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}
PAIR = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "2", "koordinator.sh/rdma": "1"}
TOGETHER = {
    "scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}',
    "scheduling.koordinator.sh/device-allocate-hint": '{"rdma":{"vfSelector":{}}}',
}
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
RIGHTS = "side-by-side-devices"
RBAC = "rbac.authorization.k8s.io"
DEVICES_PATH = "/apis/scheduling.koordinator.sh/v1alpha1/devices"

Created = tuple[str, dict[str, Any]]  # the collection's path, and the object


def device(node: str) -> Created:
    """Return the Device of a node, as koordlet writes it."""
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": node, "labels": LABELS},
        "spec": {"devices": [*(_gpu(node, minor) for minor in range(GPUS)), *(_interface(minor) for minor in range(SWITCHES))]},
    }
    return DEVICES_PATH, body


def _gpu(node: str, minor: int) -> dict[str, Any]:
    resources = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": f"{MEMORY_GIBI}Gi",
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    place = _place(minor * SWITCHES // GPUS, f"0000:{0x20 + minor:02x}:00.0")
    return {"type": "gpu", "id": gpu_id(node, minor), "minor": minor, "health": True, "resources": resources, "topology": place}


def _interface(minor: int) -> dict[str, Any]:
    functions = [{"minor": -1, "busID": function_bus(minor, number)} for number in range(FUNCTIONS)]
    return {
        "type": "rdma",
        "id": interface_bus(minor),
        "minor": minor,
        "health": True,
        "resources": {"koordinator.sh/rdma": "100"},
        "topology": _place(minor, interface_bus(minor)),
        "vfGroups": [{"vfs": functions}],
    }


def _place(switch: int, bus: str) -> dict[str, Any]:
    return {"socketID": -1, "nodeID": switch * 2 // SWITCHES, "pcieID": f"pci0000:{switch:02x}", "busID": bus}


def gpu_id(node: str, minor: int) -> str:
    number = int(node.rpartition("-")[2])
    return f"GPU-{number:08x}-0000-4000-8000-{minor:012x}"


def interface_bus(minor: int) -> str:
    return f"0000:{0x40 + minor:02x}:00.0"


def function_bus(interface: int, number: int) -> str:
    return f"0000:{0x40 + interface:02x}:{1 + number // 8:02x}.{number % 8}"


def rights() -> Iterator[Created]:
    """Yield the role, and who has it."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
        {"apiGroups": ["scheduling.koordinator.sh"], "resources": ["devices"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
    ]
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": RIGHTS}}
    yield f"/apis/{RBAC}/v1/clusterroles", {**common, "kind": "ClusterRole", "rules": rules}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": RIGHTS}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": SCHEDULER.user}]
    yield f"/apis/{RBAC}/v1/clusterrolebindings", {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}


def half_annotations(node: str, turn: int) -> dict[str, str]:
    """Return what is written of a node's pod number `turn`: the next half of a GPU, in the words of the scheduler."""
    minor = turn // 2 % GPUS
    return _written({"gpu": [_share(node, minor, 50)]})


def joint_annotations(node: str, turn: int) -> dict[str, str]:
    """Return what is written of a node's pod number `turn`: the next pair of GPUs, and a virtual function of their interface."""
    switch = turn % SWITCHES
    function = {"busID": function_bus(switch, turn // SWITCHES % FUNCTIONS), "minor": -1}
    interface = {"extension": {"vfs": [function]}, "id": interface_bus(switch), "minor": switch, "resources": {"koordinator.sh/rdma": "1"}}
    pair = [_share(node, minor, 100) for minor in range(GPUS) if minor * SWITCHES // GPUS == switch]
    return _written({"gpu": pair, "rdma": [interface]})


def _share(node: str, minor: int, percent: int) -> dict[str, Any]:
    resources = {
        "koordinator.sh/gpu-core": str(percent),
        "koordinator.sh/gpu-memory": f"{MEMORY_GIBI * percent // 100}Gi",
        "koordinator.sh/gpu-memory-ratio": str(percent),
    }
    return {"id": gpu_id(node, minor), "minor": minor, "resources": resources}


def _written(allocated: dict[str, Any]) -> dict[str, str]:
    return {ALLOCATED: msgspec.json.encode(allocated).decode()}
