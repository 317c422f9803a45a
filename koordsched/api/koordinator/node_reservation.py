"""What a Node keeps for the system: its annotation `node.koordinator.sh/reservation` (frameworkext.md §7).

koordlet copies the annotation to the NodeResourceTopology, from where the CPUs that pods do not get are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from koordsched.api.core import ResourceList
from koordsched.api.koordinator.cpulist import parse_cpus
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.meta import Api
from koordsched.api.quantity import QuantityError, nano

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE_RESERVATION = "node.koordinator.sh/reservation"

DEFAULT_POLICY = "Default"
RESERVED_CPUS_ONLY = "ReservedCPUsOnly"
APPLY_POLICIES = frozenset({"", DEFAULT_POLICY, RESERVED_CPUS_ONLY})
_TRIMS = frozenset({"", DEFAULT_POLICY})


class NodeReservation(Api):
    """The annotation as written."""

    resources: ResourceList = field(default_factory=dict)
    reserved_cpus: str = field(default="", name="reservedCPUs")
    apply_policy: str = ""

    @property
    def cpus(self) -> int:
        """Return the set of the CPUs that are named; ValueError says which part is wrong."""
        return parse_cpus(self.reserved_cpus)


def node_reservation(annotations: Mapping[str, str]) -> NodeReservation | None:
    """Return what the annotation says; None when there is none. Malformed."""
    return read_annotation(annotations, NODE_RESERVATION, NodeReservation) if annotations.get(NODE_RESERVATION) else None


def reserved_amounts(annotations: Mapping[str, str]) -> ResourceList:
    """Return what is to be taken off the node's allocatable, {} when nothing is.

    A CPU list stands in for the amount of cpu. Malformed: nothing is to be taken off, and the annotation's author should know why.
    """
    reservation = node_reservation(annotations)
    if reservation is None:
        return {}
    text = annotations[NODE_RESERVATION]
    if reservation.apply_policy not in APPLY_POLICIES:
        raise Malformed(NODE_RESERVATION, f"applyPolicy: expected {DEFAULT_POLICY} or {RESERVED_CPUS_ONLY}", text)
    amounts = dict(reservation.resources)
    if reservation.reserved_cpus:
        try:
            amounts["cpu"] = reservation.cpus.bit_count()
        except ValueError as error:
            raise Malformed(NODE_RESERVATION, f"reservedCPUs: {error}", text) from None
    for name, quantity in amounts.items():
        try:
            if nano(quantity) < 0:
                raise Malformed(NODE_RESERVATION, f"resources[{name}]: {quantity!r} is less than 0", text)
        except QuantityError as error:
            raise Malformed(NODE_RESERVATION, f"resources[{name}]: {error}", text) from None
    if reservation.apply_policy not in _TRIMS:
        return {}
    return amounts if any(nano(quantity) for quantity in amounts.values()) else {}
