"""Devices for tests, and a plugin bench on which Devices, Nodes and pods come, change and go as watches report them."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED
from koordsched.api.validation import decode
from koordsched.config.koordinator_args import DeviceShareArgs
from koordsched.framework.cycle_state import CycleState, noted_changes
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.status import Status
from koordsched.framework.topologymanager import NumaAffinity, share_topology_manager
from koordsched.plugins.deviceshare.check import device_state
from koordsched.plugins.deviceshare.layouts import device_manifest
from koordsched.plugins.deviceshare.plugin import DeviceShare
from koordsched.plugins.deviceshare.state import DeviceState
from support.builders import NodeBuilder, PodBuilder, pod
from support.plugins import WatchingBench

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.koordinator.devices import Device

VERSIONS = count(1)
GIB = 1 << 30
T8 = "2x2x2,80Gi"
"""8 GPUs of 80Gi: minors 0-3 in NUMA node 0, 4-7 in NUMA node 1, two for each PCIe switch p0 to p3 (deviceshare.md §17)."""

Minors = dict[str, list[int]]


def device(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    more: list[dict[str, Any]] | None = None,
    unhealthy: Mapping[str, list[int]] | None = None,
    **fields: str,
) -> Device:
    """Make the Device of a node. fields: `gpus`, `nics` and `fpgas` in short. more: further entries. unhealthy: minors by type."""
    manifest = device_manifest(name, **fields)
    spec = manifest.setdefault("spec", {})
    spec["devices"] = [*spec.get("devices", []), *(more or [])]
    for info in spec["devices"]:
        if info.get("minor") in (unhealthy or {}).get(info["type"], ()):
            info["health"] = False
    metadata = {"name": name, "uid": f"uid-device-{name}", "resourceVersion": str(next(VERSIONS))}
    manifest |= {
        "apiVersion": DEVICE.api_version,
        "metadata": metadata | {"labels": dict(labels or {}), "annotations": dict(annotations or {})},
    }
    return cast("Device", decode(DEVICE, manifest))


def gpus(name: str, percent: int | str) -> PodBuilder:
    """Begin a pod that asks for so many percent of GPUs."""
    return pod(name).request("koordinator.sh/gpu", str(percent))


def allocation(**minors: list[int] | dict[int, int]) -> str:
    """Write what a pod was given: minors by type, whole, or with so many percent of each."""
    body: dict[str, list[dict[str, Any]]] = {}
    for device_type, wanted in minors.items():
        shares = wanted if isinstance(wanted, dict) else dict.fromkeys(wanted, 100)
        body[device_type] = [{"minor": minor, "resources": _resources(device_type, share)} for minor, share in shares.items()]
    return json.dumps(body)


def _resources(device_type: str, share: int) -> dict[str, str]:
    if device_type != "gpu":
        return {f"koordinator.sh/{device_type}": str(share)}
    memory = str(share * 80 * GIB // 100)
    return {"koordinator.sh/gpu-core": str(share), "koordinator.sh/gpu-memory-ratio": str(share), "koordinator.sh/gpu-memory": memory}


def holding(builder: PodBuilder, **minors: list[int] | dict[int, int]) -> PodBuilder:
    """Let the pod have been given this, as its annotation says."""
    return builder.annotation(DEVICE_ALLOCATED, allocation(**minors))


class DeviceBench(WatchingBench):
    """A plugin bench with Devices."""

    def __init__(self, *nodes: NodeBuilder) -> None:
        super().__init__()
        self._nodes = nodes

    def plugin(self, args: DeviceShareArgs | None = None, **fields: Any) -> DeviceShare:
        """Make a plugin, as for one profile; the nodes come after the first."""
        made = DeviceShare(replace(args or DeviceShareArgs(), **fields), self)
        share_topology_manager([made])
        nodes, self._nodes = self._nodes, ()
        for builder in nodes:
            self.set(builder)
        return made

    @property
    def state(self) -> DeviceState:
        return device_state(self)

    def describe(self, *devices: Device) -> None:
        """Let Devices come, or replace those of their names."""
        for made in devices:
            self.came(DEVICE, made)

    def undescribe(self, name: str) -> None:
        """Let the Device be deleted."""
        self.went(DEVICE, name)

    def reserve(
        self, plugin: DeviceShare, builder: PodBuilder, node: str, affinity: int | None = None
    ) -> tuple[CycleState, Status | Minors]:
        """Assume the pod on the node and reserve its devices. Return the cycle's state, and its minors by type, or the refusal."""
        state, info = CycleState(), builder.info()
        found = plugin.pre_filter(state, info, self.cache.nodes())
        assert not isinstance(found, Status | PreFilterResult) or found.code.value == "Skip", found
        if affinity is not None:
            plugin.topology_manager.keep(state, node, NumaAffinity(affinity))
        self.cache.assume_pod(info, node)
        refused = plugin.reserve(state, info, node)
        if refused is not None:
            plugin.unreserve(state, info, node)
            self.cache.forget_pod(info.uid)
            return state, refused
        return state, self.minors(info.uid)

    def bind(self, plugin: DeviceShare, builder: PodBuilder, node: str) -> str | None:
        """Reserve the pod's devices, and let the watch show it bound. Return what was written as device-allocated."""
        state, found = self.reserve(plugin, builder, node)
        assert not isinstance(found, Status), found
        info = builder.info()
        if plugin.pre_bind_pre_flight(state, info, node) is None:
            assert asyncio.run(plugin.pre_bind(state, info, node)) is None
        text = None
        for changes in noted_changes(state, info.pod):
            text = changes.annotations.get(DEVICE_ALLOCATED)
        bound = builder if text is None else builder.annotation(DEVICE_ALLOCATED, text)
        self.put(bound, node)
        return text

    def minors(self, uid: str) -> Minors:
        """Return what is kept of the pod: minors by type."""
        held = self.state.held_by(uid)
        return {} if held is None else {kind: [one.minor for one in devices] for kind, devices in held.allocations.items()}

    def marked_since(self, end: int) -> set[str]:
        """Return the nodes whose rows were marked with the plugin's kind of change since this end of the log."""
        changes = self.cache.table.changes_since(end)
        assert changes is not None
        marked = (int(row) for row, kinds in zip(*changes, strict=True) if int(kinds) & int(self.state.change))
        return {info.name for row in marked if (info := self.cache.infos[row]) is not None}

    def differences(self, node: str) -> list[str]:
        """Return what the standing check finds wrong with what is kept of the node."""
        (check,) = (check for check in self.cache.checked if check.name == "DeviceShare")
        return [difference.column for difference in check.differences(node)]
