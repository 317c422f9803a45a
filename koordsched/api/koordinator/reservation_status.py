"""The status of a Reservation as the scheduler writes it: merge patches that name the version they change (reservation.md §1, §5, §14).

Each function returns the body of a patch of the status subresource. Lists of conditions are replaced as a whole, so a patch carries the
version of the Reservation that it was made of: an API server refuses it where another writer was faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.api.koordinator.reservations import ReservationCondition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched.api.core import ObjectReference, ResourceList
    from koordsched.api.koordinator.reservations import Reservation

Json = dict[str, Any]

SCHEDULED, READY = "Scheduled", "Ready"
"""Types of conditions."""
IS_SCHEDULED, UNSCHEDULABLE, IS_AVAILABLE, HAS_SUCCEEDED, EXPIRED = "Scheduled", "Unschedulable", "Available", "Succeeded", "Expired"
"""Reasons of conditions."""


def condition_of(reservation: Reservation, type_: str) -> ReservationCondition | None:
    return next((condition for condition in reservation.status.conditions if condition.type == type_), None)


def is_expired(reservation: Reservation) -> bool:
    """Answer whether the Reservation failed because its time was over or its node had gone."""
    ready = condition_of(reservation, READY)
    return reservation.status.phase == "Failed" and ready is not None and ready.status == "False" and ready.reason == EXPIRED


def unschedulable(reservation: Reservation, message: str, now: str) -> Json:
    """Say why the Reservation has no node; the transition time stays while it has none."""
    before = condition_of(reservation, SCHEDULED)
    since = before.last_transition_time if before is not None and before.status == "False" else None
    condition = ReservationCondition(SCHEDULED, "False", UNSCHEDULABLE, message, now, since or now)
    return _patch(reservation, {"conditions": _with(reservation, condition)})


def available(reservation: Reservation, node: str, allocatable: ResourceList, now: str, *, scheduled: str = "") -> Json:
    """Give the Reservation its node and what it holds there. scheduled: the condition's message, for what is odd about it."""
    conditions = (
        ReservationCondition(SCHEDULED, "True", IS_SCHEDULED, scheduled, now, now),
        ReservationCondition(READY, "True", IS_AVAILABLE, "", now, now),
    )
    status: Json = {"phase": "Available", "nodeName": node, "conditions": [msgspec.to_builtins(each) for each in conditions]}
    if allocatable or reservation.status.allocatable:
        status["allocatable"] = replaced(reservation.status.allocatable, allocatable)
    return _patch(reservation, status)


def of_no_use(reservation: Reservation, message: str, now: str) -> Json | None:
    """Say in the condition of an Available Reservation why it is of no use; "": it is of use. None: the condition says so already."""
    ready = condition_of(reservation, READY)
    if ready is None or ready.status != "True" or ready.message == message:
        return None
    return _patch(reservation, {"conditions": _with(reservation, replace(ready, message=message, last_probe_time=now))})


def expired(reservation: Reservation, message: str, now: str) -> Json:
    """Let the Reservation fail because its time is over or its node has gone."""
    before = condition_of(reservation, READY)
    if before is None or before.status == "True":
        condition = ReservationCondition(READY, "False", EXPIRED, message, now, now)
    else:
        condition = replace(before, reason=EXPIRED, message=message, last_probe_time=now)
    return _patch(reservation, {"phase": "Failed", "conditions": _with(reservation, condition)})


def owned(reservation: Reservation, owners: Sequence[ObjectReference], allocated: ResourceList, now: str, *, used_up: bool) -> Json:
    """Say who has what of the Reservation. used_up: it was for one owner, so it has succeeded."""
    status: Json = {
        "currentOwners": [{"namespace": owner.namespace, "name": owner.name, "uid": owner.uid} for owner in owners],
        "allocated": replaced(reservation.status.allocated, allocated),
    }
    if used_up:
        before = condition_of(reservation, READY)
        condition = ReservationCondition(READY, "False", HAS_SUCCEEDED, "", now, now)
        if before is not None:
            condition = replace(before, status="False", reason=HAS_SUCCEEDED, last_probe_time=now)
        status |= {"phase": "Succeeded", "conditions": _with(reservation, condition)}
    return _patch(reservation, status)


def replaced(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """Return what turns one map into the other when it is merged: null for a key that goes."""
    return {**dict.fromkeys(before), **after}


def _with(reservation: Reservation, condition: ReservationCondition) -> list[Json]:
    """Return the conditions with this one in the place of the one of its type, or at the end."""
    conditions: Iterable[ReservationCondition] = reservation.status.conditions
    if condition_of(reservation, condition.type) is None:
        conditions = (*conditions, condition)
    else:
        conditions = (condition if known.type == condition.type else known for known in conditions)
    return [msgspec.to_builtins(each) for each in conditions]


def _patch(reservation: Reservation, status: Json) -> Json:
    meta = reservation.metadata
    return {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
