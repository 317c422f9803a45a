"""Who holds what on a node: pods that were bound, pods that are reserved for, simulations, and what the table shows of it."""

from collections.abc import Callable

import pytest
from support.builders import node, pod
from support.numa import GIB, NumaBench, holding, lsr, topology

from koordsched._core.numa_facts import CpuCounts, NumaStatus, NumaUsage, ZoneUsage
from koordsched.api.koordinator.cpulist import format_cpus, parse_cpus
from koordsched.api.koordinator.pods import RESOURCE_SPEC, RESOURCE_STATUS
from koordsched.api.koordinator.policies import CpuExclusivePolicy
from koordsched.plugins.nodenumaresource.node_allocations import NodeAllocations, PodAllocation
from koordsched.plugins.nodenumaresource.state import NumaState, numa_state

CPU, MEMORY = 1, 2  # resource ids
A = "uid-default-a"


class Setting:
    """One node of 2x1x4x2 (or another layout), its topology known, and the state."""

    def __init__(self, layout: str = "2x1x4x2") -> None:
        self.bench = NumaBench(node("n1").cpu("64"))
        self.state: NumaState = numa_state(self.bench)
        self.bench.describe(topology("n1", layout, memory=32 * GIB))

    @property
    def node(self) -> NodeAllocations:
        return self.state.node("n1")

    @property
    def bound(self) -> str:
        assert self.node.cpus is not None
        return format_cpus(self.node.cpus.bound)

    def usage(self) -> NumaUsage:
        return self.state.table.usage_of(self.node.index)

    def reserve(self, name: str, cpuset: str, exclusive: CpuExclusivePolicy = CpuExclusivePolicy.NONE) -> None:
        self.state.reserve("n1", PodAllocation.of(lsr(name).info(), parse_cpus(cpuset), exclusive, {}))


def test_a_bound_pod_holds_what_its_annotations_say() -> None:
    setting = Setting()
    setting.bench.put(holding(lsr("a"), "0-3", {0: {"cpu": "4", "memory": "1Gi"}}, exclusive="PCPULevel"), "n1")
    amounts = {0: {"cpu": 4000, "memory": GIB}}
    assert setting.state.held_by(A) == PodAllocation(A, "default", "a", 0b1111, CpuExclusivePolicy.PCPU_LEVEL, amounts)
    assert setting.bound == "0-3"
    assert setting.node.allocated == amounts


def test_the_table_shows_what_is_left() -> None:
    setting = Setting()
    setting.bench.put(holding(lsr("a"), "0-2", {0: {"cpu": "3", "memory": "1Gi"}}), "n1")
    assert setting.usage() == NumaUsage(
        CpuCounts(bound=3, free=13, full=12, first=7),
        {
            0: ZoneUsage({CPU: 3000, MEMORY: GIB}, CpuCounts(bound=3, free=5, full=4, first=3), NumaStatus.SINGLE),
            1: ZoneUsage({}, CpuCounts(bound=0, free=8, full=8, first=4), NumaStatus.IDLE),
        },
    )


def test_reserved_cpus_are_not_free() -> None:
    setting = Setting()
    setting.bench.describe(topology("n1", annotations={"node.koordinator.sh/reservation": {"reservedCPUs": "0"}}))
    assert setting.usage().cpus == CpuCounts(bound=0, free=15, full=14, first=8)


def test_a_pod_that_is_deleted_holds_nothing() -> None:
    setting = Setting()
    before = setting.usage()
    setting.bench.put(holding(lsr("a"), "0-3,8", {0: {"cpu": "4"}}), "n1")
    setting.bench.cache.remove_pod(A)
    assert setting.state.held_by(A) is None
    assert setting.usage() == before
    assert (setting.node.allocated, setting.node.pods, setting.node.single, setting.node.shared) == ({}, {}, {}, {})


@pytest.mark.parametrize(
    "text",
    [
        "{bad",
        '{"cpuset":"x"}',
        '{"cpuset":7}',
        '{"numaNodeResources":[{"node":0,"resources":{"cpu":"-4"}}]}',
        "{}",
        "null",
        '{"cpuset":""}',
    ],
)
def test_a_status_that_says_nothing_readable_holds_nothing(text: str) -> None:
    setting = Setting()
    setting.bench.put(lsr("a").annotation(RESOURCE_STATUS, text), "n1")
    assert setting.state.held_by(A) is None


def test_cpus_are_held_even_if_the_resource_spec_cannot_be_read() -> None:
    setting = Setting()
    setting.bench.put(holding(lsr("a"), "0-3").annotation(RESOURCE_SPEC, "{bad"), "n1")
    assert setting.bound == "0-3"


