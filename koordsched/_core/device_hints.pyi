from koordsched._core.device_request import DeviceAdjustment, DeviceRequest
from koordsched._core.device_table import DeviceTable
from koordsched._core.hint_source import NumaHintSource
from koordsched._core.numa_facts import HintAnswer

class DeviceHints(NumaHintSource):
    """From which NUMA nodes of each row a pod's devices could come. Codes are those of `filter_devices`.

    adjustment: what the pod may take besides or instead of what is free, of every row that is asked about.
    """

    def __init__(self, table: DeviceTable, request: DeviceRequest, adjustment: DeviceAdjustment | None = None) -> None: ...
    def answer(self, row: int, *, narrowest: bool = False) -> HintAnswer:
        """Return the hints of one row, or the code with which it is refused as a whole; neither: any NUMA nodes would do.

        narrowest: only the smallest sets that would do, as kernels ask; the score of a single one then means nothing.
        """
