"""With the rights of config/rbac.yaml and no others: templates are read, pods get what device plugins read, and Nodes are locked
meanwhile (deviceshare.md §11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import PODS, create_node, until
from support.served import TIMEOUT, command, ended, write_config

from koordsched.plugins.deviceshare.layouts import device_manifest

MANIFESTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
CONFIG_MAPS = "/api/v1/namespaces/koordinator-system/configmaps"
LOCK = "hami.io/mutex.lock"
SHARE = {"cpu": "1", "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "16Gi"}
VIRTUAL = {
    "cpu": "1",
    "koordinator.sh/gpu.shared": "1",
    "huawei.com/npu-core": "2",
    "huawei.com/npu-cpu": "2",
    "koordinator.sh/gpu-memory": "6Gi",
}
ROOM = {"koordinator.sh/gpu-core": "200", "koordinator.sh/gpu-memory": "160Gi", "koordinator.sh/gpu-memory-ratio": "200"}
NPU = {"huawei.com/npu-core": "8", "huawei.com/npu-cpu": "7", "koordinator.sh/gpu-memory": "24Gi", "koordinator.sh/gpu-memory-ratio": "100"}
TEMPLATES = "huawei-Ascend-310P3: {vir02: {huawei.com/npu-core: 2, huawei.com/npu-cpu: 2, koordinator.sh/gpu-memory: 6Gi}}"


def create_devices(rest: Rest) -> None:
    """Create a node of two MetaX GPUs, and one of a Huawei NPU."""
    for name, vendor, model, room in (
        ("metax-1", "metax", "", ROOM),
        ("npu-1", "huawei", "Ascend-310P3", NPU | {"koordinator.sh/gpu.shared": "100"}),
    ):
        labels = {"node.koordinator.sh/gpu-vendor": vendor, "node.koordinator.sh/gpu-model": model}
        create_node(rest, name, "8")
        rest.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
        rest.patch(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": room, "capacity": room}})
        body = device_manifest(name, gpus="2,80Gi") if vendor == "metax" else device_manifest(name)
        body.setdefault("spec", {"devices": [{"type": "gpu", "minor": 0, "health": True, "resources": NPU}]})
        body["metadata"]["labels"] = labels
        rest.create(DEVICES, body)


def create(rest: Rest, name: str, requests: dict[str, str]) -> None:
    limits = {resource: amount for resource, amount in requests.items() if resource != "cpu"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}
    spec = {"schedulerName": "default-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def annotations_of(rest: Rest, path: str) -> dict[str, str]:
    return dict(rest.get(path)["metadata"].get("annotations") or {})


def bound(rest: Rest, name: str) -> bool:
    return bool(rest.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def message(rest: Rest, name: str) -> str:
    conditions: list[Any] = rest.get(f"{PODS}/{name}")["status"].get("conditions") or []
    return next((condition["message"] for condition in conditions if condition["type"] == "PodScheduled"), "")


def test_pods_for_vendors_device_plugins_come_one_by_one(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    with service_account(rest, MANIFESTS) as token:
        create_devices(rest)
        rest.create(CONFIG_MAPS, {"metadata": {"name": "gpu-shared-resource-templates"}, "data": {"data.yaml": TEMPLATES}})
        kubeconfig = plane.kubeconfig(by_token(token)).write(tmp_path / "kubeconfig")
        plugins = {"multiPoint": {"enabled": [{"name": "DeviceShare"}]}}
        config = write_config(tmp_path, kubeconfig, profiles=[{"schedulerName": "default-scheduler", "plugins": plugins}])
        served, line = command("--config", config, "--feature-gates=DevicePluginAdaption=true")
        process = plane.spawn("koord-scheduler-device-plugins", line)  # a log of its own: it is read whole
        process.wait_until(served.ready, TIMEOUT)

        create(rest, "first", SHARE)
        until(lambda: bound(rest, "first"))
        allocated = '[[{"uuid":"GPU-0","compute":50,"vRam":16384}]]'
        assert annotations_of(rest, f"{PODS}/first")["metax-tech.com/gpu-devices-allocated"] == allocated
        assert annotations_of(rest, "/api/v1/nodes/metax-1")[LOCK].endswith(",default,first")

        create(rest, "second", SHARE)
        until(lambda: 'node "metax-1" has been locked' in message(rest, "second"))
        assert annotations_of(rest, "/api/v1/nodes/metax-1")[LOCK].endswith(",default,first")
        rest.patch("/api/v1/nodes/metax-1", {"metadata": {"annotations": {LOCK: None}}})  # as the device plugin does
        until(lambda: bound(rest, "second"))
        assert annotations_of(rest, "/api/v1/nodes/metax-1")[LOCK].endswith(",default,second")

        create(rest, "virtual", VIRTUAL)
        until(lambda: bound(rest, "virtual"))
        assert annotations_of(rest, f"{PODS}/virtual")["huawei.com/npu-core"] == "0-vir02"
        outcome = ended(process.stop(TIMEOUT), process.output())
    assert outcome.code == 0
    assert "forbidden" not in outcome.text
