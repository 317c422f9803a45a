"""What DeviceShare keeps of nodes: Devices, Nodes and pods that come, change and go (deviceshare.md §13, §15)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.builders import node, pod
from support.devices import T8, DeviceBench, device, gpus, holding

from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, GPU_PARTITIONS
from koordsched.api.koordinator.devices import GPU_ISOLATION_PROVIDER, GPU_PARTITION_POLICY
from koordsched.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable

NOTHING_LEFT = ("Insufficient gpu devices",)
NO_ROOM = ("Insufficient GPU Devices",)
GPU = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi", "koordinator.sh/gpu-memory-ratio": "100"}


def made_of(*names: str) -> DeviceBench:
    """Make nodes with 8 GPUs each."""
    return DeviceBench(*(node(name) for name in names))


# Pods


def test_what_a_bound_pod_says_is_taken_and_given_back_when_it_goes() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus=T8))
    bench.put(holding(pod("a"), gpu=[0, 1, 2, 3, 4, 5, 6, 7]), "n1")
    assert bench.reasons(plugin, gpus("b", 100)) == {"n1": NO_ROOM}
    bench.cache.remove_pod(pod("a").info().uid)
    assert bench.passing(plugin, gpus("b", 800)) == ["n1"]


def test_pods_that_are_there_before_the_device_count() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.put(holding(pod("a"), gpu={0: 60, 1: 100}), "n1")
    bench.describe(device("n1", gpus="2"))
    assert bench.passing(plugin, gpus("b", 40)) == ["n1"]
    assert bench.reasons(plugin, gpus("b", 50)) == {"n1": NOTHING_LEFT}
    assert bench.differences("n1") == []


def test_the_recorded_devices_become_free_whatever_the_annotation_says_by_then() -> None:
    # Checklist 32: the annotation is spoilt, then changed, before the pod goes.
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="4"))
    bench.put(holding(pod("a"), gpu=[0, 1]), "n1")
    bench.put(holding(pod("b"), gpu=[2]), "n1")
    bench.put(pod("a").annotation(DEVICE_ALLOCATED, "spoilt"), "n1")
    assert bench.minors(pod("a").info().uid) == {"gpu": [0, 1]}
    assert bench.reasons(plugin, gpus("c", 200)) == {"n1": NOTHING_LEFT}
    assert bench.differences("n1") == []
    bench.cache.remove_pod(pod("a").info().uid)
    assert bench.minors(pod("b").info().uid) == {"gpu": [2]}
    assert bench.passing(plugin, gpus("c", 300)) == ["n1"]
    assert bench.differences("n1") == []
    bench.put(holding(pod("b"), gpu=[3]), "n1")
    assert bench.minors(pod("b").info().uid) == {"gpu": [3]}
    bench.cache.remove_pod(pod("b").info().uid)
    assert bench.passing(plugin, gpus("c", 400)) == ["n1"]


def test_a_bound_pod_whose_annotation_is_taken_away_holds_nothing() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="1"))
    bench.put(holding(pod("a"), gpu=[0]), "n1")
    bench.put(pod("a"), "n1")
    assert bench.passing(plugin, gpus("b", 100)) == ["n1"]
    assert bench.differences("n1") == []


def test_an_annotation_that_cannot_be_read_is_reported_and_holds_nothing() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="1"))
    bench.put(pod("a").annotation(DEVICE_ALLOCATED, '{"gpu":7}'), "n1")
    assert bench.passing(plugin, gpus("b", 100)) == ["n1"]
    (said,) = bench.said
    assert said.startswith("InvalidDevice a: what it was allocated cannot be read: scheduling.koordinator.sh/device-allocated: Expected")
    bench.put(pod("a").annotation(DEVICE_ALLOCATED, '{"gpu":7}').label("another", "event"), "n1")
    assert len(bench.said) == 1


def test_a_device_that_is_null_is_left_out_and_reported() -> None:
    bench = made_of("n1")
    bench.plugin()
    bench.put(pod("a").annotation(DEVICE_ALLOCATED, '{"gpu":[null,{"minor":1,"resources":{"koordinator.sh/gpu-core":"50"}}]}'), "n1")
    assert bench.minors(pod("a").info().uid) == {"gpu": [1]}
    assert bench.said == ["InvalidDevice a: scheduling.koordinator.sh/device-allocated: a device is null and is left out"]


def test_a_node_without_device_gives_nothing_and_refuses_while_a_pod_holds_something_there() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    assert bench.passing(plugin, gpus("b", 100)) == ["n1"]
    assert bench.reserve(plugin, gpus("b", 100), "n1")[1] == {}
    bench.cache.forget_pod(gpus("b", 100).info().uid)
    bench.put(holding(pod("a"), gpu=[0]), "n1")
    assert bench.reasons(plugin, gpus("b", 100)) == {"n1": NOTHING_LEFT}
    bench.cache.remove_pod(pod("a").info().uid)
    assert bench.passing(plugin, gpus("b", 100)) == ["n1"]
    assert not bench.state.entries


def test_more_devices_than_can_be_counted_harm_none_but_their_pod() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="2"))
    bench.put(holding(pod("a"), gpu=list(range(200))), "n1")
    assert bench.differences("n1") == []
    bench.put(holding(pod("b"), gpu=[0]), "n1")
    assert bench.passing(plugin, gpus("c", 100)) == ["n1"]
    assert bench.reasons(plugin, gpus("c", 200)) == {"n1": NOTHING_LEFT}
    bench.cache.remove_pod(pod("a").info().uid)
    assert bench.differences("n1") == []


def test_pods_of_one_name_differ_by_uid() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="2"))
    bench.put(holding(pod("a").uid("first"), gpu=[0]), "n1")
    bench.put(holding(pod("a").uid("second"), gpu=[1]), "n1")
    bench.cache.remove_pod("first")
    assert bench.reasons(plugin, gpus("c", 200)) == {"n1": NOTHING_LEFT}
    assert bench.passing(plugin, gpus("c", 100)) == ["n1"]


# Devices and Nodes


def test_a_device_that_is_not_healthy_gives_nothing() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="2", unhealthy={"gpu": [0]}))
    assert bench.reserve(plugin, gpus("a", 100), "n1")[1] == {"gpu": [1]}
    assert bench.reasons(plugin, gpus("b", 10)) == {"n1": NOTHING_LEFT}


def test_a_device_that_is_deleted_leaves_unhealthy_devices_until_the_node_goes_too() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="2"))
    bench.put(holding(pod("a"), gpu=[0]), "n1")
    bench.undescribe("n1")
    assert bench.reasons(plugin, gpus("b", 100)) == {"n1": NOTHING_LEFT}
    assert bench.minors(pod("a").info().uid) == {"gpu": [0]}
    assert bench.differences("n1") == []
    bench.describe(device("n1", gpus="2"))
    assert bench.reserve(plugin, gpus("b", 100), "n1")[1] == {"gpu": [1]}
    bench.cache.forget_pod(gpus("b", 100).info().uid)
    bench.undescribe("n1")
    bench.cache.remove_pod(pod("a").info().uid)
    bench.remove("n1")
    assert not bench.state.entries
    bench.set(node("n1"))
    assert bench.passing(plugin, gpus("b", 100)) == ["n1"]


def test_a_device_may_come_before_its_node_and_stay_after_it() -> None:
    bench = DeviceBench()
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="1"))
    bench.set(node("n1"))
    assert bench.passing(plugin, gpus("a", 100)) == ["n1"]
    assert bench.reasons(plugin, gpus("a", 200)) == {"n1": NOTHING_LEFT}
    bench.remove("n1")
    bench.set(node("n1"))
    assert bench.reasons(plugin, gpus("a", 200)) == {"n1": NOTHING_LEFT}
    assert bench.differences("n1") == []


def test_labels_of_nodes_matter_without_devices_too() -> None:
    bench = DeviceBench(node("n1"), node("n2").label(GPU_ISOLATION_PROVIDER, "HAMi-core"))
    plugin = bench.plugin()
    shared = gpus("a", 50).label(GPU_ISOLATION_PROVIDER, "HAMi-core")
    missing = ("GPUIsolationProviderHAMICore not found on the node",)
    assert bench.reasons(plugin, shared) == {"n1": missing, "n2": ()}
    bench.set(node("n1").label(GPU_ISOLATION_PROVIDER, "HAMi-core"))
    bench.set(node("n2"))
    assert bench.reasons(plugin, shared) == {"n1": (), "n2": missing}
    assert bench.passing(plugin, gpus("a", 100).label(GPU_ISOLATION_PROVIDER, "HAMi-core")) == ["n1", "n2"]


def test_each_change_marks_its_row_and_no_other() -> None:
    bench = made_of("n1", "n2")
    plugin = bench.plugin()

    changes: list[Callable[[], None]] = [
        lambda: bench.describe(device("n1", gpus="2")),
        lambda: bench.put(holding(pod("a"), gpu=[0]), "n1"),
        lambda: bench.set(node("n1").label(GPU_PARTITION_POLICY, "Honor")),
        lambda: bench.cache.remove_pod(pod("a").info().uid),
        lambda: bench.undescribe("n1"),
    ]
    for change in changes:
        end = bench.cache.table.log_end
        change()
        assert bench.marked_since(end) == {"n1"}
    bench.describe(device("n2", gpus="1"))
    end = bench.cache.table.log_end
    bench.put(pod("b").cpu("1"), "n1")
    bench.describe(device("n2", gpus="1"))  # koordlet writes what it wrote before
    assert bench.marked_since(end) == set()
    assert plugin.reads & bench.state.change


# Mistakes


def test_of_two_devices_with_one_minor_the_last_one_counts_with_its_id() -> None:
    bench = DeviceBench(node("n1"))
    plugin = bench.plugin()
    again = {"type": "gpu", "minor": 0, "health": True, "id": "second", "resources": {**GPU, "koordinator.sh/gpu-memory": "40Gi"}}
    bench.describe(device("n1", gpus="1,80Gi", more=[again]))
    ids = bench.state.device_ids("n1")
    assert ids is not None
    assert ids["gpu", 0] == "second"
    text = bench.bind(plugin, gpus("p", 50), "n1")
    assert text is not None
    (given_gpu,) = json.loads(text)["gpu"]
    assert (given_gpu["id"], given_gpu["resources"]["koordinator.sh/gpu-memory"]) == ("second", "20Gi")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ({"more": [{"type": "gpu", "health": True}]}, "spec.devices[1].minor: expected 0 or more, so the device is left out: None"),
        ({"more": [{"type": "gpu", "minor": -1}]}, "spec.devices[1].minor: expected 0 or more, so the device is left out: -1"),
        (
            {"more": [{"type": "xpu", "minor": 0}]},
            'spec.devices[1].type: expected one of gpu, rdma, fpga, so it is never allocated: "xpu"',
        ),
        (
            {"more": [{"type": "gpu", "minor": 0, "health": True, "resources": GPU}]},
            "spec.devices[1].minor: given twice, so the last one counts: gpu 0",
        ),
        (
            {"more": [{"type": "fpga", "minor": 0, "resources": {"koordinator.sh/fpga": "-100"}}]},
            'spec.devices[1].resources.koordinator.sh/fpga: less than nothing, so it counts as 0: "-100"',
        ),
        (
            {"more": [{"type": "fpga", "minor": 0, "resources": {"koordinator.sh/fpga": "lots"}}]},
            'spec.devices[1].resources.koordinator.sh/fpga: expected a quantity, so it counts as 0: "lots"',
        ),
        (
            {"more": [{"type": "fpga", "minor": 0, "topology": {"socketID": 0, "nodeID": 64, "pcieID": "p"}}]},
            "spec.devices[1].topology.nodeID: expected -1 to 63, so it counts as unknown: 64",
        ),
        (
            {"annotations": {GPU_PARTITIONS: "null"}},
            "there is no partition table: scheduling.koordinator.sh/gpu-partitions: expected partitions by the number of their GPUs: "
            '"null"',
        ),
        (
            {"annotations": {GPU_PARTITIONS: '{"2":[{"minors":[0,1]}]}'}},
            "scheduling.koordinator.sh/gpu-partitions: 2[0].minors: there is no such GPU, so the partition is never allocated: 1",
        ),
        (
            {"annotations": {GPU_PARTITIONS: '{"2":[{"minors":[0]}]}'}},
            "scheduling.koordinator.sh/gpu-partitions: 2[0].minors: expected 2 GPUs, so the partition is left out: [0]",
        ),
    ],
)
def test_mistakes_of_a_device_are_named_once_and_the_rest_of_it_counts(made: dict[str, Any], text: str) -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    for _ in range(2):
        bench.describe(device("n1", gpus="1", **made))
    assert bench.said == ["malformed Device", f"InvalidDevice n1: Device: {text}"]
    assert bench.passing(plugin, gpus("a", 100)) == ["n1"]
    found = bench.reserve(plugin, gpus("a", 100), "n1")[1]
    assert found == {"gpu": [0]}
    assert isinstance(bench.reserve(plugin, gpus("b", 10), "n1")[1], Status)
    assert bench.differences("n1") == []


# Restart, and mending


def test_a_restart_comes_to_the_same() -> None:
    bench, again = made_of("n1"), made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus=T8, nics="2x1x2"))
    texts = {}
    for made in (gpus("a", 200), gpus("b", 50), gpus("c", 100).request("koordinator.sh/rdma", "50")):
        texts[made.build().metadata.name] = bench.bind(plugin, made, "n1")
    rebuilt = again.plugin()
    again.describe(device("n1", gpus=T8, nics="2x1x2"))
    for name, text in texts.items():
        assert text is not None
        again.put(pod(name).annotation(DEVICE_ALLOCATED, text), "n1")
    body, other = (made.routes()[0].answer({}).body for made in (plugin, rebuilt))
    assert body == other
    assert body["n1"]["deviceFree"]["koordinator.sh/gpu-core"] == "450"
    (cells, others) = (each.state.table.summary(each.state.entries["n1"].index) for each in (bench, again))
    assert cells == others


def test_a_spoilt_state_is_found_and_mended() -> None:
    bench = made_of("n1", "n2")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="2"))
    bench.put(holding(pod("a"), gpu=[0]), "n1")
    entry = bench.state.entries["n1"]
    (check,) = (check for check in bench.cache.checked if check.name == "DeviceShare")
    kept = entry.pods.pop(pod("a").info().uid)
    assert bench.differences("n1") == [f"devices of default/a ({kept.uid})", "columns of gpu 0"]
    check.rebuild("n1")
    assert bench.differences("n1") == []
    entry.accelerators = entry.accelerators._replace(vendor="another")
    assert "labels" in bench.differences("n1")
    check.rebuild("n1")
    assert bench.differences("n1") == []
    bench.state.remove_device("n1")
    assert "Device" in bench.differences("n1")
    check.rebuild("n1")
    assert bench.differences("n1") == []
    assert bench.reserve(plugin, gpus("b", 100), "n1")[1] == {"gpu": [1]}
    assert bench.differences("n2") == []


def test_what_is_reserved_is_no_difference() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="2"))
    bench.reserve(plugin, gpus("a", 150 - 50), "n1")
    assert bench.differences("n1") == []


def test_an_entry_of_an_unknown_node_is_known() -> None:
    bench = DeviceBench()
    bench.plugin()
    bench.put(holding(pod("a"), gpu=[0]), "elsewhere")
    assert bench.state.location(pod("a").info().uid) == "elsewhere"
    bench.set(node("elsewhere"))
    bench.cache.remove_pod(pod("a").info().uid)
    assert not bench.state.entries


def test_simulations_free_exactly_what_a_pod_holds_and_leave_no_trace() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="2"))
    victim = holding(gpus("a", 100), gpu={0: 70})
    bench.put(victim, "n1")
    bench.put(holding(gpus("b", 100), gpu=[1]), "n1")
    there = bench.cache.node("n1")
    assert there is not None
    before, end = bench.state.table.summary(bench.state.entries["n1"].index), bench.cache.table.log_end
    with bench.cache.simulate(there, remove=[victim.on("n1").info(counted_on_node=True)]):
        assert bench.passing(plugin, gpus("c", 100)) == ["n1"]
        assert bench.reasons(plugin, gpus("c", 200)) == {"n1": NOTHING_LEFT}
    assert bench.reasons(plugin, gpus("c", 100)) == {"n1": NOTHING_LEFT}
    assert bench.state.table.summary(bench.state.entries["n1"].index) == before
    assert bench.marked_since(end) == set()
    assert bench.minors(victim.info().uid) == {"gpu": [0]}


def test_owners_of_credits_see_the_devices_of_their_placeholders_as_free() -> None:
    bench = made_of("n1")
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="2"))
    bench.put(holding(gpus("reserved", 100), gpu=[0]), "n1")
    bench.put(holding(gpus("b", 100), gpu=[1]), "n1")
    bench.cache.credits.grant("owner", gpus("reserved", 100).info().uid)
    with bench.cache.view("owner"):
        assert bench.passing(plugin, gpus("c", 100)) == ["n1"]
    assert bench.passing(plugin, gpus("c", 100)) == []
    assert bench.differences("n1") == []
