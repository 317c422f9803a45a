"""Read what scheduling allocated to a pod beyond a node: its CPUs, NUMA nodes and devices, from the annotations it wrote.

nodenumaresource.md §1-2 (resource-status, cpu-topology) and deviceshare.md §2 (device-allocated). An annotation that cannot be read
counts as nothing allocated, so an expectation about it fails and shows it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from koordsched._core.cpulist import parse_cpus
from koordsched.api.meta import JSON_ERRORS
from koordsched.api.quantity import QuantityError, value

RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"
CPU_TOPOLOGY = "node.koordinator.sh/cpu-topology"

WHOLE = 100
SHARE_RESOURCES = frozenset(
    {
        "koordinator.sh/gpu-core",
        "koordinator.sh/gpu-memory-ratio",
        "koordinator.sh/rdma",
        "koordinator.sh/fpga",
        "huawei.com/npu-core",
    }
)
"""Resources of a device whose amount is a percentage of it."""

Json = dict[str, Any]
Core = tuple[int, int]  # socket, core: core ids may repeat per socket


class Cpu(msgspec.Struct, frozen=True):
    """Where a CPU sits."""

    core: Core
    numa: int


def cpus_of(pod: Json) -> int:
    """Return the set of CPUs that the pod holds, bit i being CPU i."""
    text = _annotation(pod, RESOURCE_STATUS).get("cpuset")
    try:
        return parse_cpus(text) if isinstance(text, str) else 0
    except ValueError:
        return 0


def numa_nodes_of(pod: Json) -> frozenset[int]:
    """Return the NUMA nodes that the pod's resources were taken from."""
    nodes = _annotation(pod, RESOURCE_STATUS).get("numaNodeResources")
    return frozenset(_int(item.get("node")) for item in _maps(nodes))


def whole_devices_of(pod: Json) -> frozenset[tuple[str, int]]:
    """Return type and minor of each device that the pod holds to 100 %."""
    return frozenset(
        (device_type, _int(entry.get("minor")))
        for device_type, entries in _annotation(pod, DEVICE_ALLOCATED).items()
        for entry in _maps(entries)
        if _is_whole(entry.get("resources") or {})
    )


def cpu_topology(resource_topology: Json | None) -> dict[int, Cpu]:
    """Return where each CPU of a node sits, from its NodeResourceTopology; empty when it says nothing."""
    detail = _annotation(resource_topology or {}, CPU_TOPOLOGY).get("detail")
    return {_int(item.get("id")): Cpu((_int(item.get("socket")), _int(item.get("core"))), _int(item.get("node"))) for item in _maps(detail)}


def _is_whole(resources: Json) -> bool:
    return any(name in SHARE_RESOURCES and _amount(amount) == WHOLE for name, amount in resources.items())


def _maps(items: Any) -> list[Json]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _int(found: Any) -> int:
    """Return the number, 0 when it is absent (as Go's omitempty writes it) or none."""
    return found if isinstance(found, int) else 0


def _amount(amount: Any) -> int:
    try:
        return value(amount)
    except QuantityError:
        return 0


def _annotation(body: Json, key: str) -> Json:
    text = (body.get("metadata", {}).get("annotations") or {}).get(key)
    try:
        read = msgspec.json.decode(text) if isinstance(text, str) else {}
    except JSON_ERRORS:
        read = {}
    return read if isinstance(read, dict) else {}
