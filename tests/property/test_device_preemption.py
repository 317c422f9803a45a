"""A more important pod that needs devices evicts exactly the pods that trying one after the other would evict (framework.md §7.4)."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node, pod
from support.devices import allocation, device, gpus, holding
from support.world import Setup, World

from koordsched.api.kinds import POD_DISRUPTION_BUDGET
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATE_HINT, DEVICE_ALLOCATED, DEVICE_JOINT_ALLOCATE, GPU_PARTITION_SPEC
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.preemption.candidates import CandidateFinder, PreemptionCandidate, refusal_of
from koordsched.framework.preemption.estimate import Preemptor
from koordsched.framework.preemption.rules import PreemptionRules, VictimRule
from koordsched.framework.preemption.victims_index import DisruptionBudgets, VictimsIndex
from koordsched.framework.status import Code, Status
from koordsched.plugins.deviceshare.check import device_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.builders import PodBuilder

    from koordsched.api.podinfo import PodInfo

PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: DeviceShare}]}}}]
"""
CARDS = 4
PARTITIONS = {
    "scheduling.koordinator.sh/gpu-partitions": json.dumps({"1": [{"minors": [m]} for m in range(CARDS)], "2": [{"minors": [1, 2]}]})
}
Running = list[tuple[int, int, int, bool]]
"""By card: percent of it, the pod's priority, when it started, and whether a function of its NIC is used too."""

cards = st.tuples(st.sampled_from([0, 50, 50, 100]), st.integers(0, 3), st.integers(0, 9), st.booleans())
running = st.lists(cards, min_size=CARDS, max_size=CARDS)
DEVICES = ["as usual", "as usual", "partitions", "none", "fewer"]
"""What the Device of a node says: nothing there is none; of fewer GPUs than pods hold."""


def whole(name: str) -> PodBuilder:
    return gpus(name, 100)


def half(name: str) -> PodBuilder:
    return gpus(name, 50)


def two(name: str) -> PodBuilder:
    return gpus(name, 200)


def two_of_a_scope(name: str) -> PodBuilder:
    return two(name).annotation(DEVICE_ALLOCATE_HINT, '{"gpu":{"requiredTopologyScope":"NUMANode"}}')


def two_of_a_partition(name: str) -> PodBuilder:
    return two(name).annotation(GPU_PARTITION_SPEC, "{}")


def with_interface(name: str) -> PodBuilder:
    joint = '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'
    return two(name).request("koordinator.sh/rdma", "50").annotation(DEVICE_JOINT_ALLOCATE, joint)


def with_function(name: str) -> PodBuilder:
    return whole(name).request("koordinator.sh/rdma", "1").annotation(DEVICE_ALLOCATE_HINT, '{"rdma":{"vfSelector":{}}}')


def interface(name: str) -> PodBuilder:
    return pod(name).request("koordinator.sh/rdma", "100")


def halves_of_two(name: str) -> PodBuilder:
    return pod(name).request("koordinator.sh/gpu.shared", "2").request("koordinator.sh/gpu-memory-ratio", "100")


REQUESTS = [whole, half, two, two_of_a_scope, two_of_a_partition, with_interface, with_function, interface, halves_of_two]


