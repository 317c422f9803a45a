"""Pods in operating mode: pods of the cluster that are reservations at the same time (reservation.md §16).

Such a pod runs, and says in annotations who may use what it requests, and who does. What it is as a reservation: `operating_reservation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import ObjectReference, Pod
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.koordinator.reservations import Reservation, ReservationOwner, ReservationSpec, ReservationStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

OPERATING_MODE = "scheduling.koordinator.sh/operating-mode"
RESERVATION_MODE = "Reservation"
"""The label of such a pod, and its value."""
RESERVATION_OWNERS = "scheduling.koordinator.sh/reservation-owners"
CURRENT_OWNER = "scheduling.koordinator.sh/reservation-current-owner"
"""Annotations: owners as in a Reservation's spec, as JSON; and the pod that uses it (an ObjectReference), which its author writes."""

ALIGNED = "Aligned"


def is_operating(pod: Pod) -> bool:
    """Answer whether the pod is a reservation, too."""
    return pod.metadata.labels.get(OPERATING_MODE) == RESERVATION_MODE


def operating_owners(annotations: Mapping[str, str]) -> tuple[ReservationOwner, ...]:
    """Return who may use what the pod requests. Malformed."""
    if not annotations.get(RESERVATION_OWNERS):
        return ()
    return read_annotation(annotations, RESERVATION_OWNERS, tuple[ReservationOwner, ...]) or ()


def has_current_owner(annotations: Mapping[str, str]) -> bool:
    """Answer whether the annotations name a pod that uses it; one that cannot be read names none."""
    try:
        return bool(annotations.get(CURRENT_OWNER)) and read_annotation(annotations, CURRENT_OWNER, ObjectReference) is not None
    except Malformed:
        return False


def problem_of_operating(annotations: Mapping[str, str]) -> str:
    """Return what of these annotations cannot be read, "" if all can be."""
    try:
        operating_owners(annotations)
        if annotations.get(CURRENT_OWNER):
            read_annotation(annotations, CURRENT_OWNER, ObjectReference)
    except Malformed as error:
        return str(error)
    return ""


def operating_reservation(pod: Pod) -> Reservation:
    """Return what the pod is as a reservation: Aligned and for one owner; Available while it runs and is ready. Its amounts are the pod's.

    One whose owners cannot be read has none.
    """
    try:
        owners = operating_owners(pod.metadata.annotations)
    except Malformed:
        owners = ()
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)
    phase = "Available" if pod.status.phase == "Running" and ready else "Pending"
    return Reservation(
        metadata=pod.metadata,
        spec=ReservationSpec(owners=owners, allocate_policy=ALIGNED),
        status=ReservationStatus(phase=phase, node_name=pod.spec.node_name),
    )


def lends_otherwise(old: Pod, new: Pod) -> bool:
    """Answer whether a pod in operating mode may have become of use to other owners: it is ready, or its labels or annotations differ."""
    before, after = old.metadata, new.metadata
    if before.labels != after.labels or before.annotations != after.annotations:
        return True
    return operating_reservation(old).status != operating_reservation(new).status
