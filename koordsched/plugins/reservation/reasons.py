"""What users read of reservations (reservation.md §5, §7, §8, §10): Koordinator's texts."""

from __future__ import annotations

from koordsched.framework.status import unresolvable, unschedulable

NO_MATCH = unresolvable("node(s) no reservations match reservation affinity")
NO_RESERVATION_FITS = unschedulable("node(s) no reservation(s) to meet the requirements")
NOT_PINNED = unresolvable("node(s) didn't match the nodeName specified by reservation")
POLICY_CONFLICT = unresolvable("node(s) reservation allocate policy conflict")

# Of Reservations that take over running pods (§13).
UNSUPPORTED = unresolvable("node(s) reservation pre allocation is unsupported with current attributes")
CLUSTER_MODE_DISABLED = unresolvable("reservation requires cluster mode pre-allocation which is disabled")
NO_CANDIDATES = unresolvable("node(s) no pod match reservation with pre allocation required")
NO_CANDIDATE_FITS = unschedulable("node(s) no pod(s) to meet the pre-allocation requirements")

NO_TARGET = "cannot find target reservation"
TERMINATING = "target reservation is terminating"
ALLOCATED_ALREADY = "reservation has allocateOnce enabled and has already been allocated"

OF_RESERVATION = "Reservation(s) "


def short_node(resource: str) -> str:
    return f"Insufficient {resource} by node"


def short_reservation(resource: str) -> str:
    return f"{OF_RESERVATION}Too many pods" if resource == "pods" else f"{OF_RESERVATION}Insufficient {resource}"


def amounts(requested: int, used: int, capacity: int) -> str:
    """Return what follows the reason where the pod names its reservation; cpu in milli."""
    return f", requested: {requested}, used: {used}, capacity: {capacity}"
