"""The reservation affinity of a pod: which reservations it must use one of (reservation.md §1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from koordsched.api.core import NodeSelectorTerm, Toleration
from koordsched.api.koordinator.reading import read_annotation
from koordsched.api.meta import Api

if TYPE_CHECKING:
    from collections.abc import Mapping

RESERVATION_AFFINITY = "scheduling.koordinator.sh/reservation-affinity"


class ReservationSelectorTerms(Api):
    reservation_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ReservationAffinity(Api):
    """Empty: any reservation that matches the pod."""

    name: str = ""
    required_during_scheduling_ignored_during_execution: ReservationSelectorTerms | None = None
    reservation_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


def reservation_affinity(annotations: Mapping[str, str]) -> ReservationAffinity | None:
    """Return the pod's affinity; None when it need not use a reservation. Malformed."""
    text = annotations.get(RESERVATION_AFFINITY)
    if text is None:
        return None
    return (read_annotation(annotations, RESERVATION_AFFINITY, ReservationAffinity) if text else None) or ReservationAffinity()
