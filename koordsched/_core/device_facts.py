"""What a `DeviceTable` is given about nodes and pods, and what it answers: plain values (deviceshare.md §2, §6).

Amounts are whole numbers in the units of the resources (bytes, percent), keyed by `DeviceResource`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEVICE_TYPE_NAMES = ("gpu", "rdma", "fpga")
DEVICE_RESOURCE_NAMES = (
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory",
    "koordinator.sh/gpu-memory-ratio",
    "huawei.com/npu-core",
    "huawei.com/npu-cpu",
    "huawei.com/npu-dvpp",
    "koordinator.sh/rdma",
    "koordinator.sh/fpga",
)
"""In the order of `DeviceResource`."""
DETAIL_SHIFT = 6


class DeviceType(IntEnum):
    """Types that can be allocated, in the order in which they are, where nothing else orders them."""

    GPU = 0
    RDMA = 1
    FPGA = 2


class DeviceResource(IntEnum):
    """The first six are of GPUs."""

    GPU_CORE = 0
    GPU_MEMORY = 1
    GPU_MEMORY_RATIO = 2
    NPU_CORE = 3
    NPU_CPU = 4
    NPU_DVPP = 5
    RDMA = 6
    FPGA = 7


class DeviceReason(IntEnum):
    """Why devices cannot be allocated on a node. A code holds one below `DETAIL_SHIFT`, and its detail above."""

    PASS = 0
    NO_ISOLATION_PROVIDER = 1
    SHARE_UNSUPPORTED = 2  # detail: the model (`DeviceTable.model`)
    NO_DEVICES = 3  # detail: the device type; the node has none at all
    INSUFFICIENT = 4  # detail: the device type
    NO_VFS = 5  # detail: the device type; no device of it has virtual functions
    NO_TEMPLATE = 6
    NO_PARTITION_TABLE = 7
    UNSUPPORTED_COUNT = 8  # the partition table has no partitions of so many GPUs
    INSUFFICIENT_PARTITIONED = 9
    NO_TOPOLOGY = 10  # a scope is required, but where the GPUs sit is not known of all
    MULTI_SHARED = 11  # a scope is required of shares of several GPUs
    INSUFFICIENT_SCOPED = 12
    INSUFFICIENT_GPUS = 13
    NO_PRIMARY = 14
    JOINT_VIOLATION = 15
    NO_HEALTHY_GPU = 16  # detail: the minor
    INSUFFICIENT_NUMA = 17  # fewer devices in the NUMA nodes than asked for
    NOT_INCLUDED = 18  # the devices that have to be in the result cannot all be


def reason_of(code: int) -> DeviceReason:
    """Return the reason that a code stands for."""
    return DeviceReason(code & ((1 << DETAIL_SHIFT) - 1))


def detail_of(code: int) -> int:
    """Return what a code says of its reason."""
    return code >> DETAIL_SHIFT


class VfGroup(NamedTuple):
    """Virtual functions of one device: (bus id, minor) each."""

    labels: Mapping[str, str]
    vfs: Sequence[tuple[str, int]]


class DeviceFacts(NamedTuple):
    """One device that is listed."""

    minor: int
    healthy: bool
    totals: Mapping[DeviceResource, int]
    numa: int | None = None  # None: its place is not known; -1: it is, but for the NUMA node
    pcie: str = ""
    labels: Mapping[str, str] = {}
    vf_groups: Sequence[VfGroup] = ()


class DevicePartition(NamedTuple):
    """GPUs that may be given out together."""

    minors: Sequence[int]
    score: int = 0
    bandwidth: int | None = None  # of the ring bus; None: not stated


class NodeDevices(NamedTuple):
    """What a Device object says."""

    devices: Mapping[DeviceType, Sequence[DeviceFacts]]
    partitions: Mapping[int, Sequence[DevicePartition]] | None = None  # by number of GPUs; None: there is no table
    honor: bool = False  # GPUs must be given out by partitions
    well_planned: bool = False  # every other type suffices wherever GPUs do
    numa_ids: int = 0  # NUMA ids, as bits, of devices that are none of the types here


class NodeAccelerators(NamedTuple):
    """What a node's labels say."""

    vendor: str = ""
    model: str = ""
    isolation_provider: str = ""
    honor: bool = False


class HeldDevice(NamedTuple):
    """What a pod has of one device."""

    type: DeviceType
    minor: int
    amounts: Mapping[DeviceResource, int]
    vfs: Sequence[str] = ()  # bus ids


class Allocated(NamedTuple):
    """What a pod is given of one device."""

    type: DeviceType
    minor: int
    amounts: dict[DeviceResource, int]
    vf: tuple[str, int] | None = None  # bus id, minor
    template: str = ""


class DeviceCell(NamedTuple):
    """What a table holds of one device."""

    type: DeviceType
    minor: int
    listed: bool
    healthy: bool
    totals: dict[DeviceResource, int]
    used: dict[DeviceResource, int]
    free: dict[DeviceResource, int]
    vfs_used: tuple[str, ...] = ()


class DeviceCensus(NamedTuple):
    """How many devices of one type there are on all nodes, by their state; each listed one is counted once."""

    type: DeviceType
    free: int  # nothing of it is held
    shared: int  # something of it is held, and something is free
    full: int  # nothing of it is free
    unhealthy: int


class TypeDemand(msgspec.Struct, frozen=True):
    """What a pod asks of the devices of one type."""

    amounts: Mapping[DeviceResource, int]  # of each device
    count: int = 1
    apply_for_all: bool = False  # one of each device that there is, instead of `count`
    selector: LabelPredicate | None = None
    vf_selector: LabelPredicate | None = None  # a virtual function of a group with such labels comes with each device


class PartitionDemand(NamedTuple):
    """A pod whose GPUs must form a partition."""

    restricted: bool = False  # only one of the first group
    bandwidth: int | None = None


if TYPE_CHECKING:
    from collections.abc import Callable

    LabelPredicate = Callable[[Mapping[str, str]], bool]
