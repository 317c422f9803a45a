"""ScarceResourceAvoidance: frameworkext.md §6, §10 line 19."""

from __future__ import annotations

from support.builders import node, pod
from support.plugins import PluginBench

from koordsched._core.change import NodeChange
from koordsched.config.koordinator_args import ScarceResourceAvoidanceArgs
from koordsched.plugins.scarceresourceavoidance.plugin import ScarceResourceAvoidance

GPU = "x.com/gpu"


def plugin(bench: PluginBench, *resources: str) -> ScarceResourceAvoidance:
    return ScarceResourceAvoidance(ScarceResourceAvoidanceArgs(resources=resources), bench)


def test_nodes_with_scarce_resources_that_the_pod_does_not_request_score_less() -> None:
    bench = PluginBench(
        node("gpu").cpu("4").memory("8Gi").allocatable(GPU, "8"),
        node("more").cpu("4").memory("8Gi").allocatable(GPU, "8").allocatable("y.com/a", "1").allocatable("y.com/b", "1"),
        node("plain").cpu("4").memory("8Gi"),
    )
    assert bench.score(plugin(bench, GPU), pod().cpu("1").memory("1Gi")) == {"gpu": 0, "more": 66, "plain": 100}


def test_a_pod_that_requests_the_scarce_resource_does_not_avoid_it() -> None:
    bench = PluginBench(node("gpu").cpu("4").allocatable(GPU, "8"), node("plain").cpu("4"))
    assert bench.score(plugin(bench, GPU), pod().cpu("1").request(GPU, "1")) == {"gpu": 100, "plain": 100}


def test_cpu_memory_and_ephemeral_storage_count_among_what_is_not_requested_but_pods_do_not() -> None:
    bench = PluginBench(node("n").cpu("4").memory("8Gi").allocatable("ephemeral-storage", "1").allocatable(GPU, "1"))
    assert bench.score(plugin(bench, GPU), pod()) == {"n": 75}
    assert bench.score(plugin(bench, GPU, "pods", "cpu"), pod()) == {"n": 50}


def test_a_resource_of_which_the_node_has_none_is_not_offered() -> None:
    bench = PluginBench(node("none").cpu("4").allocatable(GPU, "0"), node("some").cpu("4").allocatable(GPU, "1"))
    assert bench.score(plugin(bench, GPU), pod().cpu("1")) == {"none": 100, "some": 0}


def test_pod_level_requests_and_overhead_are_requests() -> None:
    bench = PluginBench(node("n").cpu("4").memory("8Gi").allocatable(GPU, "1"))
    assert bench.score(plugin(bench, GPU), pod().pod_level({"cpu": "1", "memory": "1Gi"})) == {"n": 0}
    assert bench.score(plugin(bench, GPU), pod().overhead({"cpu": "1"}).memory("1")) == {"n": 0}


def test_without_scarce_resources_all_nodes_are_alike() -> None:
    bench = PluginBench(node("n").cpu("4").allocatable(GPU, "1"))
    assert bench.score(plugin(bench), pod()) == {"n": 100}
    assert bench.score(plugin(bench, "no.such/thing"), pod()) == {"n": 100}


def test_what_runs_on_a_node_does_not_matter() -> None:
    assert ScarceResourceAvoidance.reads == NodeChange.CAPACITY
