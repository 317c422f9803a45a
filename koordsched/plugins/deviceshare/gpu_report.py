"""The report of `simulate` on GPUs: how much of them is allocated, and how much of the rest is of no use to pods like those on nodes.

A GPU's share is the larger one of what is allocated of its cores and of its memory. What cannot be used is the expected waste of the nodes
(`_core.fragmentation`) for the requests of the pods on nodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from koordsched._core.device_facts import DeviceResource, DeviceType
from koordsched._core.fragmentation import expected_waste
from koordsched.api.koordinator.device_annotations import device_allocations
from koordsched.api.koordinator.device_requests import GPU, GPU_CORE, GPU_MEMORY_RATIO, WHOLE
from koordsched.api.koordinator.reading import Malformed
from koordsched.framework.tooling import Figure, PluginReport, Section, SharedUnits, UnitsOnNodes, bar
from koordsched.plugins.deviceshare.fragmentation import AskedGpus, asked_gpus, mix_of
from koordsched.plugins.deviceshare.state import DeviceState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched._core.device_facts import DeviceCell
    from koordsched._core.fragmentation import RequestMix
    from koordsched.api.core import Pod
    from koordsched.api.meta import Object
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo

SHARE_DIGITS = 6
SHARED_RESOURCES = (DeviceResource.GPU_CORE, DeviceResource.GPU_MEMORY, DeviceResource.GPU_MEMORY_RATIO)


class GpuSummary(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The healthy GPUs of all nodes, or those of one model ("" where the Node does not say). idle: wholly free; partly: allocated in part.
    allocation, unusable: shares of all of them; the latter is free, and not expected to be of use. models: the same of each."""

    model: str = ""
    gpus: int
    idle: int
    partly: int
    allocation: float
    unusable: float
    models: list[GpuSummary] = []


class NodeGpus(msgspec.Struct, frozen=True):
    """The free shares of one node's healthy GPUs in percent, and what of them is not expected to be of use."""

    name: str
    model: str
    free: tuple[int, ...]
    unusable: float


def gpu_report(pods: Iterable[Pod], _devices: Iterable[Object], cache: Cache) -> PluginReport | None:
    """Return the report on the GPUs of a cluster; None without a healthy GPU. pods: those on nodes, which make the mix of requests."""
    state = cache.shared.find(DeviceState)
    if state is None:
        return None
    mix, found = _mix(pods, state), []
    for entry in state.entries.values():
        info = cache.nodes_by_name.get(entry.name)
        cells = state.table.summary(entry.index) if state.table.has_entry(entry.index) else ()
        free = tuple(_free_share(cell) for cell in cells if cell.type is DeviceType.GPU and cell.healthy)
        if free and info is not None and info.node is not None:
            found.append(NodeGpus(entry.name, entry.accelerators.model, free, _unusable(mix, info, free)))
    if not found:
        return None
    models = sorted({node.model for node in found})
    summary = _summary(found, "", [_summary([node for node in found if node.model == model], model) for model in models])
    figures = [
        Figure("GPUs allocated", summary.allocation, is_share=True),
        Figure("GPUs free, but unusable", summary.unusable, is_share=True),
        Figure("GPUs wholly free", summary.idle),
    ]
    return PluginReport(summary, lambda limit: gpu_sections(summary, found, limit), figures)


def gpus_on_nodes(pods: Iterable[Pod], cache: Cache) -> UnitsOnNodes | None:
    """Return the healthy GPUs of nodes, None without one. pods: make the mix of requests by which waste is measured."""
    state = cache.shared.find(DeviceState)
    if state is None:
        return None
    numbers = {}
    for entry in state.entries.values():
        cells = state.table.summary(entry.index) if state.table.has_entry(entry.index) else ()
        if minors := tuple(cell.minor for cell in cells if cell.type is DeviceType.GPU and cell.healthy):
            numbers[entry.name] = minors
    mix = _mix(pods, state)

    @lru_cache(maxsize=65536)  # nodes are often alike
    def waste(cpu: int, memory: int, free: tuple[int, ...]) -> float:
        return min(float(sum(free)), expected_waste(mix, cpu, memory, free))

    return UnitsOnNodes(numbers, waste) if numbers else None