def test_a_pod_that_changes_nothing_of_it_keeps_what_it_holds() -> None:
    setting = Setting()
    setting.bench.put(holding(lsr("a"), "0-3"), "n1")
    setting.bench.put(holding(lsr("a"), "0-3").label("app", "web"), "n1")
    setting.bench.put(lsr("a"), "n1")  # without annotations
    setting.bench.put(lsr("a").annotation(RESOURCE_STATUS, "{bad"), "n1")
    assert setting.bound == "0-3"


def test_a_pod_whose_annotation_changes_holds_the_new() -> None:
    setting = Setting()
    setting.bench.put(holding(lsr("a"), "0-3"), "n1")
    setting.bench.put(holding(lsr("a"), "8-11"), "n1")
    assert setting.bound == "8-11"
    setting.bench.put(holding(lsr("a"), "8-11", exclusive="PCPULevel"), "n1")
    assert setting.node.pods[A].exclusive == CpuExclusivePolicy.PCPU_LEVEL


def test_what_is_reserved_is_bound_at_once_and_confirmed_later() -> None:
    setting = Setting()
    cache = setting.bench.cache
    cache.assume_pod(lsr("a").info(), "n1")
    setting.reserve("a", "0-3")
    assert setting.bound == "0-3"
    end = cache.table.log_end
    setting.bench.put(holding(lsr("a"), "0-3"), "n1")
    assert setting.bound == "0-3"
    changes = cache.table.changes_since(end)
    assert changes is not None
    assert all(not change & setting.state.change for change in changes[1].tolist())


def test_what_is_reserved_is_released() -> None:
    setting = Setting()
    before = setting.usage()
    setting.bench.cache.assume_pod(lsr("a").info(), "n1")
    setting.reserve("a", "0-3")
    setting.state.release(A)
    setting.state.release(A)
    assert setting.usage() == before
    setting.reserve("a", "4-7")
    setting.bench.cache.forget_pod(A)
    assert setting.usage() == before


def test_what_a_pending_pod_says_counts_only_once_it_is_bound() -> None:
    setting = Setting()
    stale = holding(lsr("a"), "0-3")  # of an attempt whose binding failed
    setting.bench.cache.assume_pod(stale.info(), "n1")
    assert setting.bound == ""
    setting.reserve("a", "8-11")
    setting.bench.cache.set_pod(stale.on("n1").info(counted_on_node=True), "n1")
    assert setting.bound == "0-3"  # what the cluster says is right


def test_reserving_nothing_holds_nothing() -> None:
    setting = Setting()
    setting.reserve("a", "0-3")
    setting.reserve("a", "")
    assert setting.state.held_by(A) is None
    assert setting.bound == ""


def test_reserving_again_replaces() -> None:
    setting = Setting()
    setting.bench.set(node("n2").cpu("64"))
    setting.reserve("a", "0-3")
    setting.reserve("a", "4-7")
    assert setting.bound == "4-7"
    setting.state.reserve("n2", PodAllocation.of(lsr("a").info(), 1, CpuExclusivePolicy.NONE, {}))
    assert setting.bound == ""
    assert setting.state.node("n2").pods.keys() == {A}


def test_each_change_marks_the_row() -> None:
    setting = Setting()
    table = setting.bench.cache.table
    info = setting.bench.cache.nodes_by_name["n1"]
    changes_of_state: tuple[Callable[[], object], ...] = (
        lambda: setting.reserve("a", "0-3"),
        lambda: setting.state.release(A),
        lambda: setting.state.set_max_ref_count("n1", 2),
    )
    for change in changes_of_state:
        end = table.log_end
        change()
        changes = table.changes_since(end)
        assert changes is not None
        assert changes[0].tolist() == [info.row]
        assert changes[1].tolist() == [setting.state.change]


def test_a_simulation_is_shown_and_undone_exactly() -> None:
    setting = Setting()
    cache = setting.bench.cache
    setting.bench.put(holding(lsr("a"), "0-3", {0: {"cpu": "4"}}), "n1")
    cache.assume_pod(lsr("b").info(), "n1")
    setting.reserve("b", "8-11")  # not in any annotation
    held, before, end = dict(setting.node.pods), setting.usage(), cache.table.log_end
    info = cache.nodes_by_name["n1"]
    with cache.simulate(info, remove=list(info.pods.values())):
        assert setting.bound == ""
        assert setting.usage().cpus == CpuCounts(bound=0, free=16, full=16, first=8)
    assert (setting.node.pods, setting.usage(), setting.bound) == (held, before, "0-3,8-11")
    assert cache.table.log_end == end


def test_simulations_may_be_nested() -> None:
    setting = Setting()
    cache = setting.bench.cache
    setting.bench.put(holding(lsr("a"), "0-3"), "n1")
    info = cache.nodes_by_name["n1"]
    victim = info.pods[A]
    with cache.simulate(info, remove=[victim]):
        with cache.simulate(info, add=[victim]):
            assert setting.bound == "0-3"
        assert setting.bound == ""
    assert setting.bound == "0-3"


