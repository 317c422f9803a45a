"""From which NUMA nodes devices could come: deviceshare.md §9, and the examples of §17."""

from __future__ import annotations

import pytest
from support.device_tables import FPGA, GPU, RDMA, T8, DeviceNodes, fpga, gpu, gpus, named, nic, nic_demand, request

from koordsched._core.device_facts import DeviceResource, TypeDemand
from koordsched._core.device_hints import DeviceHints
from koordsched._core.device_request import DeviceRequest
from koordsched._core.numa_facts import HintAnswer

NONE = HintAnswer()


def hints(nodes: DeviceNodes, wanted: DeviceRequest) -> HintAnswer:
    return DeviceHints(nodes.table, wanted).answer(nodes.row)


def of(answer: HintAnswer) -> dict[int, int]:
    return dict(answer.hints)


def test_four_gpus_beside_a_used_one_come_from_the_second_numa_node_or_from_both() -> None:
    """§17 item 17. All NUMA nodes together give the second one's GPUs too."""
    nodes = DeviceNodes().describe((GPU, T8)).use(0)
    assert hints(nodes, gpus(4)) == HintAnswer(frozenset({"gpu"}), [(0b10, 500), (0b11, 500)])


def test_a_numa_node_whose_gpus_would_not_be_chosen_scores_nothing() -> None:
    nodes = DeviceNodes().describe((GPU, T8))
    assert of(hints(nodes, gpus())) == {0b01: 500, 0b10: 0, 0b11: 500}


def test_nics_alone_always_score_and_four_of_two_numa_nodes_need_both() -> None:
    """§17 item 18."""
    nodes = DeviceNodes().describe((RDMA, [nic(0, 0), nic(1, 0), nic(2, 1), nic(3, 1)]))
    assert hints(nodes, request({RDMA: nic_demand(4, percent=1)})) == HintAnswer(frozenset({"rdma"}), [(0b11, 500)])
    assert of(hints(nodes, request({RDMA: nic_demand()}))) == {0b01: 500, 0b10: 500, 0b11: 500}


def test_types_that_the_node_lacks_or_has_too_few_of_refuse_it_as_a_whole() -> None:
    nodes = DeviceNodes().describe((GPU, T8), (FPGA, []))
    cards = request({FPGA: TypeDemand({DeviceResource.FPGA: 100})})
    assert named(hints(nodes, cards).code) == "NO_DEVICES FPGA"
    assert named(hints(nodes, gpus(9)).code) == "INSUFFICIENT_NUMA"
    assert named(hints(nodes.use(0, 1, 2, 3, 4, 5, 6, 7), gpus()).code) == "INSUFFICIENT_GPUS"


def test_every_type_gets_the_hints_of_all() -> None:
    nodes = DeviceNodes().describe((GPU, T8), (RDMA, [nic(0, 1)]))
    both = request({GPU: TypeDemand({DeviceResource.GPU_CORE: 100}), RDMA: nic_demand()})
    assert hints(nodes, both) == HintAnswer(frozenset({"gpu", "rdma"}), [(0b10, 0), (0b11, 500)])


def test_a_node_without_devices_or_without_numa_nodes_has_no_hints() -> None:
    assert hints(DeviceNodes(), gpus()) == NONE
    assert hints(DeviceNodes().describe((GPU, [gpu(0), gpu(1, -1)])), gpus()) == NONE


def test_devices_without_a_place_are_of_no_set() -> None:
    """§9: unusable once a mask exists. Those whose NUMA node alone is not known are of every set."""
    nodes = DeviceNodes().describe((GPU, [gpu(0), gpu(1, -1), gpu(2, 1)]))
    assert of(hints(nodes, gpus())) == {0b10: 500}
    assert named(hints(nodes, gpus(3)).code) == "INSUFFICIENT_NUMA"
    assert of(hints(nodes.use(2), gpus())) == {0b10: 500}


def test_numa_nodes_of_devices_of_other_types_make_sets_too() -> None:
    nodes = DeviceNodes().describe((GPU, [gpu(0, 0)]), (FPGA, [fpga(0, 2)]))
    assert of(hints(nodes, gpus())) == {0b001: 500, 0b101: 500}


def test_of_many_numa_nodes_single_ones_and_all_are_tried() -> None:
    nodes = DeviceNodes().describe((GPU, [gpu(minor, minor, f"p{minor}") for minor in range(10)]))
    assert set(of(hints(nodes, gpus()))) == {*(1 << numa for numa in range(10)), 0b11_1111_1111}
    assert set(of(hints(nodes, gpus(2)))) == {0b11_1111_1111}


def test_a_row_that_is_not_there_is_an_error() -> None:
    nodes = DeviceNodes()
    with pytest.raises(IndexError):
        DeviceHints(nodes.table, gpus()).answer(99)
