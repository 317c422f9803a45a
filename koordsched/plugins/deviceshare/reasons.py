"""What the codes of the allocator mean, as refusals of Filter and Reserve (deviceshare.md §5, §6).

Texts about what a pod asks for are in `pod_demand`, those about templates and vendors' device plugins in `templates`, `adaptation`
and `node_locks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.device_facts import DEVICE_TYPE_NAMES, DeviceReason, detail_of, reason_of
from koordsched.framework.status import Status, error, unresolvable, unschedulable
from koordsched.plugins.deviceshare.templates import NO_TEMPLATE

if TYPE_CHECKING:
    from koordsched._core.device_table import DeviceTable

INSUFFICIENT_DEVICES = "Insufficient {type} devices"
INSUFFICIENT_VFS = "Insufficient {type} VirtualFunctions"
SHARE_UNSUPPORTED = 'model "{model}" of vendor "{vendor}" does not support GPU Share'
NO_HEALTHY_GPU = "fillGPUTotalMem failed: no healthy gpu device with minor {minor} of allocation"
UNSEEN_DEVICE = "the node's Device is not known yet"
OF_RESERVATION = 1 << 5
"""Set in codes of what a reservation lacks; below where their detail begins, above all reasons."""
NO_NUMA_OF_DESIGNATED = unschedulable("Designated Allocation Lack NUMA Node ID")

FIXED = {
    DeviceReason.NO_ISOLATION_PROVIDER: unresolvable("GPUIsolationProviderHAMICore not found on the node"),
    DeviceReason.NO_TEMPLATE: NO_TEMPLATE,
    DeviceReason.NO_PARTITION_TABLE: unresolvable("node(s) missing GPU Partition Table"),
    DeviceReason.UNSUPPORTED_COUNT: unresolvable("node(s) Unsupported number of GPU requests"),
    DeviceReason.INSUFFICIENT_PARTITIONED: unschedulable("Insufficient Partitioned GPU Devices"),
    DeviceReason.NO_TOPOLOGY: unresolvable("node(s) missing GPU Device Topology Tree"),
    DeviceReason.MULTI_SHARED: unresolvable("node(s) Unsupported Multi-Shared GPU"),
    DeviceReason.INSUFFICIENT_SCOPED: unschedulable("Insufficient Topology Scoped GPU Devices"),
    DeviceReason.INSUFFICIENT_GPUS: unschedulable("Insufficient GPU Devices"),
    DeviceReason.NO_PRIMARY: unschedulable("node(s) Insufficient primary device"),
    DeviceReason.JOINT_VIOLATION: unschedulable("node(s) Device Joint-Allocate rules violation"),
    DeviceReason.INSUFFICIENT_NUMA: unresolvable("Insufficient NUMA Scoped Devices"),
    DeviceReason.NOT_INCLUDED: unschedulable("Insufficient GPU Devices"),
}


def explain(code: int, table: DeviceTable, reserving: str = "") -> Status:
    """Return the refusal that a code of the allocator stands for. reserving: the name of the node that was chosen, in Reserve.

    That a designated GPU is not there, or not healthy, is an error in Reserve alone: as an answer of Filter, it would end the cycle for all
    nodes, as it does in the reference.
    """
    if code & OF_RESERVATION:
        return unschedulable(*[f"Reservation(s) {text}" for text in explain(code & ~OF_RESERVATION, table, reserving).reasons])
    reason, detail = reason_of(code), detail_of(code)
    match reason:
        case DeviceReason.NO_DEVICES:
            return unresolvable(INSUFFICIENT_DEVICES.format(type=DEVICE_TYPE_NAMES[detail]))
        case DeviceReason.INSUFFICIENT:
            return unschedulable(INSUFFICIENT_DEVICES.format(type=DEVICE_TYPE_NAMES[detail]))
        case DeviceReason.NO_VFS:
            return unresolvable(INSUFFICIENT_VFS.format(type=DEVICE_TYPE_NAMES[detail]))
        case DeviceReason.SHARE_UNSUPPORTED:
            vendor, model = table.model(detail)
            return unresolvable(SHARE_UNSUPPORTED.format(model=model, vendor=vendor))
        case DeviceReason.NO_HEALTHY_GPU:
            text = NO_HEALTHY_GPU.format(minor=detail)
            return error(f"{text}, node: {reserving}") if reserving else unresolvable(text)
    return FIXED[reason]
