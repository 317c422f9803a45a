"""The table of devices: what is written is read again, whatever was there before and however much it had to grow."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.device_tables import CORE, GIB, GPU, MEMORY, NIC, RATIO, RDMA, DeviceNodes, gpu, gpus, held, nic, nic_demand, request

from koordsched._core.device_facts import DeviceCell, DeviceCensus, HeldDevice, NodeDevices
from koordsched._core.device_reserved import LeftDevices
from koordsched._core.device_table import MAX_AMOUNT, DeviceTable
from koordsched._core.device_view import HiddenDevices
from koordsched._core.table import NodeTable

WHOLE = {CORE: 100, MEMORY: 80 * GIB, RATIO: 100}
HALF = {CORE: 50, MEMORY: 40 * GIB, RATIO: 50}


def test_devices_are_read_as_they_were_written() -> None:
    node = DeviceNodes().describe((GPU, [gpu(3), gpu(1, healthy=False)]), (RDMA, [nic(0)])).use(3, percent=50)
    assert node.table.summary(1) == (
        DeviceCell(GPU, 1, True, False, {}, {}, {}),
        DeviceCell(GPU, 3, True, True, WHOLE, HALF, HALF),
        DeviceCell(RDMA, 0, True, True, {NIC: 100}, {}, {NIC: 100}),
    )
    assert node.score(gpus(percent=10)) == 45


def test_what_pods_hold_stays_when_the_devices_change() -> None:
    node = DeviceNodes().describe((GPU, [gpu(0), gpu(1)])).use(0, percent=50).use(1)
    node.describe((GPU, [gpu(0, healthy=False), gpu(2)]))
    assert node.table.summary(1) == (
        DeviceCell(GPU, 0, True, False, {}, HALF, {}),
        DeviceCell(GPU, 1, False, False, {}, WHOLE, {}),
        DeviceCell(GPU, 2, True, True, WHOLE, {}, WHOLE),
    )
    assert node.score(gpus(percent=10)) == 95
    node.table.remove(1, [held(1)])
    assert [cell.minor for cell in node.table.summary(1)] == [0, 2]


@pytest.mark.parametrize("happens", ["labels", "device", "other device"])
def test_a_virtual_function_that_a_pod_holds_is_not_given_again_after_its_node_changed(happens: str) -> None:
    node = DeviceNodes().describe((RDMA, [nic(0, vfs=["a", "b"])]))
    one = request({RDMA: nic_demand(percent=1, vf_selector=lambda _labels: True)})
    assert node.take(one) == {"rdma": [0]}
    if happens == "labels":
        node.label(vendor="nvidia", model="H20", honor=True)
    elif happens == "device":
        node.describe((RDMA, [nic(0, vfs=["a", "b"]), nic(1)]))
    else:
        node.table.add(1, [held(5)])
    found = node.allocate(one)
    assert not isinstance(found, str)
    assert [allocated.vf for allocated in found] == [("b", 1)]
    node.take(one)
    assert node.allocate(one) == "INSUFFICIENT RDMA"


def described(count: int) -> NodeDevices:
    return NodeDevices({GPU: [gpu(minor) for minor in range(count)], RDMA: [nic(0, vfs=["a", "b"])]})


def test_a_node_of_which_the_very_same_is_said_has_the_same_devices_and_its_own_use() -> None:
    same, node = described(9), DeviceNodes()
    other = node.add()
    node.table.set_devices(1, same)
    node.use(0, percent=50)
    one = request({RDMA: nic_demand(percent=1, vf_selector=lambda _labels: True)})
    node.take(one)
    node.table.set_devices(other + 1, same)
    alone = DeviceNodes()
    alone.table.set_devices(1, described(9))
    assert node.table.summary(other + 1) == alone.table.summary(1)
    assert node.take(one, row=other) == {"rdma": [0]}
    assert node.table.summary(1)[-1].vfs_used == node.table.summary(other + 1)[-1].vfs_used == ("a",)
    node.table.clear_node(1)
    assert node.score(gpus(percent=10), row=other) == alone.score(gpus(percent=10))


@pytest.mark.parametrize("difference", ["unlisted device on the other node", "unlisted device", "labels"])
def test_a_node_that_differs_is_laid_out_by_itself(difference: str) -> None:
    same, node = described(2), DeviceNodes()
    other = node.add()
    node.table.set_devices(1, same)
    if difference == "labels":
        node.label(row=other, honor=True)
    else:
        node.use(7, row=other if difference == "unlisted device" else 0)
    node.table.set_devices(other + 1, same)
    alone = DeviceNodes()
    if difference == "unlisted device":
        alone.use(7)
    alone.table.set_devices(1, described(2))
    assert node.table.summary(other + 1) == alone.table.summary(1)
    assert (node.code(gpus(1), row=other) == "") == (difference != "labels")


def test_nodes_and_devices_that_outgrow_the_table_stay_what_they_were() -> None:
    node = DeviceNodes().describe((GPU, [gpu(0)])).use(0, percent=50)
    before = node.table.summary(1)
    node.table.clear_node(5000)
    node.table.set_devices(5000, NodeDevices({GPU: [gpu(minor) for minor in range(128)]}))
    assert (node.table.summary(1), len(node.table.summary(5000)), node.table.capacity) == (before, 128, 5001)
    node.table.clear_node(5000)
    assert (node.table.summary(5000), node.table.has_entry(5000)) == ((), False)


def test_room_of_cleared_nodes_is_used_again() -> None:
    node = DeviceNodes()
    for _ in range(100):
        node.table.clear_node(7)
        node.table.set_devices(7, NodeDevices({GPU: [gpu(minor) for minor in range(8)]}))
    assert node.table.nbytes < 100_000


def test_hidden_pods_leave_their_virtual_functions_too() -> None:
    node = DeviceNodes().describe((GPU, [gpu(0), gpu(1)]), (RDMA, [nic(0, vfs=["a", "b"])])).use(0, percent=50)
    nic_part = HeldDevice(RDMA, 0, {NIC: 10}, ["a"])
    node.table.add(1, [nic_part])
    before = node.table.summary(1), node.score(gpus(percent=10))
    entry = SimpleNamespace(pods={"a": None, "b": None})
    lefts = {
        "a": LeftDevices(node.table, [held(0, percent=50)], restricted=False),
        "b": LeftDevices(node.table, [nic_part], restricted=False),
    }
    part = HiddenDevices(node.table, 1, entry, lefts)
    part.hide()
    assert [cell.used for cell in node.table.summary(1)] == [{}, {}, {}]
    assert node.table.summary(1)[-1].vfs_used == ()
    assert entry.pods == {}
    part.restore()
    assert (node.table.summary(1), node.score(gpus(percent=10))) == before
    assert node.table.summary(1)[-1].vfs_used == ("a",)
    assert entry.pods == {"a": None, "b": None}


def test_a_device_that_is_hidden_and_listed_no_more_is_named() -> None:
    node = DeviceNodes().describe((GPU, [gpu(0)])).use(0, percent=50)
    left = LeftDevices(node.table, [held(0, percent=50)], restricted=False)
    part = HiddenDevices(node.table, 1, SimpleNamespace(pods={"a": None}), {"a": left})
    assert left.is_counted_on(1)
    node.table.clear_node(1)
    assert not left.is_counted_on(1)
    with pytest.raises(ValueError, match="device 0 of type 0: it is not listed any more"):
        part.hide()


def test_the_last_of_several_devices_with_one_minor_counts() -> None:
    node = DeviceNodes().describe((GPU, [gpu(0, memory=GIB), gpu(0, memory=2 * GIB)]))
    assert [cell.totals[MEMORY] for cell in node.table.summary(1)] == [2 * GIB]


def test_amounts_are_cut() -> None:
    node = DeviceNodes().describe((GPU, [gpu(0, memory=2**60), gpu(1, memory=-5)]))
    assert [cell.totals.get(MEMORY, 0) for cell in node.table.summary(1)] == [MAX_AMOUNT, 0]
    node.table.add(1, [HeldDevice(GPU, 0, {MEMORY: 2**70, CORE: -1})])
    assert node.table.summary(1)[0].used == {MEMORY: MAX_AMOUNT}
    node.table.remove(1, [HeldDevice(GPU, 0, {MEMORY: 2**70, CORE: -1})])
    assert node.table.summary(1)[0].used == {}


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    node = DeviceNodes().describe((GPU, [gpu(0)])).use(0)
    before = node.table.summary(1)
    for devices, text in (
        ([gpu(minor) for minor in range(1, 129)], "129 devices of type gpu: more than 128 cannot be counted"),
        ([gpu(-1)], "minor -1 of type gpu"),
        ([gpu(0, 64, "p")], "NUMA node 64 of gpu 0: must be -1 to 63"),
    ):
        with pytest.raises(ValueError, match=text):
            node.describe((GPU, devices))
    with pytest.raises(ValueError, match="device 9 of gpu: nothing of it is held"):
        node.table.remove(1, [held(9)])
    assert node.table.summary(1) == before
    with pytest.raises(IndexError):
        DeviceTable(NodeTable(), 3)
    for index in (0, 64):
        with pytest.raises(IndexError):
            node.table.has_entry(index)


def test_devices_are_counted_by_type_and_state_over_all_nodes() -> None:
    """Node 1: a free GPU, a half used one, a full one, an unhealthy one, one that is listed no more; node 7: two free, and an interface."""
    node = DeviceNodes().describe((GPU, [gpu(0), gpu(1), gpu(2), gpu(3, healthy=False)]))
    node.use(1, percent=50).use(2).use(9)
    node.table.clear_node(7)
    node.table.set_devices(7, NodeDevices({GPU: [gpu(0), gpu(1)], RDMA: [nic(0)]}))
    gpus_counted, nics_counted, fpgas_counted = node.table.census()
    assert gpus_counted == DeviceCensus(GPU, free=3, shared=1, full=1, unhealthy=1)
    assert nics_counted == DeviceCensus(RDMA, free=1, shared=0, full=0, unhealthy=0)
    assert fpgas_counted[1:] == (0, 0, 0, 0)
    node.table.clear_node(7)
    assert node.table.census()[0].free == 1
