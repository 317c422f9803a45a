from collections.abc import Callable, Sequence
from typing import Any

from koordsched._core.compiled_holdings import CompiledHoldings
from koordsched._core.device_facts import HeldDevice
from koordsched._core.device_request import DeviceRequest
from koordsched._core.device_table import DeviceTable
from koordsched._core.numa_joint import NumaAlignment
from koordsched._core.pod_index import PodIndex
from koordsched._core.removal_filter import RemovalFilter

HeldBy = Callable[[int, list[Any]], Sequence[Sequence[HeldDevice]] | None]
"""(row, pods) -> what each of the pods holds there; None: removing one of them would not just make free what it holds."""

class DeviceHoldings(CompiledHoldings):
    """What the pods of an index hold of devices."""

    def __init__(self, table: DeviceTable, pods: PodIndex, held_by: HeldBy) -> None: ...

class DeviceRemovals(RemovalFilter):
    """Filter's answers about devices while pods are removed, as `filter_devices` gives them of the row as it would be then."""

    def __init__(
        self, holdings: DeviceHoldings, request: DeviceRequest, alignment: NumaAlignment | None = None, *, is_followed: bool = False
    ) -> None:
        """alignment: the rows on which another filter has answered for the devices, so that this one looks at labels alone.

        is_followed: whether another kernel reads the devices' columns on other rows, so that they always have to be up to date.
        """
