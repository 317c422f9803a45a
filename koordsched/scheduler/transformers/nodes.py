"""What is changed of nodes, devices and quotas (frameworkext.md §3, §7)."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.api.koordinator.node_reservation import reserved_amounts
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.quantity import QuantityError, format_of, nano, quantity_text
from koordsched.scheduler.transformers.renaming import BATCH_RESOURCES, DEVICE_RESOURCES, renamed_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node
    from koordsched.api.koordinator.devices import CommonDevices, Device, DeviceInfo
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.scheduler.transformers.pods import Report

KEPT_DEVICES = 256  # kinds of nodes of which it is known how their devices name what they offer
UNTRIMMED = frozenset(BATCH_RESOURCES.values())
"""Koordinator's manager has taken the reservation off these amounts already."""


def rename_node_resources(names: Mapping[str, str], node: Node) -> Node:
    """Rename resources in allocatable and capacity."""
    status = node.status
    allocatable, capacity = renamed_by(names, status.allocatable), renamed_by(names, status.capacity)
    if allocatable is status.allocatable and capacity is status.capacity:
        return node
    return replace(node, status=replace(status, allocatable=allocatable, capacity=capacity))


def trim_reservation(report: Report, node: Node) -> Node:
    """Take what the node's annotation reserves off its allocatable, down to 0. Malformed: everything stays allocatable."""
    try:
        reserved = reserved_amounts(node.metadata.annotations)
    except Malformed as error:
        report(node, f"nothing is taken off its allocatable: {error}")
        return node
    if not reserved:
        return node
    reserved = renamed_by(DEVICE_RESOURCES, renamed_by(BATCH_RESOURCES, reserved))
    allocatable = dict(node.status.allocatable)
    for name, quantity in reserved.items():
        if name not in UNTRIMMED:
            offered = allocatable.get(name, 0)
            with suppress(QuantityError):  # whoever takes in the node reports that its amounts cannot be read
                allocatable[name] = quantity_text(max(0, nano(offered) - nano(quantity)), format_of(offered))
    return replace(node, status=replace(node.status, allocatable=allocatable))


def rename_device_resources(device: Device) -> Device:
    """Rename what the devices of a node offer."""
    common = device.spec.common
    if common is not None and not _has_former_names(common):
        return device
    devices = _renamed(device.spec.devices)
    return device if devices is device.spec.devices else replace(device, spec=replace(device.spec, devices=devices))


@lru_cache(maxsize=KEPT_DEVICES)
def _has_former_names(common: CommonDevices) -> bool:
    return _renamed(common.devices) is not common.devices


def _renamed(devices: tuple[DeviceInfo, ...]) -> tuple[DeviceInfo, ...]:
    """Return the devices with new names of what they offer; the very same when they have these."""
    changed = [(info, renamed_by(DEVICE_RESOURCES, info.resources)) for info in devices]
    if all(resources is info.resources for info, resources in changed):
        return devices
    return tuple(replace(info, resources=resources) for info, resources in changed)


def rename_quota_resources(quota: ElasticQuota) -> ElasticQuota:
    """Rename batch resources in a quota's min and max."""
    spec = quota.spec
    least, most = renamed_by(BATCH_RESOURCES, spec.min), renamed_by(BATCH_RESOURCES, spec.max)
    return quota if least is spec.min and most is spec.max else replace(quota, spec=replace(spec, min=least, max=most))
