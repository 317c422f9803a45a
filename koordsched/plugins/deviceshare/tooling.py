"""What `simulate` and `test` know of DeviceShare: texts, devices of a node in short, and the devices that pods hold.

Read from what a scheduler wrote on pods and from Devices (deviceshare.md §2). An annotation that cannot be read counts as nothing
allocated, so that an expectation about it fails and shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.device_requests import WHOLE
from koordsched.api.meta import JSON_ERRORS
from koordsched.api.quantity import QuantityError, value
from koordsched.framework.tooling import ExclusiveResource, Json, ObjectCheck, PodCheck, Report, Tooling
from koordsched.manifests.strict import StrictReader, join
from koordsched.plugins.deviceshare.adaptation import WRITTEN
from koordsched.plugins.deviceshare.gpu_report import SHARED_GPUS, gpu_report
from koordsched.plugins.deviceshare.layouts import SHORT_FORMS
from koordsched.plugins.deviceshare.node_devices import describe_device
from koordsched.yamltext.documents import shown

DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"

SHARE_RESOURCES = frozenset(
    {
        "koordinator.sh/gpu-core",
        "koordinator.sh/gpu-memory-ratio",
        "koordinator.sh/rdma",
        "koordinator.sh/fpga",
        "huawei.com/npu-core",
    }
)
"""Resources of a device whose amount is a percentage of it."""

Entries = Mapping[str, list[Json]]


def allocated(pod: Json) -> Entries:
    """Return the entries that a pod's annotation lists of each device type, those with devices only."""
    text = (pod.get("metadata", {}).get("annotations") or {}).get(DEVICE_ALLOCATED)
    try:
        read = msgspec.json.decode(text) if isinstance(text, str) else {}
    except JSON_ERRORS:
        return {}
    found = {}
    for device_type, listed in read.items() if isinstance(read, dict) else ():
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        if entries:
            found[device_type] = entries
    return found


def minor_of(entry: Json) -> int:
    """Return an entry's minor: absent for 0, as Go's omitempty writes it."""
    minor = entry.get("minor")
    return minor if isinstance(minor, int) else 0


def amounts_of(entry: Json) -> dict[str, int]:
    """Return what an entry takes of its device, without amounts that cannot be read."""
    found = {}
    resources = entry.get("resources")
    for name, amount in resources.items() if isinstance(resources, dict) else ():
        try:
            found[name] = value(amount)
        except QuantityError:
            continue
    return found


def whole_devices_of(pod: Json) -> frozenset[tuple[str, int]]:
    """Return type and minor of each device that the pod holds to 100 %."""
    return frozenset(
        (device_type, minor_of(entry))
        for device_type, entries in allocated(pod).items()
        for entry in entries
        if any(name in SHARE_RESOURCES and amount == WHOLE for name, amount in amounts_of(entry).items())
    )


