"""What a pod asks of devices, under the names that allocation knows (deviceshare.md §1, §4).

Vendors and ways of sharing have resource names of their own. For each device type the exact set of names that a pod requests decides what
it means; `device_requests` checks the set and returns the amounts under the names that allocation uses. Amounts are whole units: percent of
a device, bytes of memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.quantity import NANO_PER_UNIT, quantity_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koordsched.api.quantity import QuantityFormat

    Amounts = Mapping[str, int]
    """By resource."""

GPU, RDMA, FPGA = "gpu", "rdma", "fpga"  # device types; every accelerator but FPGAs is a gpu

NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
HYGON_DCU = "dcu.com/gpu"
KOORDINATOR_GPU = "koordinator.sh/gpu"  # percent of a GPU and its memory
GPU_SHARED = "koordinator.sh/gpu.shared"  # how many GPUs the amounts are spread over
GPU_CORE = "koordinator.sh/gpu-core"
GPU_MEMORY = "koordinator.sh/gpu-memory"
GPU_MEMORY_RATIO = "koordinator.sh/gpu-memory-ratio"
NPU_CORE = "huawei.com/npu-core"
NPU_CPU = "huawei.com/npu-cpu"
NPU_DVPP = "huawei.com/npu-dvpp"
RDMA_SHARE = "koordinator.sh/rdma"
FPGA_SHARE = "koordinator.sh/fpga"

RESOURCES_OF_TYPES = {
    GPU: (
        NVIDIA_GPU,
        AMD_GPU,
        HYGON_DCU,
        KOORDINATOR_GPU,
        GPU_SHARED,
        GPU_CORE,
        GPU_MEMORY,
        GPU_MEMORY_RATIO,
        NPU_CORE,
        NPU_CPU,
        NPU_DVPP,
    ),
    RDMA: (RDMA_SHARE,),
    FPGA: (FPGA_SHARE,),
}
"""By device type, the resources that pods request of it, in the order in which types are looked at."""
REQUESTED_RESOURCES = frozenset(name for names in RESOURCES_OF_TYPES.values() for name in names)

WHOLE = 100
"""Percent: one device."""

WHOLE_GPUS = (NVIDIA_GPU, AMD_GPU, HYGON_DCU)
PERCENTAGES = frozenset({KOORDINATOR_GPU, RDMA_SHARE, FPGA_SHARE})
"""Requests for these are a share of one device, or whole devices."""
PER_GPU = (GPU_CORE, NPU_CORE, NPU_CPU, NPU_DVPP)


class InvalidDeviceRequest(ValueError):
    """A pod requests devices in a way that means nothing. The text is the reference's."""


class GpuDemand(msgspec.Struct, frozen=True):
    """So many GPUs, and what is requested of each. shared: a part of a GPU, so that others may have the rest."""

    count: int
    amounts: dict[str, int]
    shared: bool


def device_requests(requests: Amounts, written: Callable[[str], QuantityFormat]) -> dict[str, dict[str, int]]:
    """Return a pod's amounts by device type and resource; {} without devices. InvalidDeviceRequest: names or amounts mean nothing.

    written: how the pod writes its request of a resource, for the texts.
    """
    found = {}
    for device_type, names in RESOURCES_OF_TYPES.items():
        asked = {name: requests[name] for name in names if requests.get(name)}
        if asked:
            found[device_type] = _normalised(asked, written)
    return found


def gpu_demand(amounts: Amounts) -> GpuDemand:
    """Return how many GPUs a request is for, and its share of each, rounded down. amounts: as `device_requests` returns them."""
    ratio, memory, count = amounts.get(GPU_MEMORY_RATIO, 0), amounts.get(GPU_MEMORY, 0), 1
    if amounts.get(GPU_SHARED):
        count = amounts[GPU_SHARED]
    elif ratio > WHOLE and ratio % WHOLE == 0:
        count = ratio // WHOLE
    each = {name: amounts[name] // count for name in PER_GPU if name in amounts}
    if ratio:
        each[GPU_MEMORY_RATIO] = ratio // count
        return GpuDemand(count, each, shared=ratio // count < WHOLE)
    if memory:
        each[GPU_MEMORY] = memory // count
    return GpuDemand(count, each, shared=bool(memory))


def _normalised(asked: dict[str, int], written: Callable[[str], QuantityFormat]) -> dict[str, int]:
    for name in sorted(PERCENTAGES & asked.keys()):
        if not _is_share_or_whole(asked[name]):
            raise InvalidDeviceRequest(f"invalid resource unit {name}: {quantity_text(asked[name] * NANO_PER_UNIT, written(name))}")
    check = _KNOWN_SETS.get(frozenset(asked))
    if check is None or not check(asked):
        raise InvalidDeviceRequest(f"invalid resource device requests: [{' '.join(sorted(asked))}]")
    for name in WHOLE_GPUS:
        if name in asked:
            return {GPU_CORE: asked[name] * WHOLE, GPU_MEMORY_RATIO: asked[name] * WHOLE}
    if KOORDINATOR_GPU in asked:
        return {GPU_CORE: asked[KOORDINATOR_GPU], GPU_MEMORY_RATIO: asked[KOORDINATOR_GPU]}
    return asked


def _is_share_or_whole(amount: int) -> bool:
    return amount <= WHOLE or amount % WHOLE == 0


def _anything(_asked: Amounts) -> bool:
    return True


def _shares_or_whole(asked: Amounts) -> bool:
    return all(_is_share_or_whole(asked.get(name, 0)) for name in (GPU_CORE, GPU_MEMORY_RATIO))


def _spread_evenly(asked: Amounts) -> bool:
    """Answer whether percentages come to whole ones, of at most one GPU each."""
    count = asked[GPU_SHARED]
    return all(asked.get(name, 0) % count == 0 and asked.get(name, 0) // count <= WHOLE for name in (GPU_CORE, GPU_MEMORY_RATIO))


def _one_virtual_npu(asked: Amounts) -> bool:
    return asked[GPU_SHARED] <= 1 and asked.get(NPU_DVPP, 0) <= WHOLE


_KNOWN_SETS: dict[frozenset[str], Callable[[Amounts], bool]] = {
    **{frozenset({name}): _anything for name in (*WHOLE_GPUS, KOORDINATOR_GPU, RDMA_SHARE, FPGA_SHARE)},
    frozenset({GPU_MEMORY}): _shares_or_whole,
    frozenset({GPU_MEMORY_RATIO}): _shares_or_whole,
    frozenset({GPU_CORE, GPU_MEMORY}): _shares_or_whole,
    frozenset({GPU_CORE, GPU_MEMORY_RATIO}): _shares_or_whole,
    frozenset({NPU_CORE, GPU_MEMORY_RATIO}): _shares_or_whole,
    frozenset({GPU_SHARED, GPU_MEMORY}): _spread_evenly,
    frozenset({GPU_SHARED, GPU_MEMORY_RATIO}): _spread_evenly,
    frozenset({GPU_SHARED, GPU_CORE, GPU_MEMORY}): _spread_evenly,
    frozenset({GPU_SHARED, GPU_CORE, GPU_MEMORY_RATIO}): _spread_evenly,
    frozenset({GPU_SHARED, NPU_CORE, NPU_CPU, GPU_MEMORY}): _one_virtual_npu,
    frozenset({GPU_SHARED, NPU_CORE, NPU_CPU, NPU_DVPP, GPU_MEMORY}): _one_virtual_npu,
}
"""Every set of names that means something, and what must be true of the amounts."""
