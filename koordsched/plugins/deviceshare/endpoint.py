"""What `/apis/v1/plugins/DeviceShare/nodeDeviceSummaries` answers: what nodes have, what is free of it, and which pod holds what
(deviceshare.md §14).

Devices of all types count, also of those that are never allocated. Amounts are quantities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.koordinator.device_annotations import resources_body
from koordsched.plugins.deviceshare.node_devices import device_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.plugins.deviceshare.state import DeviceEntry

    ByMinor = Mapping[int, Mapping[str, int]]
    """Amounts by minor and resource."""


def describe(entry: DeviceEntry) -> dict[str, Any]:
    """Return what the endpoint shows of one node."""
    total, used = _total(entry), _used(entry)
    free: dict[str, dict[int, dict[str, int]]] = {}
    for device_type in total.keys() | used.keys():
        listed, taken = total.setdefault(device_type, {}), used.get(device_type, {})
        for minor in taken:
            listed.setdefault(minor, {})
        free[device_type] = {minor: _rest(amounts, taken.get(minor, {})) for minor, amounts in listed.items()}
    body: dict[str, Any] = {}
    for key, devices in (("deviceTotal", total), ("deviceFree", free), ("deviceUsed", used)):
        body[key] = resources_body(_sums(devices))
        body[f"{key}Detail"] = {device_type: _minors_body(devices[device_type]) for device_type in sorted(devices)}
    body["allocateSet"] = _pods_body(entry)
    return body


def _total(entry: DeviceEntry) -> dict[str, dict[int, dict[str, int]]]:
    """Return what the node's devices offer: nothing where they are not healthy."""
    found: dict[str, dict[int, dict[str, int]]] = {}
    for info in () if entry.device is None else entry.device.spec.devices:
        if info.minor is not None:
            healthy = info.health and not entry.deleted
            found.setdefault(info.type, {})[info.minor] = device_amounts(info.resources, "", []) if healthy else {}
    return found


def _used(entry: DeviceEntry) -> dict[str, dict[int, dict[str, int]]]:
    found: dict[str, dict[int, dict[str, int]]] = {}
    for pod in entry.pods.values():
        for device_type, devices in pod.allocations.items():
            for device in devices:
                amounts = found.setdefault(device_type, {}).setdefault(device.minor, {})
                for name, amount in device.resources.items():
                    amounts[name] = amounts.get(name, 0) + amount
    return found


def _rest(total: Mapping[str, int], used: Mapping[str, int]) -> dict[str, int]:
    """Return what is left, 0 of what is used and not offered."""
    return dict.fromkeys(used, 0) | {name: max(0, amount - used.get(name, 0)) for name, amount in total.items()}


def _sums(devices: Mapping[str, ByMinor]) -> dict[str, int]:
    found: dict[str, int] = {}
    for by_minor in devices.values():
        for amounts in by_minor.values():
            for name, amount in amounts.items():
                found[name] = found.get(name, 0) + amount
    return found


def _minors_body(by_minor: ByMinor) -> dict[int, dict[str, str]]:
    return {minor: resources_body(by_minor[minor]) for minor in sorted(by_minor)}


def _pods_body(entry: DeviceEntry) -> dict[str, dict[str, dict[int, dict[str, str]]]]:
    found: dict[str, dict[str, dict[int, dict[str, str]]]] = {}
    for pod in sorted(entry.pods.values(), key=lambda pod: (pod.key, pod.uid)):
        for device_type, devices in pod.allocations.items():
            found.setdefault(device_type, {})[pod.key] = {device.minor: resources_body(device.resources) for device in devices}
    return dict(sorted(found.items()))
