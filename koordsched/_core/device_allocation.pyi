from koordsched._core.device_facts import Allocated, DeviceResource
from koordsched._core.device_request import DeviceAdjustment, DeviceRequest
from koordsched._core.device_score import DeviceScoring
from koordsched._core.device_table import DeviceTable

def allocate(
    table: DeviceTable,
    request: DeviceRequest,
    row: int,
    scoring: DeviceScoring | None = None,
    *,
    adjustment: DeviceAdjustment | None = None,
    mask: int | None = None,
    reserve: bool = False,
) -> tuple[Allocated, ...] | int:
    """Return the devices that a pod would get on a row, by type and in order of allocation; or why it gets none, as a code.

    () where the node has no entry: nothing is allocated there. mask: NUMA nodes that devices have to be of. reserve: as Reserve asks;
    amounts of GPUs are complete then, and all types count on well-planned nodes too. Nothing is taken: `DeviceTable.add` does that.
    """

def score_node(
    table: DeviceTable,
    request: DeviceRequest,
    scoring: DeviceScoring,
    row: int,
    *,
    adjustment: DeviceAdjustment | None = None,
    mask: int | None = None,
) -> int:
    """Return the score of a row for devices that may be taken; 0 where there is no entry."""

def complete_amounts(amounts: dict[DeviceResource, int], memory: int) -> None:
    """Add memory or ratio where one of them alone is there; memory: that of the whole GPU (deviceshare.md §6.3, end)."""
