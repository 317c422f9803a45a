"""Whole devices that scheduling allocated to a pod, from its annotation (deviceshare.md §2).

Here until the plugin DeviceShare exists, whose package then offers it as a `Tooling`. An annotation that cannot be read counts as nothing
allocated, so an expectation about it fails and shows it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from koordsched.api.meta import JSON_ERRORS
from koordsched.api.quantity import QuantityError, value
from koordsched.framework.tooling import ExclusiveResource, Json

DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"

WHOLE = 100
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


def whole_devices_of(pod: Json) -> frozenset[tuple[str, int]]:
    """Return type and minor of each device that the pod holds to 100 %."""
    text = (pod.get("metadata", {}).get("annotations") or {}).get(DEVICE_ALLOCATED)
    try:
        read = msgspec.json.decode(text) if isinstance(text, str) else {}
    except JSON_ERRORS:
        return frozenset()
    found = set()
    for device_type, entries in read.items() if isinstance(read, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            resources = entry.get("resources") if isinstance(entry, dict) else None
            if any(name in SHARE_RESOURCES and _amount(amount) == WHOLE for name, amount in (resources or {}).items()):
                minor = entry.get("minor")  # absent for 0, as Go's omitempty writes it
                found.add((device_type, minor if isinstance(minor, int) else 0))
    return frozenset(found)


def _amount(amount: Any) -> int:
    try:
        return value(amount)
    except QuantityError:
        return 0


DEVICES = ExclusiveResource("devices", whole_devices_of, lambda devices: [f"{kind} {minor}" for kind, minor in sorted(devices)])
