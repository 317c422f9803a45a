"""Nodes and NodeResourceTopologies come, change and go in any order, and their mistakes are reported once, where their author looks."""

from typing import Any

from support.builders import node
from support.numa import NumaBench, holding, lsr, topology

from koordsched._core.numa_facts import MALFORMED_RATIO, TopologyState
from koordsched.api.koordinator.cpulist import format_cpus
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaTopologyPolicy
from koordsched.plugins.nodenumaresource.node_allocations import NodeAllocations
from koordsched.plugins.nodenumaresource.state import NumaState, numa_state

LEAST, MOST, EVENLY = AllocateStrategy
CPUS = "node.koordinator.sh/cpu-topology"
RATIO = "node.koordinator.sh/resource-amplification-ratio"
KUBELET = "kubelet.koordinator.sh/cpu-manager-policy"
NUMA_POLICY = "node.koordinator.sh/numa-topology-policy"
BIND_POLICY = "node.koordinator.sh/cpu-bind-policy"
STRATEGY = "node.koordinator.sh/numa-allocate-strategy"
FULL_ONLY: dict[str, Any] = {KUBELET: {"policy": "static", "options": {"full-pcpus-only": "true"}}}
DISTRIBUTED: dict[str, Any] = {KUBELET: {"policy": "static", "options": {"distribute-cpus-across-numa": "true"}}}


def started(bench: NumaBench) -> NumaState:
    return numa_state(bench)


def cpu_of_zones(found: NodeAllocations) -> dict[int, int]:
    return {numa: amounts["cpu"] for numa, amounts in found.zones.items()}


def test_all_profiles_share_one_state() -> None:
    bench = NumaBench()
    assert numa_state(bench) is numa_state(bench)
    assert numa_state(bench) is not numa_state(NumaBench())


def test_an_unknown_node_has_nothing() -> None:
    found = started(NumaBench()).node("nowhere")
    assert (found.topology, found.options, found.zones, found.pods, found.reserved) == (None, None, {}, {}, 0)


def test_what_came_before_the_plugin_is_known_as_well() -> None:
    bench = NumaBench()
    bench.set(node("n1").label(BIND_POLICY, "FullPCPUsOnly"))
    bench.describe(topology("n1"))
    found = started(bench).node("n1")
    assert found.topology is not None
    assert found.bind_policy == CpuBindPolicy.FULL_PCPUS


def test_a_topology_may_come_before_its_node_and_go_after_it() -> None:
    bench = NumaBench()
    state = started(bench)
    bench.describe(topology("n1"))
    bench.set(node("n1"))
    assert state.node("n1").topology is not None
    bench.remove("n1")
    assert state.node("n1").topology is not None
    bench.undescribe("n1")
    assert state.node("n1").topology is None
    assert not state.nodes


def test_a_plain_node_takes_no_memory() -> None:
    bench = NumaBench()
    state = started(bench)
    bench.set(node("n1"))
    assert not state.nodes


def test_the_table_knows_whether_cpus_are_described() -> None:
    bench = NumaBench(node("n1"))
    state = started(bench)
    index = state.node("n1").index
    bench.set(node("n1").label(BIND_POLICY, "SpreadByPCPUs"))
    assert state.table.node_of(index).topology is TopologyState.NONE
    assert state.table.node_of(index).bind_policy == CpuBindPolicy.SPREAD_BY_PCPUS
    bench.describe(topology("n1", annotations={CPUS: None}))
    assert state.table.node_of(index).topology is TopologyState.INVALID
    bench.describe(topology("n1"))
    facts = state.table.node_of(index)
    assert (facts.topology, facts.cpus_per_core, facts.zones) == (TopologyState.VALID, 2, {0: {1: 8000}, 1: {1: 8000}})
    bench.undescribe("n1")
    assert state.table.node_of(index).topology is TopologyState.NONE


def test_kubelets_option_beats_the_label() -> None:
    bench = NumaBench(node("n1").label(BIND_POLICY, "SpreadByPCPUs"))
    state = started(bench)
    bench.describe(topology("n1", annotations=FULL_ONLY))
    assert state.node("n1").bind_policy == CpuBindPolicy.FULL_PCPUS