class DevicesRule(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the devices of one type that a pod holds; None: not asked.

    numa, pcie: where they are, exactly. each: what every one of them gives, of the names stated. vfs: bus addresses of their virtual
    functions, in order. template: that of every one.
    """

    minors: tuple[int, ...] | None = None
    count: int | None = None
    numa: frozenset[int] | None = None
    pcie: frozenset[str] | None = None
    each: Mapping[str, int] | None = None
    vfs: tuple[str, ...] | None = None
    template: str | None = None


KEYS = ("minors", "count", "numa", "pcie", "each", "vfs", "template")


def read_devices(reader: StrictReader, found: Any, path: str) -> dict[str, DevicesRule]:
    """Read the value of `devices`: by type a list of minors, or a map of facts. Types that are not named hold nothing."""
    return {device_type: _rule(reader, rule, join(path, device_type)) for device_type, rule in reader.mapping(found, path).items()}


def _rule(reader: StrictReader, found: Any, path: str) -> DevicesRule:
    if isinstance(found, list):
        return DevicesRule(minors=reader.numbers(found, path))
    fields = reader.mapping(found, path, KEYS)
    if found == {}:
        reader.mistake(path, "expects nothing")
    return DevicesRule(
        minors=reader.numbers(fields["minors"], join(path, "minors")) if "minors" in fields else None,
        count=reader.number(fields["count"], join(path, "count")) if "count" in fields else None,
        numa=frozenset(reader.numbers(fields["numa"], join(path, "numa"))) if "numa" in fields else None,
        pcie=frozenset(reader.texts(fields["pcie"], join(path, "pcie"))) if "pcie" in fields else None,
        each=_amounts(reader, fields["each"], join(path, "each")) if "each" in fields else None,
        vfs=reader.texts(fields["vfs"], join(path, "vfs")) if "vfs" in fields else None,
        template=reader.text(fields["template"], join(path, "template")) if "template" in fields else None,
    )


def _amounts(reader: StrictReader, found: Any, path: str) -> dict[str, int]:
    read = {}
    for name, amount in reader.mapping(found, path).items():
        try:
            read[name] = value(amount)
        except QuantityError as mistake:
            reader.mistake(join(path, name), f"{shown(amount)}: {mistake}")
    return read


def device_differences(rules: Mapping[str, DevicesRule], pod: Json, device: Json | None) -> Iterator[str]:
    """Yield what is expected of the devices that a pod holds and does not hold. device: the Device of the pod's node."""
    held = allocated(pod)
    for other in sorted(held.keys() - rules.keys()):
        yield f"no device of type {other}"
    for device_type, rule in rules.items():
        entries = held.get(device_type, [])
        minors = [minor_of(entry) for entry in entries]
        if rule.minors is not None and minors != list(rule.minors):
            yield f"{device_type} {list(rule.minors)}"
        if rule.count is not None and len(minors) != rule.count:
            yield f"{rule.count} devices of type {device_type}"
        places = _places_of(device, device_type, minors)
        if rule.numa is not None and frozenset(place.get("nodeID") for place in places) != rule.numa:
            yield f"{device_type} of NUMA node {','.join(map(str, sorted(rule.numa)))}"
        if rule.pcie is not None and frozenset(place.get("pcieID") for place in places) != rule.pcie:
            yield f"{device_type} of PCIe {','.join(sorted(rule.pcie))}"
        if rule.each is not None:
            given = [{name: amount for name, amount in amounts_of(entry).items() if name in rule.each} for entry in entries]
            if any(amounts != dict(rule.each) for amounts in given) or not given:
                yield f"{', '.join(f'{name} {amount}' for name, amount in rule.each.items())} of each {device_type}"
        if rule.vfs is not None and _vfs_of(entries) != list(rule.vfs):
            yield f"{device_type} with virtual functions {', '.join(rule.vfs) or 'none'}"
        if rule.template is not None and any(_extension(entry).get("gpuSharedResourceTemplate", "") != rule.template for entry in entries):
            yield f"{device_type} by template {rule.template!r}"


def _places_of(device: Json | None, device_type: str, minors: list[int]) -> list[Json]:
    """Return what a Device says of where these are; {} for one that it does not list, or says nothing of."""
    listed = ((device or {}).get("spec") or {}).get("devices") or []
    places = {minor_of(entry): entry.get("topology") or {} for entry in listed if entry.get("type") == device_type}
    return [places.get(minor, {}) for minor in minors]


def _vfs_of(entries: list[Json]) -> list[str]:
    return [vf.get("busID", "") for entry in entries for vf in _extension(entry).get("vfs") or ()]


def _extension(entry: Json) -> Json:
    found = entry.get("extension")
    return found if isinstance(found, dict) else {}


def describe_devices(pod: Json, state: str) -> str:
    held = (pod["metadata"].get("annotations") or {}).get(DEVICE_ALLOCATED)
    return f"{state}; device-allocated {held}"


TOOLING = Tooling(
    explanations=(
        (r"Insufficient (gpu|rdma|fpga) devices", "these nodes have too few devices of type {0} with what is asked of each free"),
        (r"Insufficient (?:Topology Scoped )?GPU Devices", "these nodes have too few GPUs free, or too few close enough together"),
        (r"Insufficient Partitioned GPU Devices", "no partition of so many GPUs is wholly free there"),
        (r"node\(s\) missing GPU Partition Table", "pods there must take a partition, and nothing says which partitions there are"),
        (r"node\(s\) missing GPU Device Topology Tree", "nothing says where all GPUs of these nodes are"),
        (r"node\(s\) Unsupported number of GPU requests", "the partitions there have other numbers of GPUs"),
        (r"node\(s\) Device Joint-Allocate rules violation", "no choice there has all types of devices on the same PCIe"),
        (r"Insufficient (\S+) VirtualFunctions", "no device of type {0} there has virtual functions"),
        (r"Insufficient NUMA Scoped Devices", "no choice of NUMA nodes there has enough devices"),
    ),
    short_forms=SHORT_FORMS,
    exclusive=(ExclusiveResource("devices", whole_devices_of, lambda devices: [f"{kind} {minor}" for kind, minor in sorted(devices)]),),
    pod_checks=(PodCheck("devices", read_devices, DEVICE, device_differences, describe_devices),),
    reports=(Report("gpu", "--show-gpus", "nodes in the table of free GPU shares (default 10)", DEVICE, gpu_report),),
    shared_units=(SHARED_GPUS,),
    object_checks=(ObjectCheck(DEVICE, lambda device: describe_device(device, {}).problems),),
    pod_annotations=(DEVICE_ALLOCATED, *WRITTEN),
)
