from collections.abc import Callable, Sequence
from typing import Any

from koordsched._core.device_facts import HeldDevice
from koordsched._core.device_request import DeviceRequest
from koordsched._core.device_table import DeviceTable
from koordsched._core.pod_index import PodIndex
from koordsched._core.removal_filter import RemovalFilter

HeldBy = Callable[[int, list[Any]], Sequence[Sequence[HeldDevice]] | None]
"""(row, pods) -> what each of the pods holds there; None: removing one of them would not just make free what it holds."""

class DeviceHoldings:
    """What the pods of an index hold of devices, compiled row by row when it is asked for, and anew once the row has changed.

    Each change of what is held, or of the devices, has to be logged in the node table.
    """

    def __init__(self, table: DeviceTable, pods: PodIndex, held_by: HeldBy) -> None: ...

class DeviceRemovals(RemovalFilter):
    """Filter's answers about devices while pods are removed, as `filter_devices` gives them of the row as it would be then."""

    def __init__(self, holdings: DeviceHoldings, request: DeviceRequest) -> None: ...
