"""What a Reservation comes to hold when it is given devices (deviceshare.md §10, feature gate ResizePod).

A Reservation may ask for what only the chosen node decides: one device of each kind, or memory that is a ratio of the card. With the gate,
what its reserve pod was given replaces what it asked for, resource by resource, so that its owners find all of it. *Here:* the sum is taken
of what Reserve gives, which has secondary devices also on well-planned nodes.

Nothing calls this: the plugin Reservation takes no part in scheduling, so nothing is resized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.koordinator.device_annotations import resources_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.koordinator.device_annotations import DeviceAllocations

GATE = "ResizePod"
RESIZE_ALLOCATABLE = "scheduling.koordinator.sh/reservation-resize-allocatable"
"""Annotation of Reservations: amounts that replace those of the template when it becomes Available."""


def summed(allocated: DeviceAllocations) -> dict[str, int]:
    """Return the sum over all devices of an allocation, by resource in whole units."""
    total: dict[str, int] = {}
    for devices in allocated.values():
        for device in devices:
            for resource, amount in device.resources.items():
                total[resource] = total.get(resource, 0) + amount
    return total


def resized(requests: Mapping[str, int], allocated: DeviceAllocations) -> dict[str, int]:
    """Return the requests of a reserve pod with those of devices replaced by what it was given."""
    return {**requests, **summed(allocated)}


def resize_text(allocated: DeviceAllocations) -> str:
    """Write the annotation of the Reservation."""
    return msgspec.json.encode({"resources": resources_body(summed(allocated))}).decode()
