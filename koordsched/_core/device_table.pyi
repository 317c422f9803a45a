from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from koordsched._core.device_facts import DeviceCell, DeviceCensus, HeldDevice, NodeAccelerators, NodeDevices
from koordsched._core.table import NodeTable

MAX_DEVICES: int
"""Devices of one type that a node can have."""
MAX_AMOUNT: int
"""2^48: amounts are cut to it."""

@final
class DeviceTable:
    """The devices of all nodes, by index: ids of the node table's attribute column `index_attribute`, from 1 on.

    It marks no rows of the node table: whoever writes does.
    """

    def __init__(self, nodes: NodeTable, index_attribute: int) -> None: ...
    @property
    def nodes(self) -> NodeTable: ...
    @property
    def index_attribute(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    def clear_node(self, index: int) -> None:
        """Forget all of an index, what pods hold included, making room for it if need be."""

    def set_devices(self, index: int, devices: NodeDevices) -> None:
        """Take over what a Device object says; what pods hold stays.

        ValueError, and nothing is changed, for more than MAX_DEVICES of a type (with those that pods hold), for minors and for NUMA nodes
        that cannot be. Of devices with the same minor the last one counts.
        """

    def set_accelerators(self, index: int, accelerators: NodeAccelerators) -> None:
        """Take over what a node's labels say."""

    def add(self, index: int, held: Sequence[HeldDevice]) -> None:
        """Count what a pod holds. O(devices held), more where one of them is not listed. IndexError for an index never cleared."""

    def remove(self, index: int, held: Sequence[HeldDevice]) -> None:
        """Take back what `add` counted, given the same. ValueError for a device of which nothing is held."""

    def set_holders(self, index: int, pods: int) -> None:
        """Note how many pods hold devices of the node; 0 after `clear_node`."""

    def holding(self, rows: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return 1 for rows of nodes where pods hold devices. TypeError for rows that are not int32. Unchecked: rows there are."""

    def has_entry(self, index: int) -> bool:
        """Answer whether a Device object was seen or pods hold devices."""

    def model(self, model: int) -> tuple[str, str]:
        """Return the vendor and model that a code of SHARE_UNSUPPORTED names."""

    def summary(self, index: int) -> tuple[DeviceCell, ...]:
        """Return all devices, by type and minor."""

    def census(self) -> tuple[DeviceCensus, ...]:
        """Count the devices of all nodes, one entry a type. O(indexes)."""

    def damage(self, index: int, device_type: int, minor: int, resource: int, by: int) -> None:
        """Add to what is used of a device, for tests of the standing check."""

    @property
    def nbytes(self) -> int: ...
