"""What a Device and a Node's labels say, as the table of devices takes it, and what is wrong with the Device (deviceshare.md §2, §15).

A mistake concerns the device that has it: the device is left out, or an amount of it counts as 0 or as the nearest legal one; the other
devices count. No mistake makes a device larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from koordsched._core.device_facts import (
    DEVICE_RESOURCE_NAMES,
    DEVICE_TYPE_NAMES,
    DeviceFacts,
    DevicePartition,
    DeviceResource,
    DeviceType,
    HeldDevice,
    NodeAccelerators,
    NodeDevices,
    VfGroup,
)
from koordsched._core.device_table import MAX_AMOUNT, MAX_DEVICES
from koordsched.api.koordinator.device_annotations import GPU_PARTITIONS, gpu_partitions
from koordsched.api.koordinator.devices import (
    GPU_ISOLATION_PROVIDER,
    GPU_MODEL,
    GPU_PARTITION_POLICY,
    GPU_VENDOR,
    HONOR,
    SECONDARY_DEVICE_WELL_PLANNED,
    DeviceSpec,
)
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.quantity import QuantityError, value
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from koordsched._core.device_facts import Allocated
    from koordsched.api.core import Node, Quantity, ResourceList
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.koordinator.devices import Device, DeviceInfo

TYPES = {name: DeviceType(number) for number, name in enumerate(DEVICE_TYPE_NAMES)}
RESOURCES = {name: DeviceResource(number) for number, name in enumerate(DEVICE_RESOURCE_NAMES)}

MAX_KEPT = 4096
"""Facts of devices that are kept to be found again: those of nodes that all differ must not fill the memory."""
MAX_DESCRIBED = 256
"""Kinds of nodes whose devices are kept, the same."""
MAX_NUMA_ID = 63
UNKNOWN_NUMA_ID = -1


class DescribedDevices(NamedTuple):
    """What a Device says, and what is wrong with it, a line each."""

    devices: NodeDevices
    problems: list[str]


class KnownDevices:
    """Devices that were seen before: most nodes have the same ones, but for their ids, and share what is said and what is read of them."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, DeviceInfo] = {}
        self._read: dict[Hashable, tuple[DeviceInfo, DeviceFacts]] = {}
        self._described: dict[Hashable, DescribedDevices] = {}

    def describe(self, device: Device, held: Mapping[DeviceType, Collection[int]], *, gone: bool = False) -> DescribedDevices:
        """Read a Device (`describe_device`), or return what was read of another node's that says the same."""
        common, meta = device.spec.common, device.metadata
        few = len(device.spec.devices) + sum(map(len, held.values())) <= MAX_DEVICES  # else it depends on what is held
        if common is None or gone or not few:
            return describe_device(device, held, gone=gone, known=self)
        key = (common, *_what_labels_say(meta.labels), meta.annotations.get(GPU_PARTITIONS))
        found = self._described.get(key)
        if found is None:
            if len(self._described) >= MAX_DESCRIBED:
                self._described.clear()
            found = self._described[key] = describe_device(device, held, known=self)
        return found

    def share(self, device: Device) -> Device:
        """Return the Device with the parts of its devices that other nodes have, too: 5,000 Devices take 100 MB otherwise."""
        if device.spec.common is not None:
            return device
        return replace(device, spec=DeviceSpec(tuple([self._shared(info) for info in device.spec.devices])))

    def _shared(self, info: DeviceInfo) -> DeviceInfo:
        key = (info.type, info.minor, *info.resources.values())
        known = self._parts.get(key)
        if known is None or not _say_the_same(known, info):
            if len(self._parts) >= MAX_KEPT:
                self._parts.clear()
            self._parts[key] = info
            return info
        place = known.topology if info.topology == known.topology else info.topology
        return replace(info, labels=known.labels, resources=known.resources, topology=place, vf_groups=known.vf_groups)

    def facts(self, info: DeviceInfo, path: str, problems: list[str], *, healthy: bool) -> DeviceFacts:
        """Return what is said of a device. One with a mistake is read each time."""
        key = (info.type, info.minor, healthy, *info.resources.values())
        known = self._read.get(key)
        if known is not None and _say_the_same(known[0], info):
            return known[1]
        mistakes = len(problems)
        found = _facts(info, path, problems, healthy=healthy)
        if len(problems) == mistakes:
            if len(self._read) >= MAX_KEPT:
                self._read.clear()
            self._read[key] = (info, found)
        return found


