"""The metrics of Reservations: their phases, and what they have and have given (reservation.md §2).

Read at each scrape, so nothing goes stale (D13): O(Reservations).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.koordinator.reserve_pods import AVAILABLE, FAILED, PENDING, SUCCEEDED
from koordsched.api.quantity import QuantityError, milli_value, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Quantity
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.framework.plugin_metrics import PluginMetrics

PHASES = (PENDING, AVAILABLE, SUCCEEDED, FAILED)
GIB = 2**30
Rows = dict[tuple[str, ...], float]


def register(metrics: PluginMetrics, reservations: Mapping[str, Reservation]) -> None:
    """Show both metrics of these Reservations."""
    metrics.gauge_table(
        "scheduler_reservation_status_phase",
        "Whether a Reservation is in the phase.",
        ("name", "phase"),
        lambda: _phases(reservations),
    )
    metrics.gauge_table(
        "scheduler_reservation_resource",
        "What a Reservation has, what its owners have of it, and the ratio of both.",
        ("name", "resource", "type", "unit"),
        lambda: _amounts(reservations),
    )


def _phases(reservations: Mapping[str, Reservation]) -> Rows:
    rows: Rows = {}
    for name, reservation in reservations.items():
        now = reservation.status.phase or PENDING
        for phase in PHASES:
            rows[name, phase] = float(now == phase)
    return rows


def _amounts(reservations: Mapping[str, Reservation]) -> Rows:
    rows: Rows = {}
    for name, reservation in reservations.items():
        status = reservation.status
        for resource, quantity in status.allocatable.items():
            try:
                whole, unit = _in_unit(resource, quantity)
                given, _ = _in_unit(resource, status.allocated.get(resource, "0"))
            except QuantityError:
                continue
            rows[name, resource, "allocatable", unit] = whole
            rows[name, resource, "allocated", unit] = given
            if whole > 0:
                rows[name, resource, "utilization", "ratio"] = given / whole
    return rows


def _in_unit(resource: str, quantity: Quantity) -> tuple[float, str]:
    if resource == "cpu":
        return milli_value(quantity) / 1000, "core"
    if resource == "memory":
        return value(quantity) / GIB, "Gi"
    return float(value(quantity)), "raw"
