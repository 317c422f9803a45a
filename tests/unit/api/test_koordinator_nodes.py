"""Labels and annotations of nodes about CPUs and NUMA nodes."""

import pytest
from support.builders import NodeBuilder, node

from koordsched.api.koordinator.nodes import (
    AMPLIFICATION_RATIO,
    CPU_BIND_POLICY,
    NUMA_ALLOCATE_STRATEGY,
    NUMA_TOPOLOGY_POLICY,
    NodePolicy,
    amplify,
    node_policy,
)
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaTopologyPolicy


def policy(builder: NodeBuilder) -> NodePolicy:
    return node_policy(builder.build())


def test_a_plain_node_says_nothing() -> None:
    assert policy(node()) == NodePolicy()


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("FullPCPUsOnly", CpuBindPolicy.FULL_PCPUS),
        ("SpreadByPCPUs", CpuBindPolicy.SPREAD_BY_PCPUS),
        ("None", CpuBindPolicy.NONE),
        ("FullPCPUs", CpuBindPolicy.NONE),
    ],
)
def test_the_bind_policy_of_a_node(label: str, expected: CpuBindPolicy) -> None:
    assert policy(node().label(CPU_BIND_POLICY, label)).bind is expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("MostAllocated", AllocateStrategy.MOST),
        ("LeastAllocated", AllocateStrategy.LEAST),
        ("DistributeEvenly", AllocateStrategy.DISTRIBUTE_EVENLY),
        ("Foo", AllocateStrategy.LEAST),
        ("", None),
    ],
)
def test_a_strategy_that_is_none_acts_as_least_allocated(label: str, expected: AllocateStrategy | None) -> None:
    assert policy(node().label(NUMA_ALLOCATE_STRATEGY, label)).strategy is expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("BestEffort", NumaTopologyPolicy.BEST_EFFORT),
        ("Restricted", NumaTopologyPolicy.RESTRICTED),
        ("SingleNUMANode", NumaTopologyPolicy.SINGLE_NUMA_NODE),
        ("None", NumaTopologyPolicy.NONE),  # said, and none
        ("", None),
    ],
)
def test_the_numa_policy_of_a_node(label: str, expected: NumaTopologyPolicy | None) -> None:
    found = policy(node().label(NUMA_TOPOLOGY_POLICY, label))
    assert (found.numa_policy, found.problems) == (expected, ())


def test_an_unknown_numa_policy_counts_as_absent_and_is_reported() -> None:
    found = policy(node().label(NUMA_TOPOLOGY_POLICY, "SingleNumaNode"))
    assert found.numa_policy is None
    (problem,) = found.problems
    assert problem.startswith(NUMA_TOPOLOGY_POLICY)
    assert "SingleNUMANode" in problem
    assert problem.endswith('"SingleNumaNode"')


def test_ratios_by_resource() -> None:
    assert policy(node().annotation(AMPLIFICATION_RATIO, '{"cpu":1.5,"memory":1}')).ratios == {"cpu": 1.5, "memory": 1.0}


@pytest.mark.parametrize("text", ["{bad", '{"cpu":"1.5"}', '{"cpu":1e999}', '{"cpu":1e7}', "[]"])
def test_malformed_ratios_are_reported_and_known_to_be_malformed(text: str) -> None:
    found = policy(node().annotation(AMPLIFICATION_RATIO, text))
    assert found.ratios is None
    (problem,) = found.problems
    assert problem.startswith(AMPLIFICATION_RATIO)


def test_a_negative_ratio_is_reported() -> None:
    found = policy(node().annotation(AMPLIFICATION_RATIO, '{"cpu":-2,"memory":1.5}'))
    assert found.ratios == {"cpu": -2, "memory": 1.5}
    assert found.problems == (f"{AMPLIFICATION_RATIO}: the ratio of cpu, -2, is ignored: expected 1 or more",)


@pytest.mark.parametrize(
    ("amount", "ratio", "expected"),
    [(3000, 1.1, 3301), (4000, 1.15, 4600), (4000, 0.9, 4000), (4000, 1.0, 4000), (4000, -3.0, 4000), (1, 1.5, 2), (2**62, 4.0, 2**63 - 1)],
)
def test_amplified_amounts_are_rounded_up_in_double_precision(amount: int, ratio: float, expected: int) -> None:
    assert amplify(amount, ratio) == expected
