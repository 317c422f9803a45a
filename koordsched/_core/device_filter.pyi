import numpy as np
from numpy.typing import NDArray

from koordsched._core.device_request import DeviceAdjustment, DeviceRequest
from koordsched._core.device_score import DeviceScoring
from koordsched._core.device_table import DeviceTable

def filter_devices(
    table: DeviceTable,
    request: DeviceRequest,
    rows: NDArray[np.int32],
    adjustment: DeviceAdjustment | None = None,
    *,
    reserve: bool = False,
    aligned: NDArray[np.uint8] | None = None,
) -> NDArray[np.int32]:
    """Return a code per row (`device_facts.reason_of`), 0 where `allocate` finds devices. Without the GIL, O(rows x devices).

    aligned: rows whose devices were tried already, where only labels are checked (deviceshare.md §5). ValueError for another length,
        TypeError for other flags.
    """

def score_devices(
    table: DeviceTable,
    request: DeviceRequest,
    scoring: DeviceScoring,
    rows: NDArray[np.int32],
    masks: NDArray[np.uint64] | None = None,
) -> NDArray[np.int64]:
    """Return a raw score per row, which may exceed 100. Without the GIL.

    masks: NUMA nodes that count, of each row; 0: all. ValueError for another length.
    """
