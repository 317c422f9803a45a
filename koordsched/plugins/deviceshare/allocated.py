"""What one pod holds of devices, as its annotation says it and as the table counts it (deviceshare.md §2, §13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from koordsched._core.device_facts import DEVICE_RESOURCE_NAMES, DEVICE_TYPE_NAMES
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, AllocatedDevice, device_allocations
from koordsched.plugins.deviceshare.node_devices import held_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched._core.device_facts import HeldDevice
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.podinfo import PodInfo


class PodDevices(msgspec.Struct, frozen=True):
    """What a pod holds. `held` is what the table counts of it; `text` is the annotation that says so, "" before there is one."""

    uid: str
    key: str  # namespace/name
    allocations: DeviceAllocations
    held: tuple[HeldDevice, ...]
    text: str = ""


def allocated_devices(pod: PodInfo) -> PodDevices:
    """Return what a bound pod's annotation says that it holds. Malformed."""
    annotations = pod.pod.metadata.annotations
    allocations = device_allocations(annotations) or {}
    return PodDevices(pod.uid, pod.key, allocations, held_devices(allocations), annotations.get(DEVICE_ALLOCATED, ""))


def allocations_without(allocations: DeviceAllocations, taken: Sequence[HeldDevice]) -> DeviceAllocations:
    """Return what is left of allocations: of each device what is not taken of it, 0 of a resource that is used up.

    Devices of which nothing is left are left out.
    """
    amounts: dict[tuple[str, int], dict[str, int]] = {}
    vfs: dict[tuple[str, int], set[str]] = {}
    for held in taken:
        key = (DEVICE_TYPE_NAMES[held.type], held.minor)
        of_device = amounts.setdefault(key, {})
        for resource, amount in held.amounts.items():
            name = DEVICE_RESOURCE_NAMES[resource]
            of_device[name] = of_device.get(name, 0) + amount
        vfs.setdefault(key, set()).update(held.vfs)
    left: dict[str, list[AllocatedDevice]] = {}
    for device_type, devices in allocations.items():
        for device in devices:
            rest = device
            used = amounts.get((device_type, device.minor))
            if used is not None:
                resources = {name: max(amount - used.get(name, 0), 0) for name, amount in device.resources.items()}
                functions = tuple(vf for vf in device.vfs if vf.bus_id not in vfs[device_type, device.minor])
                if not any(resources.values()) and not functions:
                    continue
                rest = replace(device, resources=resources, vfs=functions)
            left.setdefault(device_type, []).append(rest)
    return left


def with_allocations(devices: PodDevices, allocations: DeviceAllocations) -> PodDevices:
    """Return the same pod with other devices."""
    return replace(devices, allocations=allocations, held=held_devices(allocations))
