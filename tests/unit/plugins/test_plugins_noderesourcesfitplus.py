"""NodeResourcesFitPlus: frameworkext.md §6, §10 lines 17 and 18."""

from __future__ import annotations

from support.builders import PodBuilder, node, pod
from support.plugins import PluginBench

from koordsched.config.koordinator_args import NodeResourcesFitPlusArgs, ResourcesType
from koordsched.plugins.noderesourcesfitplus.plugin import NodeResourcesFitPlus

LEAST, MOST = "LeastAllocated", "MostAllocated"
GPU = "x.com/gpu"
MEBI = 1 << 20


def plugin(bench: PluginBench, **resources: tuple[str, int]) -> NodeResourcesFitPlus:
    specs = {name.replace("gpu", GPU): ResourcesType(type=kind, weight=weight) for name, (kind, weight) in resources.items()}
    return NodeResourcesFitPlus(NodeResourcesFitPlusArgs(resources=specs), bench)


def score_of(builder: PodBuilder, resource: str, capacity: int = 1000, kind: str = LEAST) -> int:
    """Return what an empty node of so much of the resource alone scores."""
    bench = PluginBench(node("n").allocatable(resource, str(capacity)))
    specs = NodeResourcesFitPlusArgs(resources={resource: ResourcesType(type=kind, weight=1)})
    scores = bench.score(NodeResourcesFitPlus(specs, bench), builder)
    assert scores is not None
    return scores["n"]


def test_each_resource_is_scored_its_own_way() -> None:
    # §10 line 17: n1 cpu (20 - 8) / 20 = 60, gpu 7 / 8 = 87: (60 + 3 * 87) / 4 = 80; n2 80 and 12: 29
    bench = PluginBench(node("n1").cpu("20").allocatable(GPU, "8"), node("n2").cpu("20").allocatable(GPU, "8"))
    bench.put(pod("old").cpu("4").request(GPU, "6"), "n1")
    assert bench.score(plugin(bench, cpu=(LEAST, 1), gpu=(MOST, 3)), pod().cpu("4").request(GPU, "1")) == {"n1": 80, "n2": 29}


def test_a_pod_that_requests_nothing_of_what_is_configured_likes_all_nodes() -> None:
    bench = PluginBench(node("n1").cpu("20"), node("n2").memory("1Gi"))
    made = plugin(bench, cpu=(LEAST, 1), gpu=(MOST, 3))
    assert bench.score(made, pod()) == {"n1": 100, "n2": 100}
    assert bench.score(made, pod().memory("1Gi").cpu("0")) == {"n1": 100, "n2": 100}
    assert bench.score(plugin(bench), pod().cpu("1")) == {"n1": 100, "n2": 100}


def test_a_node_without_the_resource_scores_zero_for_it() -> None:
    bench = PluginBench(node("n").cpu("10"))
    assert bench.score(plugin(bench, cpu=(LEAST, 1), gpu=(MOST, 1)), pod().cpu("1").request(GPU, "1")) == {"n": 45}  # (90 + 0) / 2


def test_only_requested_resources_count_with_their_weights() -> None:
    bench = PluginBench(node("n").cpu("10").memory("10Gi"))
    assert bench.score(plugin(bench, cpu=(LEAST, 1), memory=(MOST, 9)), pod().cpu("1")) == {"n": 90}


def test_what_runs_there_counts_with_defaults_for_containers_that_say_nothing() -> None:
    bench = PluginBench(node("n").cpu("1").allocatable("ephemeral-storage", "100"))
    bench.put(pod("silent"), "n")  # 100m, and no storage
    made = plugin(bench, **{"cpu": (LEAST, 1), "ephemeral-storage": (LEAST, 1)})
    assert bench.score(made, pod().cpu("100m")) == {"n": 80}
    assert bench.score(made, pod().request("ephemeral-storage", "30")) == {"n": 70}


def test_a_container_that_says_nothing_counts_with_a_default_and_an_explicit_zero_does_not() -> None:
    assert score_of(pod().cpu("100m").container({}), "cpu", 1) == 80
    assert score_of(pod().cpu("100m").container({"cpu": "0"}), "cpu", 1) == 90
    assert score_of(pod().memory("200Mi").container({}), "memory", 1000 * MEBI) == 60


def test_the_largest_init_container_counts_if_it_needs_more_and_sidecars_are_no_more_than_that() -> None:
    assert score_of(pod().cpu("200m").init_container({"cpu": "300m"}), "cpu", 1) == 70
    assert score_of(pod().cpu("200m").sidecar({"cpu": "150m"}), "cpu", 1) == 80
    assert score_of(pod().request(GPU, "2").sidecar({GPU: "3"}), GPU, 10, MOST) == 30


def test_overhead_is_added_cpu_in_milli() -> None:
    assert score_of(pod().cpu("200m").overhead({"cpu": "250m"}), "cpu", 1) == 55
    assert score_of(pod().memory("200Mi").overhead({"memory": "100Mi", "cpu": "1"}), "memory", 1000 * MEBI) == 70


def test_pod_level_requests_make_a_resource_count_but_not_its_amount() -> None:
    assert score_of(pod().pod_level({"cpu": "600m"}), "cpu", 1) == 90  # the container's default of 100m


def test_each_container_is_rounded_up_by_itself() -> None:
    # two halves of a milli-core are 1 + 1, of 10
    assert score_of(pod().cpu("500u").container({"cpu": "500u"}), "cpu", 1, MOST) == 0
    bench = PluginBench(node("n").allocatable("cpu", "10m"))
    assert bench.score(plugin(bench, cpu=(MOST, 1)), pod().cpu("500u").container({"cpu": "500u"})) == {"n": 20}


def test_amounts_beyond_int64_are_as_much_as_there_is() -> None:
    assert score_of(pod().memory("8Ei").container({"memory": "8Ei"}), "memory", 1000, MOST) == 100


def test_pods_that_score_otherwise_have_other_signatures() -> None:
    made = plugin(PluginBench(), cpu=(LEAST, 1))
    assert made.sign(pod("a").cpu("1").info()) == made.sign(pod("b").cpu("1000m").info())
    assert made.sign(pod("a").cpu("1").info()) != made.sign(pod("b").cpu("2").info())
    # the same requests otherwise: 1100m as the sum of both
    apart = pod("a").cpu("1").sidecar({"cpu": "100m"}), pod("b").cpu("1").container({"cpu": "100m"})
    one, other = [builder.info() for builder in apart]
    assert one.resources.requests == other.resources.requests
    assert made.sign(one) != made.sign(other)