def _say_the_same(info: DeviceInfo, other: DeviceInfo) -> bool:
    """Answer whether two devices of one type and minor have the same facts."""
    same = info.resources == other.resources and info.labels == other.labels and info.vf_groups == other.vf_groups
    return same and _place(info) == _place(other)


def _place(info: DeviceInfo) -> tuple[int, str] | None:
    return None if info.topology is None else (info.topology.node_id, info.topology.pcie_id)


def describe_device(
    device: Device, held: Mapping[DeviceType, Collection[int]], *, gone: bool = False, known: KnownDevices | None = None
) -> DescribedDevices:
    """Read a Device.

    held: minors of which pods have something, which count whether or not they are listed. gone: the object is no longer there, so that none
    of its devices is healthy. known: where facts are found that other nodes have, too.
    """
    facts = _facts if known is None else known.facts
    problems: list[str] = []
    by_type: dict[DeviceType, dict[int, DeviceFacts]] = {}
    other_numa_ids = 0
    for i, info in enumerate(device.spec.devices):
        path, device_type = f"spec.devices[{i}]", TYPES.get(info.type)
        if device_type is None:
            problems.append(f"{path}.type: expected one of {', '.join(TYPES)}, so it is never allocated: {shown(info.type)}")
            numa = None if info.topology is None else _numa_id(info, path, problems)
            other_numa_ids |= 0 if numa is None or numa < 0 else 1 << numa
        elif info.minor is None or info.minor < 0:
            problems.append(f"{path}.minor: expected 0 or more, so the device is left out: {info.minor}")
        else:
            listed = by_type.setdefault(device_type, {})
            if info.minor in listed:
                problems.append(f"{path}.minor: given twice, so the last one counts: {info.type} {info.minor}")
            elif len(listed.keys() | set(held.get(device_type, ()))) >= MAX_DEVICES and info.minor not in held.get(device_type, ()):
                problems.append(f"{path}: more than {MAX_DEVICES} devices of a type cannot be counted, so it is left out")
                continue
            listed[info.minor] = facts(info, path, problems, healthy=info.health and not gone)
    honor, well_planned = _what_labels_say(device.metadata.labels)
    devices = NodeDevices(
        {device_type: tuple(listed.values()) for device_type, listed in by_type.items()},
        _partitions(device, by_type.get(DeviceType.GPU, {}), problems),
        honor,
        well_planned,
        other_numa_ids,
    )
    return DescribedDevices(devices, problems)


def _what_labels_say(labels: Mapping[str, str]) -> tuple[bool, bool]:
    """Return whether partitions must be honored, and whether GPUs have interfaces near them."""
    return labels.get(GPU_PARTITION_POLICY) == HONOR, labels.get(SECONDARY_DEVICE_WELL_PLANNED) == "true"


def _facts(info: DeviceInfo, path: str, problems: list[str], *, healthy: bool) -> DeviceFacts:
    assert info.minor is not None
    totals = device_amounts(info.resources, f"{path}.resources", problems)
    groups = tuple(VfGroup(group.labels, tuple((vf.bus_id, vf.minor) for vf in group.vfs)) for group in info.vf_groups)
    known = {RESOURCES[name]: amount for name, amount in totals.items() if name in RESOURCES}
    numa = None if info.topology is None else _numa_id(info, path, problems)
    pcie = "" if info.topology is None else info.topology.pcie_id
    return DeviceFacts(info.minor, healthy, known, numa, pcie, info.labels, groups)


def _numa_id(info: DeviceInfo, path: str, problems: list[str]) -> int:
    assert info.topology is not None
    numa = info.topology.node_id
    if UNKNOWN_NUMA_ID <= numa <= MAX_NUMA_ID:
        return numa
    problems.append(f"{path}.topology.nodeID: expected {UNKNOWN_NUMA_ID} to {MAX_NUMA_ID}, so it counts as unknown: {numa}")
    return UNKNOWN_NUMA_ID


