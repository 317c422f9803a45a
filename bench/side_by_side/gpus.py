"""The themes `gpu` and `gpu-joint`: nodes of 8 GPUs and 4 RDMA interfaces, and pods that want half a GPU, or two GPUs with an interface.

A pair of GPUs and an interface hang on each of a node's four PCIe switches, two of these on each NUMA node; an interface has 16 virtual
functions. Also what that needs: who schedules may patch pods and read Devices, and the annotation that a binder writes which does not
choose devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.controlplane.credentials import SCHEDULER

from koordsched.api.koordinator.device_annotations import (
    DEVICE_ALLOCATED,
    AllocatedDevice,
    AllocatedVirtualFunction,
    device_allocations_text,
)
from koordsched.plugins.deviceshare.layouts import device_manifest

GPU, JOINT = "gpu", "gpu-joint"
PLUGIN = "DeviceShare"
GPUS, SWITCHES, FUNCTIONS = 8, 4, 16  # of a node, of a node, of an interface
LAYOUT = {"gpus": "2x2x2,80Gi", "nics": f"2x2x1,{FUNCTIONS}"}
MEMORY = 80 << 30
ROOM = {
    "cpu": "208",
    "memory": "2Ti",
    "ephemeral-storage": "400Gi",
    "pods": "110",
    "nvidia.com/gpu": str(GPUS),
    "koordinator.sh/gpu": str(100 * GPUS),
    "koordinator.sh/gpu-core": str(100 * GPUS),
    "koordinator.sh/gpu-memory": str(MEMORY * GPUS),
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
RIGHTS = "side-by-side-devices"
RBAC = "rbac.authorization.k8s.io"
DEVICES_PATH = "/apis/scheduling.koordinator.sh/v1alpha1/devices"

Created = tuple[str, dict[str, Any]]  # the collection's path, and the object

_BODY = device_manifest("", **LAYOUT)
INTERFACES = [entry for entry in _BODY["spec"]["devices"] if entry["type"] == "rdma"]


def device(node: str) -> Created:
    """Return the Device of a node, as koordlet writes it."""
    devices = [entry | {"id": gpu_id(node, entry["minor"])} if entry["type"] == "gpu" else entry for entry in _BODY["spec"]["devices"]]
    return DEVICES_PATH, {**_BODY, "metadata": {"name": node, "labels": LABELS}, "spec": {"devices": devices}}


def gpu_id(node: str, minor: int) -> str:
    """Return a UUID of the usual length."""
    return f"GPU-{int(node.rpartition('-')[2]):08x}-0000-4000-8000-{minor:012x}"


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
    return {DEVICE_ALLOCATED: device_allocations_text({"gpu": [_gpu(node, turn // 2 % GPUS, 50)]})}


def joint_annotations(node: str, turn: int) -> dict[str, str]:
    """Return what is written of a node's pod number `turn`: the next pair of GPUs, and a virtual function of their interface."""
    switch = turn % SWITCHES
    function = INTERFACES[switch]["vfGroups"][0]["vfs"][turn // SWITCHES % FUNCTIONS]
    given = AllocatedVirtualFunction(function["minor"], function["busID"])
    interface = AllocatedDevice(switch, {"koordinator.sh/rdma": 1}, INTERFACES[switch]["id"], (given,))
    pair = [_gpu(node, minor, 100) for minor in (2 * switch, 2 * switch + 1)]
    return {DEVICE_ALLOCATED: device_allocations_text({"gpu": pair, "rdma": [interface]})}


def _gpu(node: str, minor: int, percent: int) -> AllocatedDevice:
    amounts = {
        "koordinator.sh/gpu-core": percent,
        "koordinator.sh/gpu-memory": MEMORY * percent // 100,
        "koordinator.sh/gpu-memory-ratio": percent,
    }
    return AllocatedDevice(minor, amounts, gpu_id(node, minor))