def test_the_nodes_numa_policy_beats_that_of_the_topology() -> None:
    bench = NumaBench(node("n1"))
    state = started(bench)
    bench.describe(topology("n1", topologyPolicies=["SingleNUMANodePodLevel"]))
    index = state.node("n1").index
    assert state.table.node_of(index).numa_policy == NumaTopologyPolicy.SINGLE_NUMA_NODE
    bench.set(node("n1").label(NUMA_POLICY, "BestEffort"))
    assert state.table.node_of(index).numa_policy == NumaTopologyPolicy.BEST_EFFORT
    bench.set(node("n1").label(NUMA_POLICY, "None"))
    assert state.table.node_of(index).numa_policy == NumaTopologyPolicy.NONE
    bench.set(node("n1").label(NUMA_POLICY, "Foo"))
    assert state.table.node_of(index).numa_policy == NumaTopologyPolicy.SINGLE_NUMA_NODE


def test_pod_level_policies_count_once_a_profile_honours_them() -> None:
    bench = NumaBench(node("n1"))
    state = started(bench)
    bench.describe(topology("n1", topologyPolicies=["RestrictedPodLevel"]))
    index = state.node("n1").index
    assert state.table.node_of(index).numa_policy == NumaTopologyPolicy.NONE
    state.honour_pod_level()
    assert state.table.node_of(index).numa_policy == NumaTopologyPolicy.RESTRICTED
    assert state.node("n1").numa_policy(pod_level=state.pod_level) == NumaTopologyPolicy.RESTRICTED


def test_the_strategy_is_the_labels_else_the_profiles() -> None:
    bench = NumaBench()
    state = started(bench)
    for name, label in [("most", "MostAllocated"), ("least", "LeastAllocated"), ("odd", "Foo"), ("even", "DistributeEvenly")]:
        bench.set(node(name).label(STRATEGY, label))
    bench.set(node("plain"))
    strategies = {name: state.node(name).strategy(MOST, evenly=False) for name in ("most", "least", "odd", "even", "plain")}
    assert strategies == {"most": MOST, "least": LEAST, "odd": LEAST, "even": LEAST, "plain": MOST}
    assert state.node("even").strategy(MOST, evenly=True) is EVENLY


def test_kubelet_may_distribute_cpus_evenly_where_that_is_honoured() -> None:
    bench = NumaBench(node("n1"))
    state = started(bench)
    bench.describe(topology("n1", annotations=DISTRIBUTED))
    assert state.node("n1").strategy(MOST, evenly=False) is MOST
    assert state.node("n1").strategy(MOST, evenly=True) is EVENLY


def test_zones_are_amplified_by_the_node() -> None:
    bench = NumaBench(node("n1").annotation(RATIO, '{"cpu":1.5}'))
    state = started(bench)
    bench.describe(topology("n1", annotations={"node.koordinator.sh/reservation": {"reservedCPUs": "0"}}))
    found = state.node("n1")
    assert cpu_of_zones(found) == {0: 10_500, 1: 12_000}  # what is reserved is taken away first: 7000 and 8000, times 1.5
    assert (found.zone_ratio, found.filter_ratio) == (1.5, 1.5)
    bench.set(node("n1"))
    assert cpu_of_zones(found) == {0: 7000, 1: 8000}


def test_zones_that_the_topology_amplified_are_not_amplified_again() -> None:
    bench = NumaBench(node("n1").annotation(RATIO, '{"cpu":1.5}'))
    state = started(bench)
    bench.describe(topology("n1", annotations={RATIO: {"cpu": 2}}))
    found = state.node("n1")
    assert cpu_of_zones(found) == {0: 8000, 1: 8000}
    assert (found.zone_ratio, found.filter_ratio) == (2.0, 1.5)
    facts = state.table.node_of(found.index)
    assert (facts.ratio, facts.checked_ratio) == (2.0, 1.5)


