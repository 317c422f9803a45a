"""Annotations about devices: what a pod was given, how it wants its devices, which GPUs of a node go together (deviceshare.md §2).

Every reader raises Malformed. Amounts are whole units, quantities rounded up. A device that is null in an annotation is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import field

from koordsched.api.core import Quantity
from koordsched.api.koordinator.device_requests import GPU_MEMORY
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.meta import JSON_ERRORS, Api, Int32, Int64, LabelSelector
from koordsched.api.quantity import NANO_PER_UNIT, QuantityError, QuantityFormat, quantity_text, value

DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"
DEVICE_ALLOCATE_HINT = "scheduling.koordinator.sh/device-allocate-hint"
DEVICE_JOINT_ALLOCATE = "scheduling.koordinator.sh/device-joint-allocate"
GPU_PARTITION_SPEC = "scheduling.koordinator.sh/gpu-partition-spec"
GPU_PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"
"""An annotation of Devices; those above are of pods."""

APPLY_FOR_ALL, REQUESTS_AS_COUNT = "ApplyForAll", "RequestsAsCount"  # allocateStrategy
DEVICE_LEVEL = "DeviceLevel"  # exclusivePolicy; PCIeLevel changes nothing
SAME_PCIE = "SamePCIe"  # requiredScope of a joint allocation
RESTRICTED = "Restricted"  # allocatePolicy of a partition; every other text is BestEffort
TOPOLOGY_SCOPES = {"Node": 1, "NUMANode": 2, "PCIe": 3, "Device": 4}
"""Levels of requiredTopologyScope, the wider the lower. Any other text is level 0, which every scope satisfies."""


class AllocatedVirtualFunction(msgspec.Struct, frozen=True):
    minor: int
    bus_id: str


class AllocatedDevice(msgspec.Struct, frozen=True):
    """What a pod has of one device. `template`: the GPU shared resource template that it is cut by, "" without one."""

    minor: int
    resources: dict[str, int]
    id: str = ""
    vfs: tuple[AllocatedVirtualFunction, ...] = ()
    template: str = ""


DeviceAllocations = Mapping[str, Sequence[AllocatedDevice]]
"""By device type, in the order of allocation."""


class DeviceHint(Api):
    """How a pod wants its devices of one type. `selector` is of the devices' labels, `vf_selector` of those of their groups of virtual
    functions; policies are as written."""

    selector: LabelSelector | None = None
    vf_selector: LabelSelector | None = None
    allocate_strategy: str = ""
    required_topology_scope: str = ""
    exclusive_policy: str = ""


class JointAllocation(Api):
    """Device types that are allocated together, the primary one first."""

    device_types: tuple[str, ...] = ()
    required_scope: str = ""


class GpuPartitionSpec(msgspec.Struct, frozen=True):
    """Which partition of GPUs a pod wants. ring_bus_bandwidth: the least that the partition must have, in whole units; None: any."""

    restricted: bool = False
    ring_bus_bandwidth: int | None = None


class GpuPartition(msgspec.Struct, frozen=True):
    """GPUs that are allocated together. Partitions with the lowest allocation score are taken first."""

    minors: frozenset[int]
    allocation_score: int = 0
    ring_bus_bandwidth: int | None = None


class _VirtualFunction(Api):
    minor: Int64 = 0
    bus_id: str = field(default="", name="busID")


class _Extension(Api):
    vfs: tuple[_VirtualFunction, ...] = ()
    gpu_shared_resource_template: str = field(default="", name="gpuSharedResourceTemplate")


class _Allocated(Api):
    minor: Int32 = 0
    resources: dict[str, Quantity] = field(default_factory=dict)
    id: str = ""
    extension: _Extension = _Extension()


class _PartitionSpec(Api):
    allocate_policy: str = ""
    ring_bus_bandwidth: Quantity | None = None


class _Partition(Api):
    minors: tuple[Int32, ...] = ()
    gpu_link_type: str = field(default="", name="gpuLinkType")
    ring_bus_bandwidth: Quantity | None = None
    allocation_score: Int64 = 0


def device_allocations(annotations: Mapping[str, str]) -> DeviceAllocations | None:
    """Return what the pod was given; None when nothing is written there."""
    written = read_annotation(annotations, DEVICE_ALLOCATED, dict[str, tuple[_Allocated, ...]])
    if written is None:
        return None
    text = annotations[DEVICE_ALLOCATED]
    return {
        device_type: tuple(_allocated(device, f"{device_type}[{i}]", text) for i, device in enumerate(devices))
        for device_type, devices in written.items()
        if devices
    }


def _allocated(device: _Allocated, path: str, text: str) -> AllocatedDevice:
    resources = {
        name: _amount(quantity, DEVICE_ALLOCATED, f"{path}.resources[{name}]", text) for name, quantity in device.resources.items()
    }
    vfs = tuple(AllocatedVirtualFunction(vf.minor, vf.bus_id) for vf in device.extension.vfs)
    return AllocatedDevice(device.minor, resources, device.id, vfs, device.extension.gpu_shared_resource_template)


def _amount(quantity: Quantity, key: str, path: str, text: str) -> int:
    try:
        amount = value(quantity)
    except QuantityError as error:
        raise Malformed(key, str(error.at(path)), text) from None
    if amount < 0:
        raise Malformed(key, f"{path}: expected 0 or more", text)
    return amount


def has_null_devices(text: str) -> bool:
    """Answer whether a device in the text of a device-allocated annotation is null; False for a text that cannot be read."""
    if "null" not in text:
        return False
    try:
        written = msgspec.json.decode(text, type=dict[str, list[Any] | None])
    except JSON_ERRORS:
        return False
    return any(device is None for devices in written.values() for device in devices or ())


def device_allocations_text(allocations: DeviceAllocations) -> str:
    """Write what a pod was given, types and resources in alphabetical order."""
    body = {device_type: [_device_body(device) for device in allocations[device_type]] for device_type in sorted(allocations)}
    return msgspec.json.encode(body).decode()


def _device_body(device: AllocatedDevice) -> dict[str, object]:
    body: dict[str, object] = {"minor": device.minor, "resources": resources_body(device.resources)}
    if device.id:
        body["id"] = device.id
    extension: dict[str, object] = {}
    if device.vfs:
        extension["vfs"] = [_vf_body(vf) for vf in device.vfs]
    if device.template:
        extension["gpuSharedResourceTemplate"] = device.template
    if extension:
        body["extension"] = extension
    return body


def _vf_body(vf: AllocatedVirtualFunction) -> dict[str, object]:
    body: dict[str, object] = {"minor": vf.minor} if vf.minor else {}
    return body | ({"busID": vf.bus_id} if vf.bus_id else {})


def resources_body(resources: Mapping[str, int]) -> dict[str, str]:
    """Write amounts of devices as quantities, in alphabetical order."""
    return {name: device_amount_text(name, amount) for name, amount in sorted(resources.items())}


def device_amount_text(resource: str, amount: int) -> str:
    """Write an amount as a quantity: memory in powers of 1024."""
    return quantity_text(amount * NANO_PER_UNIT, QuantityFormat.BINARY_SI if resource == GPU_MEMORY else QuantityFormat.DECIMAL_SI)


def device_hints(annotations: Mapping[str, str]) -> Mapping[str, DeviceHint]:
    """Return how the pod wants its devices, by device type, whether or not there is such a type; empty when it does not say."""
    return read_annotation(annotations, DEVICE_ALLOCATE_HINT, dict[str, DeviceHint]) or {}


def joint_allocation(annotations: Mapping[str, str]) -> JointAllocation | None:
    """Return which devices the pod wants together, as written; None when it does not say."""
    return read_annotation(annotations, DEVICE_JOINT_ALLOCATE, JointAllocation)


def gpu_partition_spec(annotations: Mapping[str, str]) -> GpuPartitionSpec | None:
    """Return which partition the pod wants; None when it does not say, so that partitions are a preference of the node's."""
    text = annotations.get(GPU_PARTITION_SPEC)
    if text is None:
        return None
    spec = read_annotation(annotations, GPU_PARTITION_SPEC, _PartitionSpec) or _PartitionSpec()
    return GpuPartitionSpec(
        spec.allocate_policy == RESTRICTED, _bandwidth(spec.ring_bus_bandwidth, GPU_PARTITION_SPEC, "ringBusBandwidth", text)
    )


def gpu_partitions(annotations: Mapping[str, str]) -> dict[int, tuple[GpuPartition, ...]] | None:
    """Return the partitions of a Device by the number of their GPUs, as written; None when it has no table."""
    text = annotations.get(GPU_PARTITIONS)
    if not text:
        return None
    table = read_annotation(annotations, GPU_PARTITIONS, dict[Int64, tuple[_Partition, ...]])
    if table is None:
        raise Malformed(GPU_PARTITIONS, "expected partitions by the number of their GPUs", text)
    return {
        count: tuple(_partition(partition, f"{count}[{i}]", text) for i, partition in enumerate(partitions))
        for count, partitions in table.items()
    }


def _partition(partition: _Partition, path: str, text: str) -> GpuPartition:
    bandwidth = _bandwidth(partition.ring_bus_bandwidth, GPU_PARTITIONS, f"{path}.ringBusBandwidth", text)
    return GpuPartition(frozenset(partition.minors), partition.allocation_score, bandwidth)


def _bandwidth(quantity: Quantity | None, key: str, path: str, text: str) -> int | None:
    return None if quantity is None else _amount(quantity, key, path, text)
