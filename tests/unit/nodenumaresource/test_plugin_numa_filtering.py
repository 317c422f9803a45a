"""Which nodes are refused, with which words, and when the plugin need not be asked at all: nodenumaresource.md §4, §5, §14, §15."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.numa import NumaBench, holding, lsr, topology
from support.plugins import hint, registered

from koordsched._core.change import NodeChange
from koordsched._core.hint_source import HintTable, NumaHintSource
from koordsched._core.numa_facts import Hint, HintAnswer
from koordsched.api.koordinator.pods import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, RESOURCE_STATUS
from koordsched.config.koordinator_args import NodeNUMAResourceArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable
from koordsched.framework.topologymanager import NumaAffinity, NumaHintProvider, share_topology_manager
from koordsched.plugins.nodenumaresource.plugin import NodeNUMAResource
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo

POLICY = "node.koordinator.sh/numa-topology-policy"
BIND = "node.koordinator.sh/cpu-bind-policy"
RATIO = "node.koordinator.sh/resource-amplification-ratio"
HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
N1 = node("n1").cpu("16").memory("64Gi")
SINGLE, RESTRICTED = N1.label(POLICY, "SingleNUMANode"), N1.label(POLICY, "Restricted")
FULL_ONLY = N1.label(BIND, "FullPCPUsOnly")


@pytest.fixture
def bench() -> NumaBench:
    return NumaBench()


@pytest.fixture
def plugin(bench: NumaBench) -> NodeNUMAResource:
    made = NodeNUMAResource(NodeNUMAResourceArgs(), bench)
    share_topology_manager([made])
    return made


def required(policy: str, cpus: int | str = 4) -> PodBuilder:
    return lsr(cpus=cpus).annotation(RESOURCE_SPEC, json.dumps({"requiredCPUBindPolicy": policy}))


def wants(policy: str, exclusive: str = "") -> str:
    return json.dumps({"numaTopologyPolicy": policy} | ({"singleNUMANodeExclusive": exclusive} if exclusive else {}))


def refused_whole(bench: NumaBench, plugin: NodeNUMAResource, builder: PodBuilder) -> PreFilterResult | Status | None:
    return bench.pre_filter(plugin, builder)


# The pod as a whole


def test_annotations_that_cannot_be_read_are_an_error_that_names_them(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    for key in (RESOURCE_SPEC, NUMA_TOPOLOGY_SPEC):
        status = refused_whole(bench, plugin, lsr().annotation(key, "{bad"))
        assert isinstance(status, Status)
        assert status.code is Code.ERROR
        assert status.message.startswith(f"{key}: ")


def test_a_pod_that_requests_nothing_is_left_alone(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bench.set(FULL_ONLY)
    assert refused_whole(bench, plugin, pod("p")) == SKIP
    assert bench.score(plugin, pod("p")) is None


def test_a_fraction_of_a_cpu_cannot_be_bound(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    assert refused_whole(bench, plugin, lsr(cpus="2500m")) == unresolvable("the requested CPUs must be integer")


def test_a_numa_policy_that_is_none_matches_no_node(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    """D3."""
    foo = pod("p").cpu("1").annotation(NUMA_TOPOLOGY_SPEC, wants("Foo"))
    assert refused_whole(bench, plugin, foo) == unresolvable("node(s) NUMA Topology policy not match")


def test_too_many_resources_are_refused_with_a_word(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    many = lsr()
    for i in range(48):
        many = many.request(f"example.com/r{i}", "1")
    text = "the pod requests 49 resources, of which at most 48 can be taken from NUMA nodes"
    assert refused_whole(bench, plugin, many) == unresolvable(text)


# Who is asked


def test_a_pod_that_asks_for_nothing_itself_is_filtered_only_while_a_node_demands_something(
    bench: NumaBench, plugin: NodeNUMAResource
) -> None:
    plain = pod("p").cpu("1")
    assert plugin.has_version(plain.info())
    bench.set(N1)
    assert refused_whole(bench, plugin, plain) == SKIP
    before = plugin.version(plain.info())
    for demanding in (FULL_ONLY, SINGLE, N1.annotation(RATIO, '{"cpu":1.5}'), N1.annotation(RATIO, "{")):
        bench.set(demanding)
        assert refused_whole(bench, plugin, plain) is None
        assert plugin.version(plain.info()) != before
        bench.set(N1)
        assert (refused_whole(bench, plugin, plain), plugin.version(plain.info())) == (SKIP, before)


def test_a_pod_that_asks_by_itself_is_always_filtered(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    for asking in (lsr(), pod("p").cpu("1").annotation(NUMA_TOPOLOGY_SPEC, wants("Restricted"))):
        assert not plugin.has_version(asking.info())
        assert refused_whole(bench, plugin, asking) is None


def test_a_signature_covers_what_decides(plugin: NodeNUMAResource) -> None:
    plain = pod("p").cpu("4").label("app", "x")
    assert plugin.sign(plain.info()) == plugin.sign(plain.annotation("other", "y").label("koordinator.sh/qosClass", "LS").info())
    differing = [
        plain,
        pod("p").cpu("3"),
        lsr(),
        lsr().label("koordinator.sh/priority-class", "koord-mid"),
        lsr().priority(7500),
        lsr().annotation(RESOURCE_SPEC, "{}"),
        plain.annotation(NUMA_TOPOLOGY_SPEC, wants("Restricted")),
        plain.annotation(HINT, '{"extensions":{"NodeNUMAResource":{}}}').annotation(RESOURCE_STATUS, '{"cpuset":"0-3"}'),
        plain.annotation(HINT, '{"extensions":{"NodeNUMAResource":{}}}').annotation(RESOURCE_STATUS, '{"cpuset":"4-7"}'),
    ]
    assert len({plugin.sign(builder.info()) for builder in differing}) == len(differing)


# Nodes


@pytest.mark.parametrize(
    ("machine", "asking", "refusal"),
    [
        ((N1, ""), lsr(), unresolvable("node(s) invalid CPU Topology")),
        ((N1, "2x1x4x2"), lsr(), None),
        (
            (SINGLE, "2x1x4x2"),
            lsr().annotation(NUMA_TOPOLOGY_SPEC, wants("Restricted")),
            unresolvable("node(s) NUMA Topology policy not match"),
        ),
        ((FULL_ONLY, "2x1x4x2"), pod("ls").cpu("1500m"), unresolvable("the requested CPUs must be integer")),
        ((FULL_ONLY, "2x1x4x2"), pod("ls").cpu("3"), unresolvable("node(s) requested cpus not multiple cpus per core")),
        (
            (FULL_ONLY, "2x1x4x2"),
            required("SpreadByPCPUs"),
            unresolvable("node(s) cpu bind policy conflicts with pod's required cpu bind policy"),
        ),
        ((N1.annotation(RATIO, "{"), "2x1x4x2"), lsr(), unresolvable("node(s) invalid CPU amplification ratio")),
        ((N1.annotation(RATIO, '{"cpu":4}'), "2x1x4x2"), lsr(cpus=5), unschedulable("Insufficient amplified cpu")),
        ((N1, "1x1x1x2"), required("FullPCPUs"), unschedulable("not enough cpus available to satisfy request")),
        ((N1, "1x1x1x2"), lsr(), unschedulable("not enough cpus available to satisfy request")),  # D1
        ((SINGLE, ""), pod("ls").cpu("1"), unresolvable("node(s) missing NUMA resources")),
        ((N1.label(POLICY, "BestEffort"), "2x1x4x2"), pod("ls").cpu("17"), unschedulable("Insufficient NUMA cpu")),  # D21
        ((SINGLE, "2x1x4x2"), pod("ls").cpu("17"), unschedulable("Unsatisfied NUMA cpu")),
        ((SINGLE, "2x1x4x2"), pod("ls").cpu("9"), unschedulable("Unaligned NUMA Hint cause cpu prefer [11] among [11]")),
        ((RESTRICTED, "2x1x4x2"), pod("ls").cpu("9"), None),
    ],
)
def test_each_refusal_has_its_words(
    bench: NumaBench, plugin: NodeNUMAResource, machine: tuple[NodeBuilder, str], asking: PodBuilder, refusal: Status | None
) -> None:
    builder, layout = machine
    bench.set(builder)
    if layout:
        bench.describe(topology("n1", layout))
    assert bench.filter(plugin, asking) == {"n1": refusal}


# Designated allocations


def designated(cpuset: str, amounts: dict[int, dict[str, str]] | None = None, cpus: int = 4) -> PodBuilder:
    return holding(lsr(cpus=cpus), cpuset, amounts).annotation(HINT, '{"extensions":{"NodeNUMAResource":{}}}')


NOT_ENOUGH = unschedulable("not enough cpus available to satisfy request")


@pytest.mark.parametrize(
    ("asking", "refusal"),
    [
        (designated("8-11"), None),
        (designated("8-10"), NOT_ENOUGH),  # not as many as requested
        (designated("2-5"), NOT_ENOUGH),  # 2 and 3 are another pod's (D13)
        (designated("16-19"), NOT_ENOUGH),  # not there
        (designated("8-11", {1: {"cpu": "4"}}), None),
        (designated("8-11", {0: {"cpu": "4"}}), NOT_ENOUGH),  # CPUs of the other NUMA node
        (designated("", {1: {"cpu": "4"}}), NOT_ENOUGH),  # it would get CPUs, and none are designated
        (designated("", {0: {"cpu": "6"}}, 6), unschedulable("Insufficient NUMA cpu")),  # 4 of 8 are left (D13)
        (designated("", {7: {"cpu": "4"}}), unresolvable("insufficient resources on NUMA Node")),
        (designated("8-11").annotation(RESOURCE_SPEC, '{"requiredCPUBindPolicy":"FullPCPUs"}'), None),
        (
            designated("8,10,12,14").annotation(RESOURCE_SPEC, '{"requiredCPUBindPolicy":"FullPCPUs"}'),
            unschedulable("insufficient CPUs to satisfy required cpu bind policy FullPCPUs"),
        ),
        (designated("8,10,12,14").annotation(RESOURCE_SPEC, '{"requiredCPUBindPolicy":"SpreadByPCPUs"}'), None),
    ],
)
def test_a_designated_allocation_is_given_exactly_or_refused(
    bench: NumaBench, plugin: NodeNUMAResource, asking: PodBuilder, refusal: Status | None
) -> None:
    """§14, D13."""
    bench.set(N1)
    bench.describe(topology("n1", "2x1x4x2"))
    bench.put(holding(lsr("other"), "0-3", {0: {"cpu": "4"}}), "n1")
    assert bench.filter(plugin, asking) == {"n1": refusal}


def test_a_designation_of_nothing_designates_nothing(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bench.set(RESTRICTED)
    bench.describe(topology("n1", "2x1x4x2"))
    state, info = CycleState(), designated("").info()
    assert plugin.pre_filter(state, info, bench.cache.nodes()) is None
    assert plugin.reserve(state, info, "n1") is None
    allocation = plugin._numa.held_by(info.uid)
    assert allocation is not None
    assert (allocation.cpus, allocation.amounts) == (0b1111, {0: {"cpu": 4000}})  # from one NUMA node, as the node wants it


def test_what_is_designated_is_reserved(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bench.set(N1)
    bench.describe(topology("n1", "2x1x4x2"))
    state, info = CycleState(), designated("12-15", {1: {"cpu": "4"}}).info()
    assert plugin.pre_filter(state, info, bench.cache.nodes()) is None
    assert plugin.reserve(state, info, "n1") is None
    allocation = plugin._numa.held_by(info.uid)
    assert allocation is not None
    assert (allocation.cpus, allocation.amounts) == (0xF000, {1: {"cpu": 4000}})


def test_a_designation_that_cannot_be_read_is_refused_with_its_key(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bad_status = refused_whole(bench, plugin, designated("4-"))
    bad_hint = refused_whole(bench, plugin, lsr().annotation(HINT, "{"))
    assert isinstance(bad_status, Status)
    assert isinstance(bad_hint, Status)
    assert (bad_status.code, bad_status.message.split(":")[0]) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, RESOURCE_STATUS)
    assert (bad_hint.code, bad_hint.message.split(":")[0]) == (Code.ERROR, HINT)


def test_only_a_hint_with_this_plugins_extension_designates(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bench.set(N1)
    bench.describe(topology("n1", "1x1x4x2"))
    for text in ('{"nodeNames":["n1"]}', '{"extensions":{"DeviceShare":{}}}', ""):
        assert bench.passing(plugin, holding(lsr(), "0-3000").annotation(HINT, text)) == ["n1"]
    old = holding(lsr(), "0-5").annotation("scheduling.koordinator.sh/scheduling-hint", '{"extensions":{"NodeNUMAResource":1}}')
    assert bench.filter(plugin, old) == {"n1": NOT_ENOUGH}


# Hints of other plugins


class Disks(NumaHintProvider):
    """Has a disk on some NUMA nodes of every node; refuses to allocate outside of `allowed`. Asked by kernels if `compiled`."""

    name = "Disks"
    reads = NodeChange.LABELS

    def __init__(self, *numas: int, allowed: int = 3, compiled: bool = False, broken: bool = False) -> None:
        self.masks = [Hint(1 << numa, 0, preferred=True) for numa in numas]
        self.refused = {mask: 1 for mask in range(4) if mask & ~allowed or not mask}
        self.compiled = compiled
        self.broken = broken
        answer = HintAnswer(frozenset({"example.com/disk"}), [(hint.mask or 0, hint.score) for hint in self.masks], refused=self.refused)
        self.source = HintTable(["example.com/disk"], {0: HintAnswer(code=2) if broken else answer})

    def wants(self, pod: PodInfo) -> bool:
        return "example.com/disk" in pod.resources.requests

    def hint_source(self, state: CycleState, pod: PodInfo) -> NumaHintSource | None:
        return self.source if self.compiled else None

    def explain_hint(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return unresolvable("no disks", "at all") if code == 2 else unschedulable("no disk there")

    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        return self.explain_hint(state, pod, 2) if self.broken else {"example.com/disk": self.masks}

    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        code = self.refused.get(affinity.mask or 0)
        return None if code is None else self.explain_hint(state, pod, code)


def with_disks(bench: NumaBench, disks: Disks) -> NodeNUMAResource:
    plugin = NodeNUMAResource(NodeNUMAResourceArgs(), bench)
    share_topology_manager([plugin, disks], [plugin, disks])
    bench.set(SINGLE)
    bench.describe(topology("n1", "2x1x4x2"))
    return plugin


DISK_CHANGE = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "disks.example.com")
DISK_POD = lsr(cpus=4).request("example.com/disk", "1")
both_ways = pytest.mark.parametrize("compiled", [False, True], ids=["in Python", "compiled"])


@both_ways
def test_cpus_come_from_the_numa_node_of_another_plugins_device(bench: NumaBench, compiled: bool) -> None:
    disks = Disks(1, compiled=compiled)
    plugin = with_disks(bench, disks)
    state, info, nodes = CycleState(), DISK_POD.info(), bench.cache.nodes()
    assert plugin.pre_filter(state, info, nodes) is None
    assert bench.filter(plugin, DISK_POD) == {"n1": None}
    aligned, masks = plugin.topology_manager.aligned(disks, state, info, nodes), plugin.topology_manager.masks(disks, state, info, nodes)
    assert aligned is not None
    assert masks is not None
    assert (aligned.tolist(), masks.tolist()) == ([1], [0b10])
    assert plugin.reserve(state, info, "n1") is None
    allocation = plugin._numa.held_by(info.uid)
    assert allocation is not None
    assert (allocation.cpus, plugin.topology_manager.affinity(state, "n1")) == (0x0F00, NumaAffinity(0b10))


@both_ways
def test_a_node_is_refused_where_cpus_and_device_cannot_be_on_one_numa_node(bench: NumaBench, compiled: bool) -> None:
    plugin = with_disks(bench, Disks(1, compiled=compiled))
    bench.put(holding(lsr("other", 6), "8-13", {1: {"cpu": "6"}}), "n1")
    causes = "cpu prefer [01] among [01 11],example.com/disk prefer [10] among [10]"
    refusal = unschedulable(f"Unaligned NUMA Hint cause {causes}")
    assert bench.filter(plugin, DISK_POD) == {"n1": refusal}
    assert bench.filter(plugin, lsr(cpus=4)) == {"n1": None}  # whom the device does not concern
    state, info = CycleState(), DISK_POD.info()
    plugin.pre_filter(state, info, bench.cache.nodes())
    assert plugin.reserve(state, info, "n1") == refusal


@both_ways
def test_hints_of_all_plugins_are_in_the_reasons_where_cpus_alone_would_not_do(bench: NumaBench, compiled: bool) -> None:
    plugin = with_disks(bench, Disks(1, compiled=compiled))
    causes = "cpu prefer [11] among [11],example.com/disk prefer [10] among [10]"
    assert bench.filter(plugin, lsr(cpus=10).request("example.com/disk", "1")) == {
        "n1": unschedulable(f"Unaligned NUMA Hint cause {causes}")
    }


@both_ways
def test_a_trial_that_fails_for_another_plugin_refuses_the_node(bench: NumaBench, compiled: bool) -> None:
    plugin = with_disks(bench, Disks(1, allowed=0b01, compiled=compiled))
    assert bench.filter(plugin, DISK_POD) == {"n1": unschedulable("no disk there")}
    state, info = CycleState(), DISK_POD.info()
    plugin.pre_filter(state, info, bench.cache.nodes())
    assert plugin.reserve(state, info, "n1") == unschedulable("no disk there")
    assert plugin._numa.held_by(info.uid) is None


@both_ways
def test_a_plugin_without_any_hint_refuses_the_node_before_hints_are_merged(bench: NumaBench, compiled: bool) -> None:
    plugin = with_disks(bench, Disks(compiled=compiled, broken=True))
    assert bench.filter(plugin, DISK_POD) == {"n1": unschedulable("no disks, at all")}
    assert bench.filter(plugin, lsr(cpus=400).request("example.com/disk", "1")) == {"n1": unschedulable("no disks, at all")}


@both_ways
def test_best_effort_aligns_in_reserve_alone(bench: NumaBench, compiled: bool) -> None:
    disks = Disks(1, compiled=compiled)
    plugin = with_disks(bench, disks)
    bench.set(N1.label("node.koordinator.sh/numa-topology-policy", "BestEffort"))
    state, info, nodes = CycleState(), DISK_POD.info(), bench.cache.nodes()
    plugin.pre_filter(state, info, nodes)
    assert bench.filter(plugin, DISK_POD) == {"n1": None}
    manager = plugin.topology_manager
    assert manager.aligned(disks, state, info, nodes) is None
    masks = manager.masks(disks, state, info, nodes)
    assert masks is None or masks.tolist() == [0]
    assert plugin.reserve(state, info, "n1") is None
    assert manager.affinity(state, "n1") == NumaAffinity(0b10)


def test_no_provider_is_aligned_by_a_filter_that_runs_later_or_not_at_all(bench: NumaBench) -> None:
    disks = Disks(1, compiled=True)
    plugin = with_disks(bench, disks)
    state, info, nodes = CycleState(), DISK_POD.info(), bench.cache.nodes()
    plugin.pre_filter(state, info, nodes)
    share_topology_manager([plugin, disks], [disks, plugin])
    assert disks.topology_manager.aligned(disks, state, info, nodes) is None
    share_topology_manager([plugin, disks], [disks])
    assert disks.topology_manager.aligned(disks, state, info, nodes) is None
    assert disks.topology_manager.masks(disks, state, info, nodes) is None


def test_a_provider_is_not_aligned_for_pods_that_it_does_not_want(bench: NumaBench) -> None:
    disks = Disks(1, compiled=True)
    plugin = with_disks(bench, disks)
    state, info, nodes = CycleState(), lsr().info(), bench.cache.nodes()
    plugin.pre_filter(state, info, nodes)
    assert plugin.topology_manager.aligned(disks, state, info, nodes) is None
    assert plugin.topology_manager.masks(disks, state, info, nodes) is None


def test_providers_read_what_their_partners_read(bench: NumaBench) -> None:
    alone, disks = NodeNUMAResource(NodeNUMAResourceArgs(), bench).reads, Disks(1)
    plugin = with_disks(bench, disks)
    assert plugin.reads == disks.reads == alone | NodeChange.LABELS


def test_a_partners_version_is_part_of_the_version(bench: NumaBench) -> None:
    class Counted(Disks):
        counter = 0

        def version(self, pod: PodInfo) -> Hashable:
            return self.counter

    disks = Counted(1, compiled=True)
    plugin = with_disks(bench, disks)
    info = DISK_POD.info()
    before = plugin.version(info)
    disks.counter = 1
    assert plugin.has_version(info)
    assert plugin.version(info) != before
    assert not plugin.has_version(lsr().info())
    assert plugin.has_version(pod().cpu("1").info())  # amounts alone: whether some node has a policy


@both_ways
def test_reserve_on_a_node_that_went_away_is_an_error(bench: NumaBench, compiled: bool) -> None:
    plugin = with_disks(bench, Disks(1, compiled=compiled))
    bench.cache.remove_node("n1")
    state, info = CycleState(), DISK_POD.info()
    plugin.pre_filter(state, info, bench.cache.nodes())
    assert plugin.reserve(state, info, "n1") == error('node "n1" not found')


def test_what_a_simulation_shows_is_not_kept_for_score(bench: NumaBench) -> None:
    """Disks on both NUMA nodes; the CPUs of the first are taken in the simulation alone."""
    disks = Disks(0, 1, compiled=True)
    plugin = with_disks(bench, disks)
    bench.put(holding(lsr("other", 8), "0-7", {0: {"cpu": "8"}}), "n1")
    state, info, nodes = CycleState(), DISK_POD.info(), bench.cache.nodes()
    plugin.pre_filter(state, info, nodes)
    manager, node_info = plugin.topology_manager, bench.cache.nodes_by_name["n1"]
    assert mask_of(manager.masks(disks, state, info, nodes)) == 0b10
    with bench.cache.simulate(node_info, remove=list(node_info.pods.values())):
        assert plugin.filter_nodes(state, info, nodes) is not None
        assert mask_of(manager.masks(disks, state, info, nodes)) == 0b01
    assert mask_of(manager.masks(disks, state, info, nodes)) == 0b10


def test_what_an_owner_sees_is_not_kept_for_others(bench: NumaBench) -> None:
    disks = Disks(0, 1, compiled=True)
    plugin = with_disks(bench, disks)
    bench.put(holding(lsr("other", 8), "0-7", {0: {"cpu": "8"}}), "n1")
    bench.cache.credits.grant("me", next(iter(bench.cache.nodes_by_name["n1"].pods)))
    state, info, nodes = CycleState(), DISK_POD.info(), bench.cache.nodes()
    plugin.pre_filter(state, info, nodes)
    plugin.filter_nodes(state, info, nodes)
    with bench.cache.view("me"):
        assert mask_of(plugin.topology_manager.masks(disks, state, info, nodes)) == 0b01
        plugin.filter_nodes(state, info, nodes)
    assert mask_of(plugin.topology_manager.masks(disks, state, info, nodes)) == 0b10


def mask_of(masks: Any) -> int:
    return int(masks[0])


# Events


def test_the_events_that_may_help_are_those_of_pods_nodes_and_topologies(plugin: NodeNUMAResource) -> None:
    nrt = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "noderesourcetopologies.topology.node.k8s.io")
    happened = [
        cluster_event(EventResource.ASSIGNED_POD, ActionType.ADD),
        cluster_event(EventResource.ASSIGNED_POD, ActionType.DELETE),
        cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_OTHER),
        cluster_event(EventResource.NODE, ActionType.ADD),
        cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_LABEL),
        cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_ANNOTATION),
        cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE),
        nrt,
    ]
    assert all(any(known.event.matches(event) for known in registered(plugin)) for event in happened)
    assert not any(known.event.matches(cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)) for known in registered(plugin))


def test_what_helps_a_partner_helps_the_pods_that_it_wants(bench: NumaBench) -> None:
    class Registering(Disks):
        def events_to_register(self) -> Sequence[EventHint]:
            return (EventHint(DISK_CHANGE), EventHint(DISK_CHANGE, lambda *_: QueueingHint.SKIP))

    plugin = with_disks(bench, Registering(1))
    found = [known.hint for known in registered(plugin) if known.event == DISK_CHANGE]
    assert [hint is not None and hint(DISK_POD.info(), None, None) for hint in found] == [QueueingHint.QUEUE, QueueingHint.SKIP]
    assert [hint is not None and hint(lsr().info(), None, None) for hint in found] == 2 * [QueueingHint.SKIP]


def test_a_pod_that_goes_helps_where_its_node_would_do_now_or_after_evictions(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    """D20. Whether evictions would do, and whether there is enough already, is decided by the probe of the waiting pods' shape."""
    bench.set(N1)
    gone, never_ran = lsr("gone").on("n1").build(), lsr("never").build()
    assert hint(plugin, 0, lsr("p"), gone, None) is QueueingHint.SKIP  # the CPUs of n1 are not known
    bench.describe(topology("n1", "1x1x4x2"))
    bench.put(holding(lsr("a"), "0-5"), "n1")
    assert hint(plugin, 0, lsr("wants-2", 2), gone, None) is QueueingHint.QUEUE
    assert hint(plugin, 0, lsr("wants-6", 6), gone, None) is QueueingHint.QUEUE
    assert hint(plugin, 0, lsr("wants-2", 2), never_ran, None) is QueueingHint.SKIP


