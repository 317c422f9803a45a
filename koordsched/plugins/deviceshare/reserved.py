"""Devices that reservations hold, for the pods that may have them (deviceshare.md §8).

A pod that is given a reservation gets its devices: under the policies Default and Aligned these first, and free ones besides; under
Restricted these alone, of those types of which the reservation has any left. Where that fails, and the pod does not demand a reservation,
it is given free devices like any pod. Devices of other reservations are never given.

The view of an owner hides all its reservations, but a pod is given one. So Filter looks again at nodes where that makes a difference. A pod
that ignores reservations may have whatever no pod uses, of all of them, and is given none.

A Reservation may ask for what only the chosen node decides: one device of each kind, or memory that is a ratio of the card. With the
feature gate ResizePod what it was given replaces what it asked for, resource by resource, so that its owners find all of it (§10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.device_allocation import allocate
from koordsched._core.device_facts import DeviceReason, DeviceType, reason_of
from koordsched._core.device_request import DeviceAdjustment
from koordsched.api.koordinator.device_annotations import resources_body
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import is_ignoring_reservations
from koordsched.plugins.deviceshare.reasons import OF_RESERVATION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched._core.device_facts import DeviceResource
    from koordsched._core.device_request import DeviceRequest
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Codes
    from koordsched.plugins.deviceshare.state import DeviceState, PodDevices

RESIZE_GATE = "ResizePod"
RESTRICTED = "Restricted"
OF_NODES = frozenset((DeviceReason.NO_ISOLATION_PROVIDER, DeviceReason.SHARE_UNSUPPORTED, DeviceReason.NO_DEVICES, DeviceReason.NO_VFS))
"""Reasons that no reservation changes anything about."""


def demands_reservation(pod: PodInfo) -> bool:
    """Answer whether the pod may only go where it is given a reservation."""
    return RESERVATION_AFFINITY in pod.pod.metadata.annotations


def of_reservation(code: int) -> int:
    """Return the code that says of a reservation what this one says of a node; the same where no reservation can change it."""
    return code if reason_of(code) in OF_NODES else code | OF_RESERVATION


def ways_to_take(left: PodDevices, *, restricted: bool) -> Sequence[DeviceAdjustment]:
    """Return how devices may be taken where a reservation has this left, the best way first."""
    amounts: dict[DeviceType, dict[int, Mapping[DeviceResource, int]]] = {}
    vfs: dict[DeviceType, dict[int, Sequence[str]]] = {}
    for held in left.held:
        amounts.setdefault(held.type, {})[held.minor] = held.amounts
        if held.vfs:
            vfs.setdefault(held.type, {})[held.minor] = held.vfs
    if restricted:
        required = amounts or {device_type: {} for device_type in DeviceType}
        return (DeviceAdjustment(required=required, required_minors=amounts, only_vfs=vfs),)
    return DeviceAdjustment(only=amounts, only_vfs=vfs), DeviceAdjustment(preferred=amounts)


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


class ReservedDevices:
    """Filter's answers for pods that match reservations."""

    def __init__(self, cache: Cache, state: DeviceState) -> None:
        self._cache = cache
        self._state = state

    def is_restricted(self, placeholder: str) -> bool:
        """Answer whether the owners of a reservation get what it has, and nothing else."""
        reservation = self._cache.pods[placeholder].info.reservation
        return reservation is not None and reservation.spec.allocate_policy == RESTRICTED

    def check(self, pod: PodInfo, request: DeviceRequest, nodes: Nodes, codes: Codes) -> None:
        """Correct the codes of nodes with reservations that the view hides. O(reservations of the pod that hold devices)."""
        shown = self._cache.credits.shown
        if shown is None:
            return
        by_row = self._state.reserved_on(shown.placeholders)
        if not by_row:
            return
        if is_ignoring_reservations(pod.pod.metadata.labels):
            return
        required = demands_reservation(pod)
        for i in np.flatnonzero(np.isin(nodes.rows, np.fromiter(by_row, np.int32, len(by_row)))).tolist():
            row = int(nodes.rows[i])
            if not codes[i]:
                codes[i] = self._code(request, row, by_row[row], required=required)
            if codes[i] and required:
                codes[i] = of_reservation(int(codes[i]))

    def _code(self, request: DeviceRequest, row: int, placeholders: Sequence[str], *, required: bool) -> int:
        """Return why none of these reservations lets a node have what is asked for, without them all, too, unless one is required; or 0.

        Called where the node has it while all of them are hidden.
        """
        code = 0
        for placeholder in placeholders:
            left = self._state.left(placeholder)
            restricted = self.is_restricted(placeholder)
            if left is None or (len(placeholders) == 1 and not restricted):
                return 0
            with self._state.shown([other for other in placeholders if other != placeholder]):
                found: object = None
                for adjustment in ways_to_take(left, restricted=restricted):
                    found = allocate(self._state.table, request, row, adjustment=adjustment)
                    if not isinstance(found, int):
                        return 0
                code = found if isinstance(found, int) else 0
        if required:
            return code
        with self._state.shown(placeholders):
            found = allocate(self._state.table, request, row)
        return found if isinstance(found, int) else 0


def resize_text(allocated: DeviceAllocations) -> str:
    """Write what a Reservation comes to hold as its annotation says it: the sum over all devices, by resource."""
    total: dict[str, int] = {}
    for devices in allocated.values():
        for device in devices:
            for resource, amount in device.resources.items():
                total[resource] = total.get(resource, 0) + amount
    return msgspec.json.encode({"resources": resources_body(total)}).decode()