def device_amounts(resources: ResourceList, path: str, problems: list[str]) -> dict[str, int]:
    """Return what a device offers by resource, in whole units. What is no amount counts as nothing."""
    return {name: _amount(quantity, f"{path}.{name}", problems) for name, quantity in resources.items()}


def _amount(quantity: Quantity, path: str, problems: list[str]) -> int:
    try:
        amount = value(quantity)
    except QuantityError:
        problems.append(f"{path}: expected a quantity, so it counts as 0: {shown(str(quantity))}")
        return 0
    if amount < 0:
        problems.append(f"{path}: less than nothing, so it counts as 0: {shown(str(quantity))}")
        return 0
    if amount > MAX_AMOUNT:
        problems.append(f"{path}: more than 2^48, so it counts as that: {shown(str(quantity))}")
        return MAX_AMOUNT
    return amount


def _partitions(device: Device, gpus: Mapping[int, DeviceFacts], problems: list[str]) -> dict[int, tuple[DevicePartition, ...]] | None:
    """Return the partition table; None: there is none that can be read."""
    try:
        table = gpu_partitions(device.metadata.annotations)
    except Malformed as malformed:
        problems.append(f"there is no partition table: {malformed}")
        return None
    if table is None:
        return None
    found: dict[int, tuple[DevicePartition, ...]] = {}
    for count, partitions in table.items():
        kept = []
        for i, partition in enumerate(partitions):
            path = f"{GPU_PARTITIONS}: {count}[{i}].minors"
            if len(partition.minors) != count:
                problems.append(f"{path}: expected {count} GPUs, so the partition is left out: {sorted(partition.minors)}")
                continue
            if absent := sorted(partition.minors - gpus.keys()):
                problems.append(f"{path}: there is no such GPU, so the partition is never allocated: {', '.join(map(str, absent))}")
            kept.append(DevicePartition(tuple(sorted(partition.minors)), partition.allocation_score, partition.ring_bus_bandwidth))
        found[count] = tuple(kept)
    return found


def has_several_scores(devices: NodeDevices) -> bool:
    """Answer whether partitions of one size differ in their score. The lowest comes first, contrary to Koordinator's documents."""
    return any(len({partition.score for partition in partitions}) > 1 for partitions in (devices.partitions or {}).values())


def node_accelerators(node: Node) -> NodeAccelerators:
    """Return what the Node's labels say of its devices."""
    labels = node.metadata.labels
    return NodeAccelerators(
        labels.get(GPU_VENDOR, ""),
        labels.get(GPU_MODEL, ""),
        labels.get(GPU_ISOLATION_PROVIDER, ""),
        labels.get(GPU_PARTITION_POLICY) == HONOR,
    )


def held_devices(allocations: DeviceAllocations) -> tuple[HeldDevice, ...]:
    """Return what a pod holds, as the table takes it, by type and minor. Devices of other types, or with less than no minor, are none."""
    found = [
        HeldDevice(
            TYPES[device_type],
            device.minor,
            {RESOURCES[name]: amount for name, amount in device.resources.items() if name in RESOURCES},
            tuple(vf.bus_id for vf in device.vfs),
        )
        for device_type, devices in allocations.items()
        if device_type in TYPES
        for device in devices
        if device.minor >= 0
    ]
    return tuple(sorted(found, key=_type_and_minor))


def held_of(found: Sequence[Allocated]) -> tuple[HeldDevice, ...]:
    """Return the same of what the allocator gives a pod."""
    held = [HeldDevice(one.type, one.minor, one.amounts, () if one.vf is None else (one.vf[0],)) for one in found]
    if len(held) > 1:
        held.sort(key=_type_and_minor)
    return tuple(held)


def _type_and_minor(held: HeldDevice) -> tuple[int, int]:
    return held.type, held.minor


def held_minors(held: Iterable[HeldDevice]) -> dict[DeviceType, set[int]]:
    """Return the minors by type."""
    found: dict[DeviceType, set[int]] = {}
    for one in held:
        found.setdefault(one.type, set()).add(one.minor)
    return found
