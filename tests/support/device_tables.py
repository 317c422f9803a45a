"""Device tables of one row a node, and requests, for tests of the device kernels and their benchmark.

`T8` is the node of the acceptance checklist (deviceshare.md §17): 8 GPUs of 80Gi, NUMA 0: minors 0-3, NUMA 1: 4-7, two on each PCIe switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.device_allocation import allocate
from koordsched._core.device_facts import (
    Allocated,
    DeviceFacts,
    DeviceReason,
    DeviceResource,
    DeviceType,
    HeldDevice,
    NodeAccelerators,
    NodeDevices,
    TypeDemand,
    VfGroup,
    detail_of,
    reason_of,
)
from koordsched._core.device_filter import filter_devices, score_devices
from koordsched._core.device_request import DeviceRequest
from koordsched._core.device_score import DeviceScoring
from koordsched._core.device_table import DeviceTable
from koordsched._core.table import NodeTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from koordsched._core.device_request import DeviceAdjustment

GIB = 2**30
GPU, RDMA, FPGA = DeviceType.GPU, DeviceType.RDMA, DeviceType.FPGA
CORE, MEMORY, RATIO = DeviceResource.GPU_CORE, DeviceResource.GPU_MEMORY, DeviceResource.GPU_MEMORY_RATIO
NIC, CARD = DeviceResource.RDMA, DeviceResource.FPGA
LEAST = DeviceScoring({RATIO: 1, MEMORY: 1, NIC: 1, CARD: 1}, most=False)
MOST = DeviceScoring({RATIO: 1, MEMORY: 1, NIC: 1, CARD: 1}, most=True)


def gpu(minor: int, numa: int | None = None, pcie: str = "", *, memory: int = 80 * GIB, healthy: bool = True, **fields: Any) -> DeviceFacts:
    return DeviceFacts(minor, healthy, {CORE: 100, MEMORY: memory, RATIO: 100}, numa, pcie, **fields)


def nic(
    minor: int, numa: int | None = None, pcie: str = "", *, vfs: Sequence[str] = (), healthy: bool = True, **fields: Any
) -> DeviceFacts:
    groups = [VfGroup(fields.pop("vf_labels", {}), [(bus, place) for place, bus in enumerate(vfs)])] if vfs else []
    return DeviceFacts(minor, healthy, {NIC: 100}, numa, pcie, vf_groups=groups, **fields)


def fpga(minor: int, numa: int | None = None, pcie: str = "") -> DeviceFacts:
    return DeviceFacts(minor, True, {CARD: 100}, numa, pcie)


T8 = [gpu(minor, minor // 4, f"p{minor // 2}") for minor in range(8)]


class DeviceNodes:
    """A table; a node's row is its index."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.table = DeviceTable(self.nodes, self.nodes.new_attribute())
        self.row = self.add()

    def add(self) -> int:
        """Add a node of which nothing is known, and return its row."""
        row = self.nodes.acquire_row()
        index = row + 1
        self.nodes.set_attribute(self.table.index_attribute, row, index, 0)
        self.table.clear_node(index)
        return row

    def describe(self, *devices: tuple[DeviceType, Iterable[DeviceFacts]], row: int | None = None, **fields: Any) -> DeviceNodes:
        listed = {device_type: list(of_type) for device_type, of_type in devices}
        self.table.set_devices(self._index(row), NodeDevices(listed, **fields))
        return self

    def label(self, row: int | None = None, **labels: Any) -> DeviceNodes:
        self.table.set_accelerators(self._index(row), NodeAccelerators(**labels))
        return self

    def use(self, *minors: int, of: DeviceType = GPU, percent: int = 100, row: int | None = None) -> DeviceNodes:
        """Let a pod hold so much of each of these devices."""
        self.table.add(self._index(row), [held(minor, of, percent) for minor in minors])
        return self

    def code(self, request: DeviceRequest, row: int | None = None) -> str:
        """Return why the node is refused, "" when it is not."""
        return named(int(filter_devices(self.table, request, np.array([self._row(row)], np.int32))[0]))

    def score(self, request: DeviceRequest, scoring: DeviceScoring = LEAST, row: int | None = None) -> int:
        return int(score_devices(self.table, request, scoring, np.array([self._row(row)], np.int32))[0])

    def allocate(
        self,
        request: DeviceRequest,
        scoring: DeviceScoring | None = LEAST,
        row: int | None = None,
        *,
        adjustment: DeviceAdjustment | None = None,
        mask: int | None = None,
        reserve: bool = True,
    ) -> tuple[Allocated, ...] | str:
        found = allocate(self.table, request, self._row(row), scoring, adjustment=adjustment, mask=mask, reserve=reserve)
        return named(found) if isinstance(found, int) else found

    def take(
        self, request: DeviceRequest, scoring: DeviceScoring | None = LEAST, row: int | None = None, **options: Any
    ) -> dict[str, list[int]] | str:
        """Allocate, let a pod hold that, and return the minors by type, in order of allocation."""
        found = self.allocate(request, scoring, row, **options)
        if isinstance(found, str):
            return found
        self.table.add(self._index(row), [HeldDevice(a.type, a.minor, a.amounts, (a.vf[0],) if a.vf else ()) for a in found])
        return minors(found)

    def _row(self, row: int | None) -> int:
        return self.row if row is None else row

    def _index(self, row: int | None) -> int:
        return self._row(row) + 1


def held(minor: int, of: DeviceType = GPU, percent: int = 100) -> HeldDevice:
    if of is GPU:
        return HeldDevice(GPU, minor, {CORE: percent, RATIO: percent, MEMORY: 80 * GIB * percent // 100})
    return HeldDevice(of, minor, {DeviceResource(of + 5): percent})


def minors(found: Sequence[Allocated]) -> dict[str, list[int]]:
    by_type: dict[str, list[int]] = {}
    for allocated in found:
        by_type.setdefault(allocated.type.name.lower(), []).append(allocated.minor)
    return by_type


def named(code: int) -> str:
    reason = reason_of(code)
    if reason is DeviceReason.PASS:
        return ""
    if reason in {DeviceReason.NO_DEVICES, DeviceReason.INSUFFICIENT, DeviceReason.NO_VFS}:
        return f"{reason.name} {DeviceType(detail_of(code)).name}"
    return reason.name


def gpus(count: int = 1, *, percent: int = 100, **options: Any) -> DeviceRequest:
    """Make a request for so many GPUs, of `percent` of the core and the memory of each."""
    return request({GPU: gpu_demand(count, percent=percent)}, shared=percent < 100, **options)


def gpu_demand(count: int = 1, *, percent: int = 100, **fields: Any) -> TypeDemand:
    return TypeDemand({CORE: percent, RATIO: percent}, count, **fields)


def nic_demand(count: int = 1, *, percent: int = 100, **fields: Any) -> TypeDemand:
    return TypeDemand({NIC: percent}, count, **fields)


def request(types: Mapping[DeviceType, TypeDemand], **options: Any) -> DeviceRequest:
    return DeviceRequest(types, **options)
