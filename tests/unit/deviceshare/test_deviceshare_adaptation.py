"""What device plugins of vendors read: deviceshare.md §11 and checklist item 24."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.builders import pod
from support.plugins import WatchingBench
from support.reservations import available
from support.virtual_loop import run_virtual

from koordsched.api.core import Node
from koordsched.api.kinds import DEVICE, NODE, POD
from koordsched.api.koordinator.device_annotations import AllocatedDevice
from koordsched.api.koordinator.devices import Device
from koordsched.api.meta import ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.memory.cluster import MemoryCluster
from koordsched.cluster.port import Ref
from koordsched.framework.cycle_state import CycleState, noted_changes
from koordsched.framework.status import error
from koordsched.plugins.deviceshare.adaptation import DevicePluginAdapter

if TYPE_CHECKING:
    from support.builders import PodBuilder

    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.clock import VirtualClock
    from koordsched.framework.cycle_state import Annotations
    from koordsched.framework.status import Status

MEBI, GIBI = 1 << 20, 1 << 30
CORE, MEMORY = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory"
TIMESTAMP, MINORS = "scheduling.koordinator.sh/bind-timestamp", "scheduling.koordinator.sh/gpu-minors"
NOW = str(1_767_225_600 * 10**9)  # 2026-01-01, where virtual time begins
WEB = pod("web", "ml")
FREE: dict[str, str] = {}


class Adapted(NamedTuple):
    status: Status | None
    annotations: Annotations
    labels: Annotations
    node: dict[str, str]  # the Node's annotations afterwards


def gpu(minor: int, core: int | None = 100, memory: int = 80 * GIBI, uid: str = "", template: str = "") -> AllocatedDevice:
    resources = {MEMORY: memory} | ({} if core is None else {CORE: core})
    return AllocatedDevice(minor, resources, uid, template=template)


def adapt(
    *given: AllocatedDevice,
    vendor: str | None = "nvidia",
    model: str = "",
    builder: PodBuilder = WEB,
    device_type: str = "gpu",
    held: dict[str, str] = FREE,
    known: tuple[PodBuilder, ...] = (),
    reserving: Reservation | None = None,
) -> Adapted:
    """Adapt for devices on n1. vendor: None: the node has no Device. held: the Node's annotations before. reserving: instead of a pod."""

    async def body(clock: VirtualClock) -> Adapted:
        cluster = MemoryCluster(clock, random=Random(1))
        bench = WatchingBench(cluster=cluster)
        bench.clock = clock
        created = await cluster.create(NODE, {"metadata": {"name": "n1", "annotations": held}})
        assert isinstance(created, Node)
        bench.came(NODE, created)
        for each in known:
            bench.came(POD, each.resource_version("1").build())
        if vendor is not None:
            labels = {"node.koordinator.sh/gpu-vendor": vendor, "node.koordinator.sh/gpu-model": model}
            bench.came(DEVICE, Device(metadata=ObjectMeta(name="n1", resource_version="1", labels=labels)))
        state, info = CycleState(), builder.info() if reserving is None else PodInfo.of_reservation(reserving)
        status = await DevicePluginAdapter(bench).adapt(state, info, "n1", {device_type: given})
        noted = noted_changes(state, info.pod)
        assert [changes.seen for changes in noted] == [info.reservation or info.pod] * len(noted)
        after = (await cluster.get(Ref(NODE, "", "n1"))).metadata.annotations
        return Adapted(status, noted[0].annotations if noted else {}, noted[0].labels if noted else {}, after)

    return run_virtual(body)


def test_every_allocation_has_its_time_and_gpus_their_minors() -> None:
    assert adapt(gpu(3), gpu(1)) == (None, {TIMESTAMP: NOW, MINORS: "3,1"}, {}, {})
    assert adapt(AllocatedDevice(0, {"koordinator.sh/rdma": 100}), device_type="rdma") == (None, {TIMESTAMP: NOW}, {}, {})


def test_a_vendor_without_a_format_and_a_device_without_a_vendor_get_no_more() -> None:
    for vendor in ("baidu", ""):
        assert adapt(gpu(0), vendor=vendor).annotations == {TIMESTAMP: NOW, MINORS: "0"}


def test_pods_that_hami_keeps_apart_name_their_node() -> None:
    assert adapt(gpu(0, 50), builder=WEB.label("koordinator.sh/gpu-isolation-provider", "HAMi-core")).labels == {"hami.io/vgpu-node": "n1"}
    assert adapt(gpu(0, 50), builder=WEB.label("koordinator.sh/gpu-isolation-provider", "other")).labels == {}


def test_huawei_reads_minors() -> None:
    adapted = adapt(gpu(0), gpu(1), vendor="huawei", model="Ascend-910B")
    assert adapted.annotations == {TIMESTAMP: NOW, MINORS: "0,1", "predicate-time": NOW, "huawei.com/npu-core": "0,1"}
    assert adapted.node == {}