def cluster(nodes: list[tuple[Running, str]]) -> World:
    world = World(Setup(PROFILE))
    state = device_state(world)
    for i, (cards, described) in enumerate(nodes):
        name = f"n{i}"
        made = (
            node(name)
            .cpu("64")
            .allocatable("koordinator.sh/gpu", "400")
            .allocatable("koordinator.sh/rdma", "200")
            .allocatable("koordinator.sh/gpu.shared", "400")
            .allocatable("koordinator.sh/gpu-memory-ratio", "400")
        )
        world.cache.set_node(made.build())
        if described != "none":
            layout = "2x1x1" if described == "fewer" else "2x1x2"
            state.set_device(device(name, gpus=layout, nics="2,3", annotations=PARTITIONS if described == "partitions" else None))
        functions = iter([0, 0, 0, 1, 1, 1])
        buses = vf_buses(world, name)
        for minor, (percent, priority, started, networked) in enumerate(cards):
            for part in range(100 // percent if percent else 0):
                low = gpus(f"low-{i}-{minor}-{part}", percent).priority(priority).started(f"2026-01-01T00:0{started}:{part:02d}Z")
                low = holding(low, gpu={minor: percent})
                if networked and buses:
                    low = holding_function(low, minor, percent, next(functions, 0), buses.pop(0)).request("koordinator.sh/rdma", "1")
                world.cache.set_pod(low.on(name).info(counted_on_node=True), name)
    return world


def vf_buses(world: World, name: str) -> list[str]:
    entry = device_state(world).entries.get(name)
    infos = [] if entry is None or entry.device is None else entry.device.spec.devices
    return [function.bus_id for info in infos for group in info.vf_groups for function in group.vfs]


def holding_function(builder: PodBuilder, minor: int, percent: int, nic: int, bus: str) -> PodBuilder:
    """Let the pod hold a share of a GPU and a function of a NIC."""
    held = json.loads(allocation(gpu={minor: percent}, rdma={nic: 1}))
    held["rdma"][0]["extension"] = {"vfs": [{"minor": -1, "busID": bus}]}
    return builder.annotation(DEVICE_ALLOCATED, json.dumps(held))


def finder_of(world: World) -> CandidateFinder:
    rules = PreemptionRules(plugin="Test", victims=VictimRule())
    budgets = DisruptionBudgets(world.informer(POD_DISRUPTION_BUDGET))
    return CandidateFinder(world.cache, world.nominator, VictimsIndex(world.cache, budgets, rules.victims), budgets, rules)


def check(world: World, finder: CandidateFinder, info: PodInfo) -> PreemptionCandidate | None:
    """Check what the finder answers against trying one pod after the other on every node; return its best candidate."""
    found = world.find(info)
    if not isinstance(found, Diagnosis):
        return None
    preemptor = Preemptor(info, found, world.simulation(info))
    before = tables(world)
    best = finder.best(preemptor, 1000)
    assert tables(world) == before
    nodes = list(world.cache.nodes_by_name.values())
    resolvable = [each.row for each in nodes if (status := found.status_of(each.row)) is None or status.code is Code.UNSCHEDULABLE]
    tried = [finder.select_victims(preemptor, row) for row in resolvable]
    candidates = [each for each in tried if isinstance(each, PreemptionCandidate)]
    if not candidates:
        assert isinstance(best, Status)
        assert best.message == refusal_of(len(nodes), Counter(each for each in tried if isinstance(each, Status)), finder.rules).message
        return None
    assert isinstance(best, PreemptionCandidate)
    assert [victim.uid for victim in best.victims] in [
        [victim.uid for victim in each.victims] for each in candidates if each.row == best.row
    ]
    assert finder.rank(best) == min(map(finder.rank, candidates))
    return best


def tables(world: World) -> list[object]:
    """Return all that the columns say of devices."""
    state = device_state(world)
    return [state.table.summary(entry.index) for entry in state.entries.values()]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(running, st.sampled_from(DEVICES)), min_size=1, max_size=4),
    st.sampled_from(REQUESTS),
    st.integers(1, 4),
)
def test_victims_are_those_of_trying_one_pod_after_the_other(
    nodes: list[tuple[Running, str]], request: Callable[[str], PodBuilder], priority: int
) -> None:
    world = cluster(nodes)
    check(world, finder_of(world), world.signed(request("high").priority(priority).info()))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(running, st.just("as usual")), min_size=2, max_size=4),
    st.sampled_from(REQUESTS),
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["leave", "nominate", "victims leave", "come", "describe", "nothing"])),
        min_size=1,
        max_size=6,
    ),
)
def test_victims_are_those_of_the_cluster_as_it_is_by_then(
    nodes: list[tuple[Running, str]], request: Callable[[str], PodBuilder], changes: list[tuple[int, str]]
) -> None:
    world = cluster(nodes)
    finder = finder_of(world)
    for serial, (i, change) in enumerate(changes):
        best = check(world, finder, world.signed(request(f"high-{serial}").priority(4).info()))
        there = world.cache.nodes_by_name[f"n{i % len(nodes)}"]
        gone: list[str] = []
        if change == "leave":
            gone = list(there.pods)[:1]
        elif change == "victims leave" and best is not None:
            gone = [victim.uid for victim in best.victims]
        elif change == "nominate":
            world.nominator.set(world.signed(request(f"nominated-{serial}").priority(4).info()), there.name)
        elif change == "come":
            low = holding(gpus(f"new-{serial}", 10), gpu={serial % CARDS: 10}).on(there.name)
            world.cache.set_pod(low.info(counted_on_node=True), there.name)
        elif change == "describe":
            device_state(world).set_device(device(there.name, gpus="2x1x2", nics="2,3", unhealthy={"gpu": [serial % CARDS]}))
        for uid in gone:
            world.cache.remove_pod(uid)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(running, st.sampled_from(DEVICES)), min_size=9, max_size=14),
    st.sampled_from(REQUESTS),
    st.integers(1, 4),
)
def test_the_best_of_many_nodes_is_found_though_not_all_filters_are_asked_about_each(
    nodes: list[tuple[Running, str]], request: Callable[[str], PodBuilder], priority: int
) -> None:
    world = cluster(nodes)
    info = world.signed(request("high").priority(priority).info())
    best = check(world, finder_of(world), info)
    found = world.find(info)
    if isinstance(found, Diagnosis):
        assert finder_of(world).may_exist(Preemptor(info, found, world.simulation(info))) or best is None


