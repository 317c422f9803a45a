"""What requests for devices mean, and which mean nothing (deviceshare.md §4)."""

from __future__ import annotations

import pytest

from koordsched.api.koordinator.device_requests import (
    FPGA_SHARE,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    KOORDINATOR_GPU,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    RDMA_SHARE,
    GpuDemand,
    InvalidDeviceRequest,
    device_requests,
    gpu_demand,
)
from koordsched.api.quantity import QuantityFormat

GIB = 1 << 30


def requests(**amounts: int) -> dict[str, dict[str, int]]:
    return device_requests(amounts, lambda _name: QuantityFormat.DECIMAL_SI)


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"])
def test_a_vendors_gpus_are_whole_ones(name: str) -> None:
    assert requests(**{name: 2, "cpu": 1000}) == {"gpu": {GPU_CORE: 200, GPU_MEMORY_RATIO: 200}}


def test_a_percentage_of_a_gpu_is_of_its_cores_and_its_memory() -> None:
    assert requests(**{KOORDINATOR_GPU: 50}) == {"gpu": {GPU_CORE: 50, GPU_MEMORY_RATIO: 50}}


def test_each_device_type_is_looked_at_by_itself() -> None:
    found = requests(**{KOORDINATOR_GPU: 100, RDMA_SHARE: 200, FPGA_SHARE: 300})
    assert found == {"gpu": {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}, "rdma": {RDMA_SHARE: 200}, "fpga": {FPGA_SHARE: 300}}


def test_a_pod_without_devices_requests_none() -> None:
    assert requests(cpu=4000, **{RDMA_SHARE: 0}) == {}


@pytest.mark.parametrize(
    "amounts",
    [
        {GPU_MEMORY: 8 * GIB},
        {GPU_MEMORY_RATIO: 200},
        {GPU_CORE: 50, GPU_MEMORY: 8 * GIB},
        {GPU_CORE: 300, GPU_MEMORY_RATIO: 50},
        {NPU_CORE: 4, GPU_MEMORY_RATIO: 100},
        {GPU_SHARED: 2, GPU_MEMORY: 8 * GIB},
        {GPU_SHARED: 3, GPU_MEMORY_RATIO: 240},
        {GPU_SHARED: 2, GPU_CORE: 100, GPU_MEMORY: 3},
        {GPU_SHARED: 2, GPU_CORE: 100, GPU_MEMORY_RATIO: 200},
        {GPU_SHARED: 1, NPU_CORE: 2, NPU_CPU: 1, GPU_MEMORY: 3 * GIB},
        {GPU_SHARED: 1, NPU_CORE: 2, NPU_CPU: 1, NPU_DVPP: 100, GPU_MEMORY: 3 * GIB},
    ],
)
def test_sets_of_names_that_mean_something_keep_their_amounts(amounts: dict[str, int]) -> None:
    assert requests(**amounts) == {"gpu": amounts}


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ({KOORDINATOR_GPU: 250}, "invalid resource unit koordinator.sh/gpu: 250"),
        ({RDMA_SHARE: 101}, "invalid resource unit koordinator.sh/rdma: 101"),
        ({FPGA_SHARE: 150}, "invalid resource unit koordinator.sh/fpga: 150"),
        ({GPU_CORE: 50}, "[koordinator.sh/gpu-core]"),
        ({NPU_CORE: 5}, "[huawei.com/npu-core]"),
        (
            {GPU_MEMORY: 1, GPU_MEMORY_RATIO: 50},
            "[koordinator.sh/gpu-memory koordinator.sh/gpu-memory-ratio]",
        ),
        ({"nvidia.com/gpu": 1, GPU_CORE: 100}, "[koordinator.sh/gpu-core nvidia.com/gpu]"),
        (
            {GPU_CORE: 50, GPU_MEMORY_RATIO: 150},
            "[koordinator.sh/gpu-core koordinator.sh/gpu-memory-ratio]",
        ),
        ({GPU_CORE: 150, GPU_MEMORY: 1}, "[koordinator.sh/gpu-core koordinator.sh/gpu-memory]"),
        (
            {GPU_SHARED: 3, GPU_MEMORY_RATIO: 100},
            "[koordinator.sh/gpu-memory-ratio koordinator.sh/gpu.shared]",
        ),
        (
            {GPU_SHARED: 2, GPU_MEMORY_RATIO: 202},
            "[koordinator.sh/gpu-memory-ratio koordinator.sh/gpu.shared]",
        ),
        ({GPU_SHARED: 1}, "[koordinator.sh/gpu.shared]"),
        (
            {GPU_SHARED: 2, NPU_CORE: 2, NPU_CPU: 1, GPU_MEMORY: 1},
            "[huawei.com/npu-core huawei.com/npu-cpu koordinator.sh/gpu-memory koordinator.sh/gpu.shared]",
        ),
        (
            {GPU_SHARED: 1, NPU_CORE: 2, NPU_CPU: 1, NPU_DVPP: 150, GPU_MEMORY: 1},
            "[huawei.com/npu-core huawei.com/npu-cpu huawei.com/npu-dvpp koordinator.sh/gpu-memory koordinator.sh/gpu.shared]",
        ),
    ],
)
def test_what_means_nothing_is_refused_in_the_references_words(amounts: dict[str, int], text: str) -> None:
    with pytest.raises(InvalidDeviceRequest) as refused:
        requests(**amounts)
    assert str(refused.value) == (f"invalid resource device requests: {text}" if text.startswith("[") else text)