def test_huawei_reads_the_template_of_a_virtual_npu() -> None:
    adapted = adapt(gpu(4, template="vir02"), vendor="huawei", model="Ascend-310P3")
    assert adapted.annotations == {TIMESTAMP: NOW, MINORS: "4", "predicate-time": NOW, "huawei.com/npu-core": "4-vir02"}


def test_the_300i_duo_has_a_format_of_its_own() -> None:
    adapted = adapt(gpu(2), gpu(3), vendor="huawei", model="Ascend-310P3-300I-DUO")
    expected = {TIMESTAMP: NOW, MINORS: "2,3", "predicate-time": NOW, "huawei.com/Ascend310P": "Ascend310P-2,Ascend310P-3"}
    assert adapted.annotations == expected


def test_cambricon_reads_a_profile_in_units_of_256_mebibytes_and_the_node_is_locked() -> None:
    adapted = adapt(gpu(0, 5, GIBI), vendor="cambricon")
    profile = {"CAMBRICON_DSMLU_ASSIGHED": "false", "CAMBRICON_DSMLU_PROFILE": "0_5_4"}
    assert adapted.annotations == {TIMESTAMP: NOW, MINORS: "0"} | profile
    assert adapted.node == {"cambricon.com/dsmlu.lock": "2026-01-01T00:00:00Z,ml,web"}


def test_cambricon_memory_is_rounded_down_to_whole_units() -> None:
    assert adapt(gpu(7, 30, 511 * MEBI), vendor="cambricon").annotations["CAMBRICON_DSMLU_PROFILE"] == "7_30_1"


def test_metax_reads_the_share_of_each_card_and_the_node_is_locked() -> None:
    adapted = adapt(gpu(1, 50, 16 * GIBI + 1, "GPU-a"), gpu(2, 50, 8 * GIBI, "GPU-b"), vendor="metax")
    devices = '[[{"uuid":"GPU-a","compute":50,"vRam":16384},{"uuid":"GPU-b","compute":50,"vRam":8192}]]'
    assert adapted.annotations == {TIMESTAMP: NOW, MINORS: "1,2", "metax-tech.com/gpu-devices-allocated": devices}
    assert adapted.node == {"hami.io/mutex.lock": "2026-01-01T00:00:00Z,ml,web"}


@pytest.mark.parametrize(
    ("vendor", "given", "why"),
    [
        ("cambricon", [gpu(0, 5), gpu(1, 5)], "multiple gpu share is not supported on device side"),
        ("cambricon", [gpu(0, None)], "gpu core resource is required"),
        ("cambricon", [gpu(0, 5, 256 * MEBI - 1)], "gpu memory must not be less than 268435456 bytes"),
        ("metax", [gpu(0), gpu(1, None)], "gpu core resource is required"),
        ("metax", [gpu(0, 5, MEBI - 1)], "gpu memory must not be less than 1048576 bytes"),
    ],
)
def test_what_a_vendor_cannot_hand_out_is_an_error_and_locks_nothing(vendor: str, given: list[AllocatedDevice], why: str) -> None:
    refused = error(f'failed to adapt for GPU device plugin of vendor "{vendor}": {why}')
    assert adapt(*given, vendor=vendor) == (refused, {}, {}, {})


def test_a_locked_node_is_an_error() -> None:
    held = {"hami.io/mutex.lock": "2025-12-31T23:59:00Z,ml,other"}
    why = 'failed to adapt for GPU device plugin of vendor "metax": failed to lock node: node "n1" has been locked'
    assert adapt(gpu(0), vendor="metax", held=held, known=(pod("other", "ml"),)) == (error(why), {}, {}, held)
    assert adapt(gpu(0), vendor="metax", held=held).status is None
    assert adapt(gpu(0), vendor="cambricon", held=held, known=(pod("other", "ml"),)).status is None


def test_a_reservation_takes_no_lock_since_no_device_plugin_would_release_it() -> None:
    adapted = adapt(gpu(0, 5, GIBI), vendor="cambricon", reserving=available("r", "n1", {}))
    assert adapted.node == {}


def test_gpus_of_a_node_whose_device_has_gone_are_an_error() -> None:
    assert adapt(gpu(0), vendor=None).status == error('device.scheduling.koordinator.sh "n1" not found')


def test_what_an_attempt_on_a_node_of_another_vendor_has_written_is_removed() -> None:
    before = WEB.annotation("metax-tech.com/gpu-devices-allocated", "[[]]").annotation(MINORS, "7").annotation("note", "mine")
    adapted = adapt(gpu(0), vendor="huawei", builder=before.label("hami.io/vgpu-node", "n2"))
    assert adapted.annotations == {
        "metax-tech.com/gpu-devices-allocated": None,
        TIMESTAMP: NOW,
        MINORS: "0",
        "predicate-time": NOW,
        "huawei.com/npu-core": "0",
    }
    assert adapted.labels == {"hami.io/vgpu-node": None}
