"""Which CPUs and NUMA nodes the pods of a simulation hold: summed up for the JSON, one by one for the table.

Read from what the scheduler wrote on the pods (nodenumaresource.md §1) and from the nodes' NodeResourceTopologies. An annotation that
cannot be read counts as nothing, as it does for the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from koordsched._core.cpulist import format_cpus, mask_of
from koordsched.api.core import Pod
from koordsched.api.koordinator.pods import PodNumaStatus, resource_status
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.koordinator.topology import CPU_TOPOLOGY, cpu_details
from koordsched.api.meta import Unstructured
from koordsched.cluster.mirror import object_key
from koordsched.simulate.result import CpuSummary, NumaSummary

LAYOUTS = 64
"""Different cpu-topology texts that are kept: nodes of one hardware share one."""

Layout = Mapping[int, int]
"""The CPUs (a set, as an int) of each NUMA node."""


class PodCpus(msgspec.Struct, frozen=True):
    """What one pod holds, as texts: `cpus` is "" when only its NUMA nodes are recorded."""

    pod: str
    node: str
    cpus: str
    numa_nodes: str


class CpuUse(msgspec.Struct, frozen=True):
    """The sums, and every pod that holds CPUs or whose NUMA nodes are recorded, in the order of creation."""

    summary: CpuSummary
    pods: list[PodCpus]


def cpu_use(pods: Iterable[Pod], topologies: Iterable[Unstructured]) -> CpuUse | None:
    """Sum up what pods on nodes hold; None when no node has a topology."""
    layouts = {topology.metadata.name: _layout(topology) for topology in topologies}
    if not any(layouts.values()):
        return None
    total: dict[int, int] = {}
    for layout in layouts.values():
        for numa, cpus in layout.items():
            total[numa] = total.get(numa, 0) + cpus.bit_count()
    bound = dict.fromkeys(total, 0)
    holding, on_one, held = 0, 0, []
    for pod in pods:
        status = _status(pod)
        if status is None or not (status.cpus or status.amounts):
            continue
        layout = layouts.get(pod.spec.node_name, {})
        numa_nodes = {numa for numa, cpus in layout.items() if cpus & status.cpus} or set(status.amounts)
        held.append(PodCpus(object_key(pod), pod.spec.node_name, format_cpus(status.cpus), format_cpus(mask_of(numa_nodes))))
        if status.cpus:
            holding += 1
            on_one += len(numa_nodes) == 1
        for numa, cpus in layout.items():
            bound[numa] += (cpus & status.cpus).bit_count()
    numa_nodes_used = [NumaSummary(node=numa, cpus=total[numa], bound=bound[numa]) for numa in sorted(total)]
    summary = CpuSummary(
        total=sum(total.values()), bound=sum(bound.values()), pods=holding, pods_on_one_numa_node=on_one, numa_nodes=numa_nodes_used
    )
    return CpuUse(summary, held)


def _layout(topology: Unstructured) -> Layout:
    return _layout_of(topology.metadata.annotations.get(CPU_TOPOLOGY, ""))


@lru_cache(LAYOUTS)
def _layout_of(text: str) -> Layout:
    try:
        details = cpu_details(text) if text else ()
    except Malformed:
        return {}
    cpus: dict[int, list[int]] = {}
    for detail in details:
        if min(detail.id, detail.node) >= 0:
            cpus.setdefault(detail.node, []).append(detail.id)
    return {numa: mask_of(ids) for numa, ids in cpus.items()}


def _status(pod: Pod) -> PodNumaStatus | None:
    try:
        return resource_status(pod.metadata.annotations)
    except Malformed:
        return None