def test_a_pod_that_changes_helps_only_if_there_are_enough_cpus_then(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bench.set(N1)
    bench.describe(topology("n1", "1x1x4x2"))
    bench.put(holding(lsr("a"), "0-5"), "n1")
    before = after = lsr("a").on("n1").build()
    assert hint(plugin, 0, lsr("wants-2", 2), before, after) is QueueingHint.QUEUE
    assert hint(plugin, 0, lsr("wants-6", 6), before, after) is QueueingHint.SKIP
    assert hint(plugin, 0, lsr("wants-2", 2), lsr("b").build(), lsr("b").build()) is QueueingHint.SKIP


def test_the_waiting_pods_own_change_helps(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    before, after = lsr("p", "2500m"), lsr("p", 2)
    assert hint(plugin, 0, before, before.build(), after.build()) is QueueingHint.QUEUE


def test_a_node_or_topology_helps_if_it_would_do_now(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bench.set(N1)
    nrt = topology("n1", "2x1x4x2")
    assert hint(plugin, 1, lsr(), None, N1.build()) is QueueingHint.SKIP
    assert hint(plugin, 2, lsr(), None, nrt) is QueueingHint.SKIP  # it is not taken over yet
    bench.describe(nrt)
    assert hint(plugin, 1, lsr(), None, N1.build()) is QueueingHint.QUEUE
    assert hint(plugin, 2, lsr(), None, nrt) is QueueingHint.QUEUE
    assert hint(plugin, 2, lsr(cpus="2500m"), None, nrt) is QueueingHint.SKIP
    assert hint(plugin, 2, lsr(), None, topology("elsewhere")) is QueueingHint.SKIP


# Score


def test_a_node_is_scored_by_what_would_be_requested(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bench.set(node("n1").cpu("16").memory("64Gi"))
    bench.set(node("n2").cpu("16").memory("64Gi"))
    bench.put(pod("other").cpu("8").memory("16Gi"), "n2")
    # (16-4)/16 = 75 %, (64-16)/64 = 75 %; on n2 (8-4)/16 = 25 % and (48-16)/64 = 50 %, of which 37 is the mean, rounded down
    assert bench.score(plugin, pod("p").cpu("4").memory("16Gi")) == {"n1": 75, "n2": 37}