@pytest.mark.parametrize("used", [2, 1], ids=["amounts refuse", "devices refuse"])
def test_no_node_is_simulated_where_each_card_holds_halves_and_a_whole_one_is_wanted(monkeypatch: pytest.MonkeyPatch, used: int) -> None:
    """Amounts alone would choose any two halves, or with one half on each card none at all."""
    world = cluster([([(50, 0, i % 10, False)] * CARDS, "as usual") for i in range(40)])
    for name in [] if used == 2 else list(world.cache.pods):
        if name.endswith("-1"):
            world.cache.remove_pod(name)
    finder = finder_of(world)
    monkeypatch.setattr(finder, "select_victims", None)
    info = world.signed(whole("high").priority(4).info())
    found = world.find(info)
    assert isinstance(found, Diagnosis)
    best = finder.best(Preemptor(info, found, world.simulation(info)), 1000)
    assert isinstance(best, PreemptionCandidate)
    assert len(best.victims) == used
    assert len({victim.pod.metadata.name.rsplit("-", 1)[0] for victim in best.victims}) == 1  # of one card


def test_a_plain_pod_beside_those_with_devices_stays() -> None:
    """The reprieve puts back what has no part in it, however unimportant it is."""
    world = cluster([([(100, 0, 0, False)] * CARDS, "as usual")])
    world.cache.set_pod(pod("plain").priority(-10).cpu("1").on("n0").info(counted_on_node=True), "n0")
    best = check(world, finder_of(world), world.signed(whole("high").priority(4).info()))
    assert best is not None
    assert [victim.pod.metadata.name for victim in best.victims] == ["low-0-3-0"]


def test_the_last_of_as_many_devices_as_a_node_can_have_is_given_back() -> None:
    world = World(Setup(PROFILE))
    world.cache.set_node(node("n0").cpu("64").pods(200).allocatable("koordinator.sh/gpu", "12800").build())
    device_state(world).set_device(device("n0", gpus="128"))
    for minor in range(128):
        low = holding(gpus(f"low-{minor}", 100), gpu={minor: 100}).started(f"2026-01-01T00:{minor // 60:02d}:{minor % 60:02d}Z")
        world.cache.set_pod(low.on("n0").info(counted_on_node=True), "n0")
    best = check(world, finder_of(world), world.signed(whole("high").priority(4).info()))
    assert best is not None
    assert [victim.pod.metadata.name for victim in best.victims] == ["low-127"]
