"""The NUMA nodes that a pod's devices could come from, for the topology manager's questions about a single node (deviceshare.md §9).

For all rows at once kernels ask `DeviceHints` without this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.numa_facts import Hint
from koordsched.plugins.deviceshare.node_devices import MAX_NUMA_ID
from koordsched.plugins.deviceshare.reasons import NO_NUMA_OF_DESIGNATED, explain

if TYPE_CHECKING:
    from koordsched._core.device_hints import DeviceHints
    from koordsched._core.device_table import DeviceTable
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.koordinator.devices import Device
    from koordsched.framework.status import Status

DESIGNATED_SCORE = 500
"""More than any score of CPUs and memory, so that devices decide; DeviceHints gives it to sets with the GPUs of all NUMA nodes together."""

Hints = dict[str, list[Hint]]
"""By device type."""


def hints_of_row(source: DeviceHints, table: DeviceTable, row: int) -> Hints | Status:
    """Return the hints by device type, or why the node has none; {}: any NUMA nodes would do. The smallest sets are preferred."""
    answer = source.answer(row)
    if answer.code:
        return explain(answer.code, table)
    narrowest = min((mask.bit_count() for mask, _ in answer.hints), default=0)
    hints = [Hint(mask, score, mask.bit_count() == narrowest) for mask, score in answer.hints]
    return dict.fromkeys(sorted(answer.named), hints)


def designated_hints(designated: DeviceAllocations, device: Device | None) -> Hints | Status:
    """Return one hint for each type, the NUMA nodes of all designated devices; a refusal where one of them has none that is known."""
    numa_of = {
        (info.type, info.minor): info.topology.node_id
        for info in (() if device is None else device.spec.devices)
        if info.topology is not None and 0 <= info.topology.node_id <= MAX_NUMA_ID
    }
    mask = 0
    for device_type, devices in designated.items():
        for allocated in devices:
            numa = numa_of.get((device_type, allocated.minor))
            if numa is None:
                return NO_NUMA_OF_DESIGNATED
            mask |= 1 << numa
    return {device_type: [Hint(mask, DESIGNATED_SCORE, True)] for device_type in designated}