def test_a_node_whose_ratio_is_malformed_or_negative_amplifies_nothing() -> None:
    bench = NumaBench(node("n1").annotation(RATIO, "{bad"))
    state = started(bench)
    bench.describe(topology("n1"))
    found = state.node("n1")
    assert (cpu_of_zones(found), found.filter_ratio) == ({0: 8000, 1: 8000}, MALFORMED_RATIO)
    assert state.table.node_of(found.index).checked_ratio == MALFORMED_RATIO
    bench.set(node("n1").annotation(RATIO, '{"cpu":-1}'))
    assert cpu_of_zones(found) == {0: 8000, 1: 8000}
    assert found.filter_ratio <= 1
    assert found.filter_ratio != MALFORMED_RATIO


def test_a_mistake_is_reported_once_on_the_node() -> None:
    bench = NumaBench(node("n1"))
    started(bench)
    bench.describe(topology("n1", annotations={CPUS: "{bad"}))
    count, event = bench.said
    assert count == "malformed NodeResourceTopology"
    assert event.startswith(f"InvalidNUMATopology n1: NodeResourceTopology: {CPUS}: JSON is malformed")
    bench.describe(topology("n1", annotations={CPUS: "{bad"}))
    bench.set(node("n1").label("other", "label"))
    assert len(bench.said) == 2


def test_a_mistake_that_was_corrected_and_made_again_is_reported_again() -> None:
    bench = NumaBench(node("n1"))
    started(bench)
    for annotations in ({CPUS: "{bad"}, {}, {CPUS: "{bad"}):
        bench.describe(topology("n1", annotations=annotations))
    assert len(bench.said) == 4
    bench.undescribe("n1")
    bench.describe(topology("n1", annotations={CPUS: "{bad"}))
    assert len(bench.said) == 6


def test_the_mistake_of_a_topology_without_a_node_is_reported_when_the_node_comes() -> None:
    bench = NumaBench()
    started(bench)
    bench.describe(topology("n1", annotations={CPUS: "{bad"}))
    assert bench.said == ["malformed NodeResourceTopology"]
    bench.set(node("n1"))
    assert [text.split(":")[0] for text in bench.said] == ["malformed NodeResourceTopology", "InvalidNUMATopology n1"]


def test_the_mistakes_of_a_node_are_reported_on_it() -> None:
    bench = NumaBench(node("n1").label(NUMA_POLICY, "Foo").annotation(RATIO, "{bad"))
    started(bench)
    count, event = bench.said
    assert count == "malformed Node"
    assert event.startswith("InvalidNUMATopology n1: Node: ")
    assert RATIO in event
    assert NUMA_POLICY in event


def test_a_topology_that_says_the_same_again_changes_nothing() -> None:
    bench = NumaBench(node("n1"))
    started(bench)
    bench.describe(topology("n1"))
    position = bench.cache.table.log_end
    bench.describe(topology("n1"))
    assert bench.cache.table.log_end == position
    bench.describe(topology("n1", "2x1x8x2"))
    assert bench.cache.table.log_end > position


def test_allocations_survive_the_topology_and_count_when_it_is_back() -> None:
    bench = NumaBench(node("n1"))
    state = started(bench)
    bench.describe(topology("n1"))
    bench.put(holding(lsr("a"), "0-3"), "n1")
    bench.undescribe("n1")
    assert state.node("n1").cpus is None
    bench.put(holding(lsr("b"), "4-5"), "n1")
    bench.describe(topology("n1"))
    cpus = state.node("n1").cpus
    assert cpus is not None
    assert format_cpus(cpus.bound) == "0-5"


def test_allocations_survive_the_node() -> None:
    bench = NumaBench(node("n1").label(STRATEGY, "MostAllocated"))
    state = started(bench)
    bench.describe(topology("n1"))
    bench.put(holding(lsr("a"), "0-3"), "n1")
    bench.remove("n1")
    assert list(state.node("n1").pods) == ["uid-default-a"]
    assert state.node("n1").strategy(LEAST, evenly=False) is LEAST
    bench.set(node("n1"))
    cpus = state.node("n1").cpus
    assert cpus is not None
    assert format_cpus(cpus.bound) == "0-3"
