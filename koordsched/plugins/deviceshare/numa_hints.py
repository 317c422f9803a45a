"""Which NUMA nodes of one node a pod's devices could come from, for the topology manager (deviceshare.md §9).

Every set of the NUMA nodes that devices lie in is tried, the smallest first. A set that gives the same GPUs as all of them together counts
more.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from koordsched._core.device_allocation import allocate
from koordsched._core.device_facts import DEVICE_TYPE_NAMES, DeviceType
from koordsched._core.numa_facts import Hint
from koordsched.plugins.deviceshare.node_devices import MAX_NUMA_ID
from koordsched.plugins.deviceshare.reasons import NO_NUMA_OF_DESIGNATED, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koordsched._core.device_facts import Allocated
    from koordsched._core.device_table import DeviceTable
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.koordinator.devices import Device
    from koordsched.framework.status import Status
    from koordsched.plugins.deviceshare.pod_demand import DeviceDemand

SAME_GPUS_SCORE = 500
"""More than any score of CPUs and memory, so that devices decide."""
MANY_NUMA_NODES = 8
"""With more, single ones and all together are tried: not every set."""

Hints = dict[str, list[Hint]]


def device_hints_on(table: DeviceTable, demand: DeviceDemand, row: int, device: Device | None) -> Hints | Status:
    """Return the hints by device type; {}: any NUMA nodes would do. A Status is that of all NUMA nodes together."""
    ids = numa_ids(device)
    if not ids:
        return {}
    everything = _mask(ids)
    best = allocate(table, demand.request, row, adjustment=demand.adjustment, mask=everything)
    if isinstance(best, int):
        return explain(best, table)
    found: dict[int, Sequence[Allocated]] = {}
    for mask in _subsets(ids):
        result = best if mask == everything else allocate(table, demand.request, row, adjustment=demand.adjustment, mask=mask)
        if not isinstance(result, int):
            found[mask] = result
    narrowest = min(mask.bit_count() for mask in found)
    gpus = _gpus(best)
    hints = [Hint(mask, SAME_GPUS_SCORE if _gpus(result) == gpus else 0, mask.bit_count() == narrowest) for mask, result in found.items()]
    return {DEVICE_TYPE_NAMES[device_type]: hints for device_type in sorted({device.type for device in best})}


def designated_hints(designated: DeviceAllocations, device: Device | None) -> Hints | Status:
    """Return one hint for each type: the NUMA nodes of all designated devices."""
    numa_of = {
        (info.type, info.minor): info.topology.node_id
        for info in (() if device is None else device.spec.devices)
        if info.topology is not None and 0 <= info.topology.node_id <= MAX_NUMA_ID
    }
    ids = set()
    for device_type, devices in designated.items():
        for allocated in devices:
            numa = numa_of.get((device_type, allocated.minor))
            if numa is None:
                return NO_NUMA_OF_DESIGNATED
            ids.add(numa)
    return {device_type: [Hint(_mask(ids), SAME_GPUS_SCORE, True)] for device_type in designated}


def numa_ids(device: Device | None) -> list[int]:
    """Return the NUMA nodes that devices of any type lie in, ascending."""
    infos = () if device is None else device.spec.devices
    return sorted({info.topology.node_id for info in infos if info.topology is not None and 0 <= info.topology.node_id <= MAX_NUMA_ID})


def _mask(ids: Iterable[int]) -> int:
    return sum(1 << numa for numa in ids)


def _subsets(ids: Sequence[int]) -> Iterator[int]:
    """Yield all sets but the empty one as masks, by size and then in the order of their members."""
    sizes = range(1, len(ids) + 1) if len(ids) <= MANY_NUMA_NODES else (1, len(ids))
    for size in sizes:
        yield from map(_mask, combinations(ids, size))


def _gpus(allocated: Sequence[Allocated]) -> frozenset[int]:
    return frozenset(device.minor for device in allocated if device.type is DeviceType.GPU)
