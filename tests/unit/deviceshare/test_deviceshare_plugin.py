"""DeviceShare at each extension point: what a pod gets, what is written, which events may help (deviceshare.md §4 to §14)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.builders import PodBuilder, node, pod
from support.devices import T8, DeviceBench, device, gpus, holding
from support.plugins import hint, registered

from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.device_annotations import (
    DEVICE_ALLOCATE_HINT,
    DEVICE_ALLOCATED,
    DEVICE_JOINT_ALLOCATE,
    GPU_PARTITION_SPEC,
)
from koordsched.api.koordinator.devices import GPU_ISOLATION_PROVIDER, GPU_MODEL, GPU_VENDOR, Device
from koordsched.api.koordinator.hints import SCHEDULING_HINT
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.cluster.port import ClusterError, Forbidden, NotFound, Ref, ServerError
from koordsched.config.args import ResourceSpec
from koordsched.config.koordinator_args import GPUShareUnsupportedModel, NumaScoringStrategy
from koordsched.framework.cycle_state import CycleState, noted_changes
from koordsched.framework.status import SKIP, Code, Status
from koordsched.plugins.deviceshare.plugin import DeviceShare
from koordsched.queue.events import QueueingHint

RDMA = "koordinator.sh/rdma"
NO_ROOM = ("Insufficient GPU Devices",)
DESIGNATED = json.dumps({"extensions": {"DeviceShare": {}}})


def one_node(**fields: Any) -> tuple[DeviceBench, DeviceShare]:
    """Make a node n1 with a Device."""
    bench = DeviceBench(node("n1"))
    plugin = bench.plugin()
    bench.describe(device("n1", **(fields or {"gpus": T8})))
    return bench, plugin


# PreFilter


def test_a_pod_without_device_requests_is_none_of_its_business() -> None:
    bench, plugin = one_node()
    plain = pod("a").cpu("1")
    skipped = bench.pre_filter(plugin, plain)
    assert isinstance(skipped, Status)
    assert skipped.code is Code.SKIP
    state = CycleState()
    assert plugin.score_nodes(state, plain.info(), bench.cache.nodes()) is None
    assert plugin.pre_score(state, plain.info(), bench.cache.nodes()) is not None
    assert plugin.reserve(state, plain.info(), "n1") is None
    assert plugin.pre_bind_pre_flight(state, plain.info(), "n1") is not None
    assert not plugin.wants(plain.info())
    assert plugin.sign(plain.info()) == plugin.sign(pod("b").memory("1Gi").info())


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (gpus("a", 250), "invalid resource unit koordinator.sh/gpu: 250"),
        (pod("a").request("koordinator.sh/gpu-core", "50"), "invalid resource device requests: [koordinator.sh/gpu-core]"),
        (pod("a").cpu("1").annotation(DEVICE_ALLOCATED, "{"), "scheduling.koordinator.sh/device-allocated: Input data was truncated"),
        (gpus("a", 50).annotation(DEVICE_ALLOCATE_HINT, "[]"), "invalid DeviceAllocateHint annotation, err: "),
        (
            gpus("a", 50).annotation(DEVICE_ALLOCATE_HINT, '{"gpu":{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}'),
            "invalid Selector of DeviceHint, deviceType: gpu, err: matchExpressions[0]",
        ),
        (
            gpus("a", 50).annotation(DEVICE_ALLOCATE_HINT, '{"x":{"vfSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}'),
            "invalid VFSelector of DeviceHint, deviceType: x, err: matchExpressions[0]",
        ),
        (gpus("a", 50).annotation(DEVICE_JOINT_ALLOCATE, "7"), "invalid DeviceJointAllocate annotation, err: "),
        (gpus("a", 50).annotation(GPU_PARTITION_SPEC, "7"), "invalid GPUPartitionSpec annotation, err: "),
        (gpus("a", 50).annotation(RESERVATION_AFFINITY, "7"), "scheduling.koordinator.sh/reservation-affinity: Expected `object`"),
        (
            pod("a")
            .request("koordinator.sh/gpu.shared", "1")
            .request("huawei.com/npu-core", "2")
            .request("huawei.com/npu-cpu", "1")
            .request("koordinator.sh/gpu-memory", "3Gi"),
            "no matched GPU shared resource template",
        ),
    ],
)
def test_what_a_pod_asks_wrongly_is_unresolvable_and_named(made: PodBuilder, text: str) -> None:
    bench, plugin = one_node()
    refused = bench.pre_filter(plugin, made)
    assert isinstance(refused, Status)
    assert refused.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert refused.message.startswith(text)


def test_a_partition_spec_of_a_pod_without_gpus_is_not_read() -> None:
    bench, plugin = one_node(nics="2")
    assert bench.pre_filter(plugin, pod("a").request(RDMA, "10").annotation(GPU_PARTITION_SPEC, "7")) is None


def test_all_that_is_read_of_a_pod_is_signed() -> None:
    _, plugin = one_node()
    plain = gpus("a", 50)
    changed = [
        gpus("a", 60),
        *(plain.annotation(key, "{}") for key in (DEVICE_ALLOCATE_HINT, DEVICE_JOINT_ALLOCATE, GPU_PARTITION_SPEC, RESERVATION_AFFINITY)),
        plain.annotation(DEVICE_ALLOCATED, "{}"),
        plain.annotation(SCHEDULING_HINT, "{}"),
        plain.label(GPU_ISOLATION_PROVIDER, "HAMi-core"),
    ]
    signatures = [plugin.sign(made.info()) for made in (plain, *changed)]
    assert len(set(signatures)) == len(signatures)
    assert plugin.sign(gpus("b", 50).label("app", "x").annotation("note", "y").info()) == signatures[0]


# Filter and Reserve


def test_the_checklists_whole_gpus_come_from_the_smallest_scope_that_has_them() -> None:
    bench, plugin = one_node()
    bench.put(holding(pod("there"), gpu=[2]), "n1")
    assert [bench.reserve(plugin, gpus(f"p{count}", 100 * count), "n1")[1] for count in (1, 4, 2)] == [
        {"gpu": [3]},
        {"gpu": [4, 5, 6, 7]},
        {"gpu": [0, 1]},
    ]
    assert bench.reasons(plugin, gpus("more", 200)) == {"n1": NO_ROOM}


def test_most_allocated_fills_what_is_begun() -> None:
    args = NumaScoringStrategy(type="MostAllocated", resources=(ResourceSpec(name="koordinator.sh/gpu-memory-ratio", weight=1),))
    found = []
    for strategy in (None, args):
        bench = DeviceBench(node("n1"))
        plugin = bench.plugin() if strategy is None else bench.plugin(scoring_strategy=strategy)
        bench.describe(device("n1", gpus=T8))
        bench.put(holding(pod("there"), gpu={6: 100, 2: 50}), "n1")
        found.append(bench.reserve(plugin, gpus("a", 50), "n1")[1])
    assert found == [{"gpu": [3]}, {"gpu": [2]}]


def test_memory_follows_from_the_ratio_and_the_ratio_from_memory() -> None:
    bench, plugin = one_node(gpus="1,24Gi")
    bench.reserve(plugin, pod("a").request("koordinator.sh/gpu-memory-ratio", "17"), "n1")
    bench.reserve(plugin, pod("b").request("koordinator.sh/gpu-memory", "7Gi"), "n1")
    held = [bench.state.held_by(pod(name).info().uid) for name in ("a", "b")]
    assert [one.allocations["gpu"][0].resources for one in held if one is not None] == [
        {"koordinator.sh/gpu-memory-ratio": 17, "koordinator.sh/gpu-memory": 4380866641},
        {"koordinator.sh/gpu-memory": 7 << 30, "koordinator.sh/gpu-memory-ratio": 29},
    ]


def test_a_model_that_cannot_be_shared_is_refused_for_shares_alone() -> None:
    bench = DeviceBench(node("n1").label(GPU_VENDOR, "huawei").label(GPU_MODEL, "Ascend-310P3-300I-DUO"))
    plugin = bench.plugin(gpu_share_unsupported_models=(GPUShareUnsupportedModel(vendor="huawei", model="Ascend-310P3-300I-DUO"),))
    bench.describe(device("n1", gpus="2"))
    text = 'model "Ascend-310P3-300I-DUO" of vendor "huawei" does not support GPU Share'
    refused = bench.filter(plugin, gpus("a", 50))["n1"]
    assert refused is not None
    assert (refused.code, refused.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
    assert bench.passing(plugin, gpus("a", 100)) == ["n1"]


def test_virtual_functions_come_in_the_order_of_their_addresses() -> None:
    bench = DeviceBench(node("n1"))
    plugin = bench.plugin()
    groups = [
        {"vfs": [{"minor": 3, "busID": "0000:3b:10.1"}, {"minor": -1, "busID": "0000:3b:02.0"}, {"minor": 1, "busID": "0000:3b:00.7"}]}
    ]
    entry = {"type": "rdma", "minor": 0, "health": True, "resources": {RDMA: "100"}, "vfGroups": groups}
    bench.describe(device("n1", more=[entry]))
    vf_hint = json.dumps({"rdma": {"vfSelector": {}}})
    texts = [bench.bind(plugin, pod(name).request(RDMA, "1").annotation(DEVICE_ALLOCATE_HINT, vf_hint), "n1") for name in "abc"]
    vfs = [json.loads(text or "")["rdma"][0]["extension"]["vfs"] for text in texts]
    assert vfs == [
        [{"minor": 1, "busID": "0000:3b:00.7"}],
        [{"minor": -1, "busID": "0000:3b:02.0"}],
        [{"minor": 3, "busID": "0000:3b:10.1"}],
    ]
    fourth = pod("d").request(RDMA, "1").annotation(DEVICE_ALLOCATE_HINT, vf_hint)
    assert bench.reasons(plugin, fourth) == {"n1": ("Insufficient rdma devices",)}


def test_unreserve_gives_everything_back() -> None:
    bench, plugin = one_node()
    state, found = bench.reserve(plugin, gpus("a", 800), "n1")
    assert found == {"gpu": list(range(8))}
    assert bench.passing(plugin, gpus("b", 10)) == []
    plugin.unreserve(state, gpus("a", 800).info(), "n1")
    assert bench.passing(plugin, gpus("b", 800)) == ["n1"]
    plugin.unreserve(CycleState(), gpus("a", 800).info(), "n1")


def test_nodes_are_scored_by_what_is_left_on_them() -> None:
    # Checklist 7: raw scores of a pod for one GPU.
    bench = DeviceBench(node("idle"), node("used"), node("small"))
    plugin = bench.plugin()
    bench.describe(device("idle", gpus=T8), device("used", gpus=T8), device("small", gpus="4,80Gi"))
    bench.put(holding(pod("there"), gpu=[0]), "used")
    info, state = gpus("a", 100), CycleState()
    plugin.pre_filter(state, info.info(), bench.cache.nodes())
    assert bench.score(plugin, info, state) == {"idle": 93, "used": 81, "small": 87}
    assert bench.score(plugin, info, CycleState()) == {"idle": 93, "used": 81, "small": 87}


# PreBind


def test_what_is_allocated_is_written_with_the_ids_of_the_devices() -> None:
    bench, plugin = one_node(gpus=T8, nics="2x1x2")
    text = bench.bind(plugin, gpus("a", 100).request(RDMA, "100"), "n1")
    assert text is not None
    assert json.loads(text) == {
        "gpu": [
            {
                "minor": 0,
                "resources": {
                    "koordinator.sh/gpu-core": "100",
                    "koordinator.sh/gpu-memory": "80Gi",
                    "koordinator.sh/gpu-memory-ratio": "100",
                },
                "id": "GPU-0",
            }
        ],
        "rdma": [{"minor": 0, "resources": {RDMA: "100"}, "id": bench.state.entries["n1"].ids["rdma", 0]}],
    }
    assert list(json.loads(text)) == ["gpu", "rdma"]
    assert bench.minors(gpus("a", 100).info().uid) == {"gpu": [0], "rdma": [0]}
    assert bench.differences("n1") == []


def test_what_was_written_is_recognised_when_the_watch_shows_it() -> None:
    bench, plugin = one_node()
    state, _ = bench.reserve(plugin, gpus("a", 100), "n1")
    asyncio.run(plugin.pre_bind(state, gpus("a", 100).info(), "n1"))
    (changes,) = noted_changes(state, gpus("a", 100).build())
    end = bench.cache.table.log_end
    bench.put(gpus("a", 100).annotation(DEVICE_ALLOCATED, changes.annotations[DEVICE_ALLOCATED] or ""), "n1")
    assert bench.marked_since(end) == set()


def test_a_device_that_is_gone_before_the_pod_is_bound_is_an_error() -> None:
    bench, plugin = one_node()
    state, _ = bench.reserve(plugin, gpus("a", 100), "n1")
    bench.undescribe("n1")
    refused = asyncio.run(plugin.pre_bind(state, gpus("a", 100).info(), "n1"))
    assert refused is not None
    assert (refused.code, refused.message) == (Code.ERROR, 'device.scheduling.koordinator.sh "n1" not found')


class AskedOnce:
    """A cluster of which one object is asked for."""

    def __init__(self, answer: Device | ClusterError) -> None:
        self._answer = answer
        self.asked: list[Ref] = []

    async def get(self, ref: Ref) -> Device:
        self.asked.append(ref)
        if isinstance(self._answer, ClusterError):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (device("n2", gpus=T8), Code.UNSCHEDULABLE),
        (NotFound("there is none"), None),
        (Forbidden("not allowed"), None),
        (ServerError("try again"), Code.ERROR),
    ],
)
def test_a_node_whose_device_the_watch_has_not_shown_yet_is_not_given_to_a_pod_with_devices(
    answer: Device | ClusterError, code: Code | None
) -> None:
    bench = DeviceBench(node("n1"), node("n2"))
    cluster = bench.cluster = AskedOnce(answer)
    plugin = bench.plugin()
    bench.describe(device("n1", gpus=T8))
    state, found = bench.reserve(plugin, gpus("a", 100), "n2")
    assert found == {}
    assert plugin.pre_bind_pre_flight(state, gpus("a", 100).info(), "n2") is None
    refused = asyncio.run(plugin.pre_bind(state, gpus("a", 100).info(), "n2"))
    assert (None if refused is None else refused.code) is code
    assert cluster.asked == [Ref(DEVICE, "", "n2")]


def test_no_device_is_asked_for_where_none_is_known_or_needed() -> None:
    bench = DeviceBench(node("n1"), node("n2"))
    plugin = bench.plugin()
    assert plugin.pre_bind_pre_flight(CycleState(), gpus("a", 100).info(), "n1") is SKIP
    bench.describe(device("n1", gpus=T8))
    assert plugin.pre_bind_pre_flight(CycleState(), pod("b").cpu("1").info(), "n2") is SKIP


def test_what_an_earlier_attempt_has_written_is_taken_back_where_nothing_is_allocated() -> None:
    bench = DeviceBench(node("n1"))
    plugin = bench.plugin()
    stale = holding(gpus("a", 100), gpu=[3])
    assert bench.bind(plugin, stale, "n1") is None
    (changes,) = noted_changes(_prebound(plugin, stale), stale.build())
    assert changes.annotations == {DEVICE_ALLOCATED: None}


def _prebound(plugin: DeviceShare, made: PodBuilder) -> CycleState:
    state = CycleState()
    assert plugin.pre_bind_pre_flight(state, made.info(), "n1") is None
    asyncio.run(plugin.pre_bind(state, made.info(), "n1"))
    return state


# Designated allocations


def test_a_designated_allocation_is_what_the_pod_gets_or_nothing() -> None:
    bench, plugin = one_node()
    wanted = holding(gpus("a", 100), gpu=[5]).annotation(SCHEDULING_HINT, DESIGNATED)
    assert bench.reserve(plugin, wanted, "n1")[1] == {"gpu": [5]}
    assert bench.reasons(plugin, holding(gpus("b", 100), gpu=[5]).annotation(SCHEDULING_HINT, DESIGNATED)) == {"n1": NO_ROOM}
    ignored = holding(gpus("b", 100), gpu=[5])
    assert bench.reserve(plugin, ignored, "n1")[1] == {"gpu": [4]}


def test_a_designated_gpu_that_is_not_there_refuses_the_node_and_not_the_cycle() -> None:
    bench, plugin = one_node(gpus="2")
    wanted = holding(gpus("a", 100), gpu=[7]).annotation(SCHEDULING_HINT, DESIGNATED)
    refused = bench.filter(plugin, wanted)["n1"]
    assert refused is not None
    text = "fillGPUTotalMem failed: no healthy gpu device with minor 7 of allocation"
    assert (refused.code, refused.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
    found = bench.reserve(plugin, wanted, "n1")[1]
    assert isinstance(found, Status)
    assert (found.code, found.message) == (Code.ERROR, f"{text}, node: n1")


# NUMA hints


def test_hints_prefer_the_fewest_numa_nodes() -> None:
    # Checklist 17: with minor 0 used, four GPUs fit into NUMA node 1 alone.
    bench, plugin = one_node()
    bench.put(holding(pod("there"), gpu=[0]), "n1")
    info, state = gpus("a", 400).info(), CycleState()
    plugin.pre_filter(state, info, bench.cache.nodes())
    there = bench.cache.node("n1")
    assert there is not None
    assert plugin.hints(state, info, there) == {"gpu": [(0b10, 500, True), (0b11, 500, False)]}
    refused = plugin.hints(state, gpus("b", 800).info(), there)
    assert refused == {"gpu": [(0b10, 500, True), (0b11, 500, False)]}  # the state's demand counts, as in a cycle
    state = CycleState()
    plugin.pre_filter(state, gpus("b", 800).info(), bench.cache.nodes())
    refused = plugin.hints(state, gpus("b", 800).info(), there)
    assert isinstance(refused, Status)
    assert refused.reasons == NO_ROOM


def test_devices_come_from_the_numa_nodes_that_were_agreed_on() -> None:
    bench, plugin = one_node()
    assert bench.reserve(plugin, gpus("a", 100), "n1", affinity=0b10)[1] == {"gpu": [4]}
    assert isinstance(bench.reserve(plugin, gpus("b", 400), "n1", affinity=0b10)[1], Status)
    unaligned = bench.plugin(disable_device_numa_topology_alignment=True)
    assert not unaligned.wants(gpus("c", 100).info())
    assert bench.reserve(unaligned, gpus("c", 100), "n1", affinity=0b01)[1] == {"gpu": [5]}


def test_a_designated_allocation_has_one_hint() -> None:
    bench, plugin = one_node()
    there = bench.cache.node("n1")
    assert there is not None
    wanted = holding(gpus("a", 200), gpu=[1, 5]).annotation(SCHEDULING_HINT, DESIGNATED)
    assert plugin.hints(CycleState(), wanted.info(), there) == {"gpu": [(0b11, 500, True)]}
    absent = holding(gpus("a", 200), gpu=[1, 9]).annotation(SCHEDULING_HINT, DESIGNATED)
    refused = plugin.hints(CycleState(), absent.info(), there)
    assert isinstance(refused, Status)
    assert refused.message == "Designated Allocation Lack NUMA Node ID"


# Events


def test_events_help_where_the_node_would_do_now() -> None:
    bench, plugin = one_node(gpus="1")
    other = holding(pod("there"), gpu=[0])
    bench.put(other, "n1")
    waiting = gpus("a", 100)
    labels = [str(event.event.label) for event in registered(plugin)]
    assert len(labels) == 6
    there = other.on("n1").build()
    assert hint(plugin, 0, waiting, there, None) is QueueingHint.SKIP
    bench.cache.remove_pod(other.info().uid)
    assert hint(plugin, 0, waiting, there, None) is QueueingHint.QUEUE
    assert hint(plugin, 0, gpus("a", 200), there, None) is QueueingHint.SKIP
    assert hint(plugin, 1, waiting, there, there) is QueueingHint.SKIP
    assert hint(plugin, 1, waiting, there, pod("there").on("n1").build()) is QueueingHint.QUEUE
    assert hint(plugin, 2, waiting, None, waiting.label("a", "b").build()) is QueueingHint.QUEUE
    assert hint(plugin, 2, waiting, None, gpus("b", 100).build()) is QueueingHint.SKIP
    assert hint(plugin, 3, waiting, None, node("n1").build()) is QueueingHint.QUEUE
    assert hint(plugin, 3, waiting, None, node("n2").build()) is QueueingHint.SKIP
    made = device("n1", gpus="1", unhealthy={"gpu": [0]})
    bench.describe(made)
    assert hint(plugin, 4, waiting, None, made) is QueueingHint.SKIP
    bench.describe(device("n1", gpus="1"))
    assert hint(plugin, 4, waiting, made, device("n1", gpus="1")) is QueueingHint.QUEUE
    npu = pod("npu").request("koordinator.sh/gpu.shared", "1").request("huawei.com/npu-core", "2")
    npu = npu.request("huawei.com/npu-cpu", "1").request("koordinator.sh/gpu-memory", "3Gi")
    assert hint(plugin, 5, waiting, None, None) is QueueingHint.SKIP
    assert hint(plugin, 5, npu, None, None) is QueueingHint.QUEUE
    assert plugin.has_version(npu.info())
    assert not plugin.has_version(waiting.info())


def test_removals_may_help_where_pods_hold_devices() -> None:
    bench = DeviceBench(node("n1"), node("n2"))
    plugin = bench.plugin()
    bench.describe(device("n1", gpus="1"), device("n2", gpus="1"))
    bench.put(holding(pod("there"), gpu=[0]), "n2")
    nodes, info, state = bench.cache.nodes(), gpus("a", 100).info(), CycleState()
    plugin.pre_filter(state, info, nodes)
    codes = plugin.filter_nodes(state, info, nodes)
    assert codes is not None
    flags = plugin.affected_by_removals(state, info, nodes, codes)
    assert flags is not None
    assert {nodes.info(int(row)).name: bool(flag) for row, flag in zip(nodes.rows, flags, strict=True)} == {"n1": False, "n2": True}
    assert plugin.follows_pods


# HTTP


def test_the_endpoint_sums_up_what_nodes_have() -> None:
    bench, plugin = one_node(gpus="2", nics="1")
    xpu = {"type": "xpu", "minor": 0, "health": True, "resources": {"example.com/xpu": "1"}}
    bench.describe(device("n1", gpus="2", nics="1", more=[xpu], unhealthy={"gpu": [1]}))
    bench.put(holding(pod("a"), gpu={0: 50}), "n1")
    every, one = (route.answer for route in plugin.routes())
    assert every({}).body == {"n1": one({"name": "n1"}).body}
    assert one({"name": "n1"}).body == {
        "deviceTotal": {
            "example.com/xpu": "1",
            "koordinator.sh/gpu-core": "100",
            "koordinator.sh/gpu-memory": "80Gi",
            "koordinator.sh/gpu-memory-ratio": "100",
            "koordinator.sh/rdma": "100",
        },
        "deviceTotalDetail": {
            "gpu": {
                0: {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi", "koordinator.sh/gpu-memory-ratio": "100"},
                1: {},
            },
            "rdma": {0: {"koordinator.sh/rdma": "100"}},
            "xpu": {0: {"example.com/xpu": "1"}},
        },
        "deviceFree": {
            "example.com/xpu": "1",
            "koordinator.sh/gpu-core": "50",
            "koordinator.sh/gpu-memory": "40Gi",
            "koordinator.sh/gpu-memory-ratio": "50",
            "koordinator.sh/rdma": "100",
        },
        "deviceFreeDetail": {
            "gpu": {
                0: {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "40Gi", "koordinator.sh/gpu-memory-ratio": "50"},
                1: {},
            },
            "rdma": {0: {"koordinator.sh/rdma": "100"}},
            "xpu": {0: {"example.com/xpu": "1"}},
        },
        "deviceUsed": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "40Gi", "koordinator.sh/gpu-memory-ratio": "50"},
        "deviceUsedDetail": {
            "gpu": {0: {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "40Gi", "koordinator.sh/gpu-memory-ratio": "50"}}
        },
        "allocateSet": {
            "gpu": {
                "default/a": {
                    0: {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "40Gi", "koordinator.sh/gpu-memory-ratio": "50"}
                }
            }
        },
    }
    missing = one({"name": "n2"})
    assert (missing.status, missing.body) == (404, {"message": "cannot find node n2"})