def gpus_of(pod: Pod) -> Mapping[int, int]:
    """Return the percent that a pod has of each GPU, by minor: of its cores or of its memory, whichever is more."""
    try:
        given = (device_allocations(pod.metadata.annotations) or {}).get(GPU, ())
    except Malformed:
        return {}
    return {each.minor: max(each.resources.get(name, 0) for name in (GPU_CORE, GPU_MEMORY_RATIO)) for each in given}


SHARED_GPUS = SharedUnits("gpu", "GPU", gpus_on_nodes, gpus_of)


def _mix(pods: Iterable[Pod], state: DeviceState) -> RequestMix:
    requests: dict[AskedGpus, int] = {}
    for pod in pods:
        asked = asked_gpus(pod)
        if asked is not None:
            requests[asked] = requests.get(asked, 0) + 1
    return mix_of(requests, state.table)


def _free_share(cell: DeviceCell) -> int:
    shares = [cell.free.get(resource, 0) * WHOLE // cell.totals[resource] for resource in SHARED_RESOURCES if cell.totals.get(resource)]
    return min(shares, default=0)


def _unusable(mix: RequestMix, info: NodeInfo, free: Sequence[int]) -> float:
    left = [info.allocatable(resource) - info.requested(resource) for resource in ("cpu", "memory")]
    return min(float(sum(free)), expected_waste(mix, left[0], left[1], free))


def _summary(nodes: Sequence[NodeGpus], model: str = "", models: Sequence[GpuSummary] = ()) -> GpuSummary:
    free = [share for node in nodes for share in node.free]
    return GpuSummary(
        model=model,
        gpus=len(free),
        idle=sum(share == WHOLE for share in free),
        partly=sum(0 < share < WHOLE for share in free),
        allocation=round(1 - sum(free) / len(free) / WHOLE, SHARE_DIGITS),
        unusable=round(sum(node.unusable for node in nodes) / len(free) / WHOLE, SHARE_DIGITS),
        models=list(models),
    )


def gpu_sections(summary: GpuSummary, found: Sequence[NodeGpus], limit: int) -> Sequence[Section]:
    """Return the table of models, and that of the nodes whose free shares are of least use."""
    rows = [_cells(model.model or "-", model) for model in summary.models]
    if len(rows) > 1:
        rows.append(_cells("all", summary))
    notes = [
        "GPUs at the end: wholly free (idle), allocated in part (partly), and the share of all that is allocated.",
        "unusable: free, but of no use to pods like those on nodes, as a share of all; less of it is less fragmentation.",
    ]
    of_model = ("model", "GPUs", "idle", "partly", "allocated", "unusable", "allocated of all")
    made = [Section(title="GPUs", columns=of_model, align="<>>>>><", rows=rows, notes=notes)]
    worst = sorted((node for node in found if any(node.free)), key=lambda node: (-node.unusable, node.name))
    if limit and worst:
        of_nodes = [(node.name, node.model or "-", f"{node.unusable / WHOLE:.2f}", " ".join(map(str, node.free))) for node in worst[:limit]]
        more = len(worst) - limit
        notes = [f"{more} more nodes; --show-gpus N lists more."] if more > 0 else []
        columns = ("node", "model", "unusable GPUs", "percent free of each")
        made.append(Section(title="Free GPU shares of least use", columns=columns, align="<<><", rows=of_nodes, notes=notes))
    return made


def _cells(name: str, of: GpuSummary) -> tuple[str, ...]:
    return (
        name,
        str(of.gpus),
        str(of.idle),
        str(of.partly),
        f"{WHOLE * of.allocation:.1f} %",
        f"{WHOLE * of.unusable:.1f} %",
        bar(of.allocation),
    )
