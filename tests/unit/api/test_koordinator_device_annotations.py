"""Annotations about devices, read and written (deviceshare.md §2, §15)."""

from __future__ import annotations

import pytest

from koordsched.api.koordinator.device_annotations import (
    DEVICE_ALLOCATE_HINT,
    DEVICE_ALLOCATED,
    DEVICE_JOINT_ALLOCATE,
    GPU_PARTITION_SPEC,
    GPU_PARTITIONS,
    AllocatedDevice,
    AllocatedVirtualFunction,
    DeviceHint,
    GpuPartition,
    GpuPartitionSpec,
    JointAllocation,
    device_allocations,
    device_allocations_text,
    device_hints,
    gpu_partition_spec,
    gpu_partitions,
    has_null_devices,
    joint_allocation,
)
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.meta import LabelSelector

WRITTEN = (
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"8Gi","koordinator.sh/gpu-memory-ratio":"50"},'
    '"id":"GPU-1","extension":{"gpuSharedResourceTemplate":"vir02"}}],'
    '"rdma":[{"minor":3,"resources":{"koordinator.sh/rdma":"1"},"extension":{"vfs":[{"minor":2,"busID":"0000:3b:00.2"},{"busID":"0000:3b:00.3"}]}}]}'
)
READ = {
    "gpu": (
        AllocatedDevice(
            0,
            {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory": 8 << 30, "koordinator.sh/gpu-memory-ratio": 50},
            "GPU-1",
            template="vir02",
        ),
    ),
    "rdma": (
        AllocatedDevice(
            3,
            {"koordinator.sh/rdma": 1},
            vfs=(AllocatedVirtualFunction(2, "0000:3b:00.2"), AllocatedVirtualFunction(0, "0000:3b:00.3")),
        ),
    ),
}


def test_what_was_written_is_read_back() -> None:
    assert device_allocations({DEVICE_ALLOCATED: WRITTEN}) == READ
    assert device_allocations_text(dict(reversed(READ.items()))) == WRITTEN


def test_no_annotation_is_no_allocation() -> None:
    assert device_allocations({}) is None
    assert device_allocations({DEVICE_ALLOCATED: "null"}) is None
    assert device_allocations({DEVICE_ALLOCATED: "{}"}) == {}


def test_devices_that_are_null_are_left_out() -> None:
    text = '{"gpu":[null,{"minor":1,"resources":{"koordinator.sh/gpu-core":10,"koordinator.sh/gpu-memory":null}}],"rdma":null}'
    assert device_allocations({DEVICE_ALLOCATED: text}) == {"gpu": (AllocatedDevice(1, {"koordinator.sh/gpu-core": 10}),)}
    assert has_null_devices(text)
    assert not has_null_devices('{"gpu":[{"minor":1,"id":null}]}')
    assert not has_null_devices("null")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"gpu":[{"minor":"0"}]}',
        '{"gpu":[{"minor":3000000000}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"many"}}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"-5"}}]}',
    ],
)
def test_an_allocation_that_cannot_be_read_is_malformed(text: str) -> None:
    with pytest.raises(Malformed, match="device-allocated"):
        device_allocations({DEVICE_ALLOCATED: text})


def test_hints_are_by_device_type() -> None:
    text = (
        '{"rdma":{"vfSelector":{},"allocateStrategy":"ApplyForAll","exclusivePolicy":"DeviceLevel"},'
        '"gpu":{"selector":{"matchLabels":{"a":"b"}},"vfSelector":null,"requiredTopologyScope":"PCIe"},"fpga":null}'
    )
    assert device_hints({DEVICE_ALLOCATE_HINT: text}) == {
        "rdma": DeviceHint(vf_selector=LabelSelector(), allocate_strategy="ApplyForAll", exclusive_policy="DeviceLevel"),
        "gpu": DeviceHint(selector=LabelSelector({"a": "b"}), required_topology_scope="PCIe"),
    }
    assert device_hints({}) == {}
    assert device_hints({DEVICE_ALLOCATE_HINT: "null"}) == {}
    with pytest.raises(Malformed):
        device_hints({DEVICE_ALLOCATE_HINT: '{"gpu":[]}'})


def test_a_joint_allocation_lists_types_in_order() -> None:
    text = '{"deviceTypes":["rdma","gpu"],"requiredScope":"SamePCIe"}'
    assert joint_allocation({DEVICE_JOINT_ALLOCATE: text}) == JointAllocation(("rdma", "gpu"), "SamePCIe")
    assert joint_allocation({}) is None
    assert joint_allocation({DEVICE_JOINT_ALLOCATE: "{}"}) == JointAllocation()


def test_a_partition_spec_may_be_empty() -> None:
    assert gpu_partition_spec({}) is None
    assert gpu_partition_spec({GPU_PARTITION_SPEC: "{}"}) == GpuPartitionSpec()
    assert gpu_partition_spec({GPU_PARTITION_SPEC: "null"}) == GpuPartitionSpec()
    text = '{"allocatePolicy":"Restricted","ringBusBandwidth":"200Gi"}'
    assert gpu_partition_spec({GPU_PARTITION_SPEC: text}) == GpuPartitionSpec(restricted=True, ring_bus_bandwidth=200 << 30)
    with pytest.raises(Malformed):
        gpu_partition_spec({GPU_PARTITION_SPEC: '{"ringBusBandwidth":"fast"}'})


def test_partitions_are_read_by_their_number_of_gpus() -> None:
    text = (
        '{"2":[{"minors":[1,0],"gpuLinkType":"NVLink","ringBusBandwidth":"100Gi","allocationScore":2},{"minors":[64,70]}],'
        '"1":[{"minors":[0]}],"8":[]}'
    )
    assert gpu_partitions({GPU_PARTITIONS: text}) == {
        2: (GpuPartition(frozenset({0, 1}), 2, 100 << 30), GpuPartition(frozenset({64, 70}))),
        1: (GpuPartition(frozenset({0})),),
        8: (),
    }
    assert gpu_partitions({}) is None
    assert gpu_partitions({GPU_PARTITIONS: ""}) is None


@pytest.mark.parametrize("text", ["null", "[1]", '{"two":[]}', '{"2":[{"minors":["0"]}]}', "{"])
def test_partitions_that_cannot_be_read_are_malformed(text: str) -> None:
    with pytest.raises(Malformed, match="gpu-partitions"):
        gpu_partitions({GPU_PARTITIONS: text})
