"""Devices that reservations hold, for the pods that may have them (deviceshare.md §8).

A pod that is given a reservation gets its devices: under the policies Default and Aligned these first, and free ones besides; under
Restricted these alone, of those types of which the reservation has any left. Where that fails, and the pod does not demand a reservation,
it is given free devices like any pod. Devices of other reservations are never given.

The view of an owner hides all its reservations, but a pod is given one: which of them have devices that suit, the plugin is asked where
that makes a difference (`framework.reservation_filters`). A pod that ignores reservations may have whatever no pod uses, of all of them,
and is given none.

A Reservation may ask for what only the chosen node decides: one device of each kind, or memory that is a ratio of the card. With the
feature gate ResizePod what it was given replaces what it asked for, resource by resource, so that its owners find all of it (§10): on the
node from Reserve on, and in the Reservation's annotation, from which its status is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched._core.device_facts import DeviceReason, DeviceType, reason_of
from koordsched._core.device_request import DeviceAdjustment
from koordsched.api.koordinator.device_annotations import resources_body
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.plugins.deviceshare.reasons import OF_RESERVATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched._core.device_facts import DeviceResource
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.podinfo import PodInfo
    from koordsched.plugins.deviceshare.allocated import PodDevices

RESTRICTED = "Restricted"
OF_NODES = frozenset((DeviceReason.NO_ISOLATION_PROVIDER, DeviceReason.SHARE_UNSUPPORTED, DeviceReason.NO_DEVICES, DeviceReason.NO_VFS))
"""Reasons that no reservation changes anything about."""


def is_restricted(reservation: PodInfo) -> bool:
    """Answer whether the owners of a reservation, of which this is the reserve pod, get what it has, and nothing else."""
    return reservation.reservation is not None and reservation.reservation.spec.allocate_policy == RESTRICTED


def demands_reservation(pod: PodInfo) -> bool:
    """Answer whether the pod may only go where it is given a reservation."""
    return RESERVATION_AFFINITY in pod.pod.metadata.annotations


def of_reservation(code: int) -> int:
    """Return the code that says of a reservation what this one says of a node; the same where no reservation can change it."""
    return code if reason_of(code) in OF_NODES else code | OF_RESERVATION


def way_to_include(held: Sequence[PodDevices]) -> DeviceAdjustment:
    """Return how a Reservation's devices may be taken that takes over pods with these: theirs have to be among them."""
    minors: dict[DeviceType, set[int]] = {}
    for devices in held:
        for device in devices.held:
            minors.setdefault(device.type, set()).add(device.minor)
    return DeviceAdjustment(preferred=minors, included=minors)


def missing_of(given: PodDevices, held: Sequence[PodDevices]) -> int:
    """Return the code that says that what a Reservation was given is not all that these pods hold of the same types; 0: it is."""
    amounts: dict[tuple[DeviceType, int], dict[DeviceResource, int]] = {}
    for device in (device for devices in held for device in devices.held):
        total = amounts.setdefault((device.type, device.minor), {})
        for resource, amount in device.amounts.items():
            total[resource] = total.get(resource, 0) + amount
    types = {device.type for device in given.held}
    of_given = {(device.type, device.minor): device.amounts for device in given.held}
    complete = all(
        of_given.get(place, {}).get(resource, 0) >= amount
        for place, total in amounts.items()
        if place[0] in types
        for resource, amount in total.items()
    )
    return 0 if complete else int(DeviceReason.NOT_INCLUDED)


def held_amounts(allocated: DeviceAllocations) -> dict[str, int]:
    """Return what a Reservation comes to hold: the sum over all devices, by resource."""
    total: dict[str, int] = {}
    for devices in allocated.values():
        for device in devices:
            for resource, amount in device.resources.items():
                total[resource] = total.get(resource, 0) + amount
    return total


def resize_text(allocated: DeviceAllocations) -> str:
    """Write what a Reservation comes to hold as its annotation says it."""
    return msgspec.json.encode({"resources": resources_body(held_amounts(allocated))}).decode()
