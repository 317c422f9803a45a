"""NodeResourcesBalancedAllocation: framework.md §10.5, §13 lines 16 and 17."""

from __future__ import annotations

from support.builders import node, pod
from support.plugins import PluginBench

from koordsched.config.args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from koordsched.plugins.noderesourcesbalancedallocation.plugin import NodeResourcesBalancedAllocation

GPU = "example.com/gpu"


def plugin(bench: PluginBench, *resources: str) -> NodeResourcesBalancedAllocation:
    specs = tuple(ResourceSpec(name=name, weight=1) for name in resources)
    args = NodeResourcesBalancedAllocationArgs(resources=specs) if specs else NodeResourcesBalancedAllocationArgs()
    return NodeResourcesBalancedAllocation(args, bench)


def test_the_more_equal_the_fractions_the_higher_the_score() -> None:
    # §13 line 16: .3 and .5 -> 90
    bench = PluginBench(node("n").cpu("10").memory("10Gi"), node("even").cpu("10").memory("6Gi"))
    assert bench.score(plugin(bench), pod().cpu("3").memory("5Gi")) == {"n": 90, "even": 73}  # .3 and .8333: 1 - .26666


def test_three_resources_score_their_standard_deviation() -> None:
    # §13 line 16: .5 .5 .8: sqrt(.02) -> 85
    bench = PluginBench(node("n").cpu("2").memory("2Gi").allocatable(GPU, "10"))
    assert bench.score(plugin(bench, "cpu", "memory", GPU), pod().cpu("1").memory("1Gi").request(GPU, "8")) == {"n": 85}


def test_what_runs_on_the_node_counts_with_plain_requests() -> None:
    # a silent pod counts nothing: .3 and .5 again
    bench = PluginBench(node("n").cpu("10").memory("10Gi"))
    bench.put(pod("silent"), "n")
    bench.put(pod("busy").cpu("2"), "n")
    assert bench.score(plugin(bench), pod().cpu("1").memory("5Gi")) == {"n": 90}


def test_pod_level_requests_count() -> None:
    bench = PluginBench(node("n").cpu("10").memory("10Gi"))
    assert bench.score(plugin(bench), pod().pod_level({"cpu": "3", "memory": "5Gi"})) == {"n": 90}


def test_a_pod_that_requests_none_of_the_resources_skips() -> None:
    bench = PluginBench(node("n").cpu("1").memory("1Gi").allocatable(GPU, "1"))
    assert bench.score(plugin(bench), pod()) is None
    assert bench.score(plugin(bench), pod().cpu("0").request(GPU, "1")) is None


def test_a_scalar_resource_that_the_pod_does_not_request_is_left_out() -> None:
    bench = PluginBench(node("n").cpu("10").memory("10Gi").allocatable(GPU, "10"))
    bench.put(pod("old").request(GPU, "10"), "n")
    assert bench.score(plugin(bench, "cpu", "memory", GPU), pod().cpu("3").memory("5Gi")) == {"n": 90}


def test_pods_with_other_requests_have_other_signatures() -> None:
    made = plugin(PluginBench())
    assert made.sign(pod("a").cpu("1").info()) == made.sign(pod("b").cpu("1000m").info())
    assert made.sign(pod("a").cpu("1").info()) != made.sign(pod("b").memory("1").info())