def test_an_invalid_unit_is_written_as_the_pod_writes_it() -> None:
    with pytest.raises(InvalidDeviceRequest, match=r"^invalid resource unit koordinator.sh/gpu: 1Ki$"):
        device_requests({KOORDINATOR_GPU: 1024}, lambda _name: QuantityFormat.BINARY_SI)


@pytest.mark.parametrize(
    ("amounts", "demand"),
    [
        ({GPU_CORE: 200, GPU_MEMORY_RATIO: 200}, GpuDemand(2, {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}, shared=False)),
        ({GPU_CORE: 50, GPU_MEMORY_RATIO: 50}, GpuDemand(1, {GPU_CORE: 50, GPU_MEMORY_RATIO: 50}, shared=True)),
        # The cores never say how many GPUs it is: 300 of them are 300 of one.
        ({GPU_CORE: 300, GPU_MEMORY_RATIO: 100}, GpuDemand(1, {GPU_CORE: 300, GPU_MEMORY_RATIO: 100}, shared=False)),
        # Whoever asks by bytes shares, though it be all of them.
        ({GPU_CORE: 100, GPU_MEMORY: 80 * GIB}, GpuDemand(1, {GPU_CORE: 100, GPU_MEMORY: 80 * GIB}, shared=True)),
        ({GPU_SHARED: 3, GPU_MEMORY_RATIO: 240}, GpuDemand(3, {GPU_MEMORY_RATIO: 80}, shared=True)),
        ({GPU_SHARED: 2, GPU_MEMORY_RATIO: 200}, GpuDemand(2, {GPU_MEMORY_RATIO: 100}, shared=False)),
        ({GPU_SHARED: 2, GPU_MEMORY: 3}, GpuDemand(2, {GPU_MEMORY: 1}, shared=True)),
        (
            {GPU_SHARED: 1, NPU_CORE: 2, NPU_CPU: 1, NPU_DVPP: 100, GPU_MEMORY: 6},
            GpuDemand(1, {NPU_CORE: 2, NPU_CPU: 1, NPU_DVPP: 100, GPU_MEMORY: 6}, shared=True),
        ),
    ],
)
def test_a_request_is_spread_over_gpus(amounts: dict[str, int], demand: GpuDemand) -> None:
    assert gpu_demand(amounts) == demand
