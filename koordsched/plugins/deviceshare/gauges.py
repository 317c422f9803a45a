"""How many devices there are, by type and state, as a metric: koord_scheduler_devices. Counted at each scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.device_facts import DEVICE_TYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched._core.device_table import DeviceTable
    from koordsched.framework.handle import Handle


def register_gauges(handle: Handle, table: DeviceTable) -> None:
    """Show the devices of all nodes."""
    handle.metrics.gauge_table(
        "koord_scheduler_devices",
        "Devices of all nodes by state: free (nothing of it is held), shared, full, unhealthy.",
        ("type", "state"),
        lambda: _counts(table),
    )


def _counts(table: DeviceTable) -> Mapping[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for census in table.census():
        name = DEVICE_TYPE_NAMES[census.type]
        found[name, "free"] = census.free
        found[name, "shared"] = census.shared
        found[name, "full"] = census.full
        found[name, "unhealthy"] = census.unhealthy
    return found
