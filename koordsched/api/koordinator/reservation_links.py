"""What binds a pod to reservations besides its affinity: the one it was given, exact match, and reservations that it ignores
(reservation.md §1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.koordinator.reading import Malformed, read_annotation, read_text
from koordsched.api.meta import Api

if TYPE_CHECKING:
    from collections.abc import Mapping

RESERVATION_ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
EXACT_MATCH = "scheduling.koordinator.sh/exact-match-reservation"
RESERVATION_IGNORED = "scheduling.koordinator.sh/reservation-ignored"
RESERVATION_ORDER = "scheduling.koordinator.sh/reservation-order"
RESTRICTED_OPTIONS = "scheduling.koordinator.sh/reservation-restricted-options"

_INT64 = range(-(2**63), 2**63)


class ReservationAllocated(Api):
    """The reservation that a pod owns a part of; `uid` decides."""

    name: str = ""
    uid: str = ""


class ResourceNames(Api):
    resource_names: tuple[str, ...] = ()


class RestrictedOptions(Api):
    resources: tuple[str, ...] = ()


def allocated_reservation(annotations: Mapping[str, str]) -> str:
    """Return the uid of the reservation that the pod was given; "" when it has none or the annotation cannot be read."""
    text = annotations.get(RESERVATION_ALLOCATED)
    if not text:
        return ""
    try:
        found = read_text(RESERVATION_ALLOCATED, text, ReservationAllocated)
    except Malformed:
        return ""
    return "" if found is None else found.uid


def is_allocated_text(text: str) -> bool:
    """Answer whether a text says which reservation a pod was given."""
    try:
        return read_text(RESERVATION_ALLOCATED, text, ReservationAllocated) is not None
    except Malformed:
        return False


def allocated_text(name: str, uid: str) -> str:
    """Return the annotation of a pod that was given this reservation."""
    return msgspec.json.encode(ReservationAllocated(name, uid)).decode()


def exact_match(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the resources of which the pod has to request all that its reservation has; () for none. Malformed."""
    if not annotations.get(EXACT_MATCH):
        return ()
    found = read_annotation(annotations, EXACT_MATCH, ResourceNames)
    return () if found is None else found.resource_names


def restricted_options(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the resources that a Restricted reservation restricts; () for all. Malformed."""
    if not annotations.get(RESTRICTED_OPTIONS):
        return ()
    found = read_annotation(annotations, RESTRICTED_OPTIONS, RestrictedOptions)
    return () if found is None else found.resources


def is_restricted_options_text(text: str) -> bool:
    """Answer whether a text says what a Restricted reservation restricts."""
    try:
        restricted_options({RESTRICTED_OPTIONS: text})
    except Malformed:
        return False
    return True


def is_ignoring_reservations(labels: Mapping[str, str]) -> bool:
    """Answer whether the pod may use all that is reserved and not used yet, without ever being an owner."""
    return labels.get(RESERVATION_IGNORED) == "true"


def reservation_order(labels: Mapping[str, str]) -> int:
    """Return the reservation's place among those that a pod matches, the smallest first; 0: none."""
    text = labels.get(RESERVATION_ORDER)
    if text is None:
        return 0
    try:
        order = int(text, 10)
    except ValueError:
        return 0
    return order if order in _INT64 else 0