def test_a_pod_that_a_simulation_adds_holds_nothing() -> None:
    setting = Setting()
    cache = setting.bench.cache
    setting.bench.put(holding(lsr("a"), "0-3"), "n1")
    info = cache.nodes_by_name["n1"]
    nominated = holding(lsr("b"), "8-11").nominated("n1").info()
    with cache.simulate(info, add=[nominated], remove=[info.pods[A]]):
        assert setting.bound == ""
    assert setting.bound == "0-3"


def test_one_numa_node_is_single_and_several_are_shared() -> None:
    setting = Setting("2x2x4x2")  # NUMA nodes of CPUs 0-7, 8-15, 16-23, 24-31
    setting.bench.put(holding(lsr("a"), "0-3"), "n1")
    setting.bench.put(holding(lsr("b"), "8-9,16-17"), "n1")
    setting.bench.put(holding(lsr("c"), "10"), "n1")
    setting.bench.put(holding(pod("d"), "", {3: {"cpu": "2"}}), "n1")  # without CPUs: in no set
    idle, single, shared = NumaStatus
    assert [setting.node.status(numa) for numa in range(4)] == [single, shared, shared, idle]
    assert (setting.node.single, setting.node.shared) == ({0: 1, 1: 1}, {1: 1, 2: 1})
    setting.bench.cache.remove_pod("uid-default-b")
    assert [setting.node.status(numa) for numa in range(4)] == [single, single, idle, idle]


def test_a_cpu_is_free_until_it_is_bound_as_often_as_allowed() -> None:
    setting = Setting()
    setting.state.set_max_ref_count("n1", 2)
    setting.bench.put(holding(lsr("a"), "0-3"), "n1")
    assert setting.usage().cpus == CpuCounts(bound=4, free=16, full=16, first=8)
    setting.bench.put(holding(lsr("b"), "2-5"), "n1")
    assert setting.usage().cpus == CpuCounts(bound=6, free=14, full=14, first=7)
    setting.bench.describe(topology("n1", "2x1x8x2"))
    assert setting.node.max_ref_count == 2
    assert setting.usage().cpus == CpuCounts(bound=6, free=30, full=30, first=15)


def test_a_cpu_is_shared_by_one_pod_at_least() -> None:
    with pytest.raises(ValueError, match="node n1: a CPU cannot be shared by 0 pods"):
        Setting().state.set_max_ref_count("n1", 0)


def test_cpus_that_are_restored_count_as_free() -> None:
    setting = Setting()
    setting.bench.put(holding(lsr("a"), "0-3"), "n1")
    assert setting.node.usage([0b11]).cpus == CpuCounts(bound=4, free=14, full=14, first=7)


def test_cpus_and_zones_that_the_node_lacks_are_remembered_and_not_counted() -> None:
    setting = Setting()
    setting.bench.put(holding(lsr("a"), "14-17", {5: {"cpu": "4"}, 0: {"vendor.com/x": "1", "cpu": "1"}}), "n1")
    assert setting.bound == "14-15"
    assert setting.usage().zones[0].allocated == {CPU: 1000}
    setting.bench.describe(topology("n1", "2x1x8x2"))
    assert setting.bound == "14-17"


def test_amounts_count_without_a_topology_of_cpus() -> None:
    setting = Setting()
    setting.bench.describe(topology("n1", annotations={"node.koordinator.sh/cpu-topology": None}))
    setting.bench.put(holding(lsr("a"), "0-3", {0: {"cpu": "4"}}), "n1")
    assert setting.usage() == NumaUsage(zones={0: ZoneUsage({CPU: 4000}), 1: ZoneUsage()})


def test_resources_that_no_pod_can_request_get_no_id() -> None:
    setting = Setting()
    zones = [
        {"name": "node-0", "type": "Node", "resources": [{"name": "Strange Name", "allocatable": "4"}, {"name": "cpu", "allocatable": "4"}]}
    ]
    setting.bench.describe(topology("n1", zones=zones))
    assert "Strange Name" not in setting.bench.columns.resources
    assert setting.state.table.node_of(setting.node.index).zones == {0: {CPU: 4000}}


def test_pods_wait_for_a_node_that_is_not_there_yet() -> None:
    bench = NumaBench()
    state = numa_state(bench)
    bench.put(holding(lsr("a"), "0-3"), "n1")
    bench.set(node("n1").cpu("64"))
    bench.describe(topology("n1"))
    cpus = state.node("n1").cpus
    assert cpus is not None
    assert format_cpus(cpus.bound) == "0-3"
