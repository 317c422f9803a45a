from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from koordsched._core.device_request import DeviceRequest
from koordsched._core.device_score import DeviceScoring
from koordsched._core.device_table import DeviceTable
from koordsched._core.table import NodeTable

MAX_REQUESTS: int
"""Requests that a mix may hold."""

class RequestMix:
    """What recent pods asked for. Immutable.

    requests: pods by what they asked for: milli-cores, bytes, GPUs, and the share of each GPU (1 to 100). ValueError: there are more than
    MAX_REQUESTS, or a share or a number of GPUs is none.
    """

    items: int
    total: int
    cpu_per_share: float

    def __init__(self, requests: Mapping[tuple[int, int, int, int], int]) -> None: ...

class FragmentationScoring(DeviceScoring):
    """Devices by how little the waste of their node grows, for the mix of now. `aim` before each allocation."""

    mix: RequestMix
    cpu: int
    memory: int

    def __init__(self, mix: RequestMix) -> None: ...
    def aim(self, nodes: NodeTable, row: int) -> None:
        """Prepare for a node on which the pod's CPU and memory are counted already, and its devices are not. IndexError: no such row."""

def score_fragmentation(
    table: DeviceTable, request: DeviceRequest | None, scoring: FragmentationScoring, cpu: int, memory: int, rows: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return per row 0 to 100: 50 where the pod adds nothing to the expected waste, less where it adds some, more where it takes some away.

    request: None for a pod that asks for no device. cpu (milli-cores), memory (bytes): what the pod requests. 0 for pods that ask for GPUs
    on rows without any. Without the GIL. Rows with equal GPUs, CPU and memory left are worked out once a call, or a little more often;
    O(distinct rows x GPUs), more where memory keeps some requests of the mix out.
    """

def mean_gpu_memory(table: DeviceTable) -> int:
    """Return the bytes that the healthy GPUs of all nodes have on average; 0 where none says. O(GPUs)."""

def expected_waste(mix: RequestMix, cpu: int, memory: int, shares: Sequence[int]) -> float:
    """Return the expected waste, in percent of a GPU, of a node with this free: milli-cores, bytes, and percent of each GPU."""
