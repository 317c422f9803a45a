"""Nodes whose secondary devices are not well planned, as a metric (deviceshare.md §14).

A Device is labelled "false" where GPUs have no RDMA interface of their own near them: joint allocations there are looked at more closely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.devices import SECONDARY_DEVICE_WELL_PLANNED
from koordsched.cluster.object_store import Arrival

if TYPE_CHECKING:
    from koordsched.api.koordinator.devices import Device
    from koordsched.cluster.object_store import FinalState
    from koordsched.framework.handle import Handle

NOT_WELL_PLANNED = "false"


class PlanningGauge:
    """Handles Devices: keeps 1 for each node whose label says so, and no series for others."""

    def __init__(self, handle: Handle) -> None:
        self._gauge = handle.metrics.gauge(
            "scheduler_secondary_device_not_well_planned", "1 for each node whose secondary devices are not well planned.", ("node_name",)
        )
        handle.informer(DEVICE).add_handler(self)

    def on_add(self, device: Device, _arrival: Arrival) -> None:
        if device.metadata.labels.get(SECONDARY_DEVICE_WELL_PLANNED) == NOT_WELL_PLANNED:
            self._gauge.set(1, device.metadata.name)
        else:
            self._gauge.remove(device.metadata.name)

    def on_update(self, _old: Device, new: Device) -> None:
        self.on_add(new, Arrival.LATER)

    def on_delete(self, device: Device, _final_state: FinalState) -> None:
        self._gauge.remove(device.metadata.name)


def follow_planning(handle: Handle) -> None:
    """Keep the metric from now on, once for all profiles. To be called while the plugin is made."""
    handle.cache.shared.one(PlanningGauge, lambda: PlanningGauge(handle))
