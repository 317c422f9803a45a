"""Device: the GPUs, RDMA interfaces, FPGAs and other devices of one node, as koordlet finds them (deviceshare.md §2).

An object's name is its node's. `status.allocations` is neither read nor written by a scheduler, so it is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from koordsched.api.core import ResourceList
from koordsched.api.meta import Api, Int32, Object

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU_PARTITION_POLICY = "node.koordinator.sh/gpu-partition-policy"
"""Label of Devices and Nodes: with HONOR GPUs are given by partition only; with any other value partitions are preferred."""
HONOR = "Honor"
GPU_VENDOR = "node.koordinator.sh/gpu-vendor"
GPU_MODEL = "node.koordinator.sh/gpu-model"
"""Labels of Devices and Nodes: what their GPUs are."""
SECONDARY_DEVICE_WELL_PLANNED = "node.koordinator.sh/secondary-device-well-planned"
"""Label of Devices. "true": each GPU has an RDMA interface near it, so these are not looked at to choose a node; "false": it has not."""
GPU_ISOLATION_PROVIDER = "koordinator.sh/gpu-isolation-provider"
"""Label of pods and Nodes: what isolates pods that share a GPU, such as HAMi-core."""


class DeviceTopology(Api):
    """Where a device is in its machine."""

    socket_id: Int32 = field(name="socketID")
    node_id: Int32 = field(name="nodeID")
    pcie_id: str = field(name="pcieID")
    bus_id: str = field(default="", name="busID")


class VirtualFunction(Api):
    minor: Int32
    bus_id: str = field(default="", name="busID")


class VirtualFunctionGroup(Api):
    labels: dict[str, str] = field(default_factory=dict)
    vfs: tuple[VirtualFunction, ...] = ()


class DeviceCondition(Api):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class DeviceInfo(Api):
    """One device. `id` is its UUID, or the PCI address of an interface; `resources` is what the whole device offers."""

    type: str = ""
    id: str = ""
    minor: Int32 | None = None
    module_id: Int32 | None = field(default=None, name="moduleID")
    health: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    resources: ResourceList = field(default_factory=dict)
    topology: DeviceTopology | None = None
    vf_groups: tuple[VirtualFunctionGroup, ...] = ()
    conditions: tuple[DeviceCondition, ...] = ()


class DeviceSpec(Api, dict=True, gc=True):
    devices: tuple[DeviceInfo, ...] = ()

    @property
    def common(self) -> CommonDevices | None:
        """What it has in common with the Devices of other nodes, if it was made of that: all but the ids."""
        return self.__dict__.get("common")  # no field: neither read from JSON, nor written, nor kept where a changed copy is made


class CommonDevices:
    """Devices that several nodes have, but for their ids. Equal to itself alone, so that what is worked out of them is found by it."""

    __slots__ = ("devices",)

    def __init__(self, devices: tuple[DeviceInfo, ...]) -> None:
        self.devices = devices

    def spec_with(self, ids: Sequence[str]) -> DeviceSpec:
        """Return the devices with an id each."""
        spec = DeviceSpec(tuple([replace(info, id=own) for info, own in zip(self.devices, ids, strict=True)]))
        spec.__dict__["common"] = self
        return spec


class Device(Object):
    spec: DeviceSpec = DeviceSpec()
