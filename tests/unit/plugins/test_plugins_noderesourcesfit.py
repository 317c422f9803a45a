"""NodeResourcesFit: framework.md §10.4 and §9, §13 lines 9, 15, 17, 29, 30, hints of §3.5."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.plugins import PluginBench, hint, registered

from koordsched.config.args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from koordsched.framework.status import unresolvable, unschedulable
from koordsched.plugins.noderesourcesfit.plugin import NodeResourcesFit
from koordsched.queue.events import ActionType, EventResource, QueueingHint

GPU = "example.com/gpu"
CPU_MEMORY = (("cpu", 1), ("memory", 1))


def fit(bench: PluginBench, **args: Any) -> NodeResourcesFit:
    return NodeResourcesFit(NodeResourcesFitArgs(**args), bench)


def scoring(
    bench: PluginBench, kind: str, resources: tuple[tuple[str, int], ...] = CPU_MEMORY, shape: tuple[tuple[int, int], ...] = ()
) -> NodeResourcesFit:
    strategy = ScoringStrategy(
        type=kind,
        resources=tuple(ResourceSpec(name=name, weight=weight) for name, weight in resources),
        requested_to_capacity_ratio=RequestedToCapacityRatioParam(
            shape=tuple(UtilizationShapePoint(utilization=utilization, score=score) for utilization, score in shape)
        ),
    )
    return NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy), bench)


class TestFilter:
    @pytest.fixture
    def bench(self) -> PluginBench:
        """Make node n of 4 CPU, 8Gi and 4 gpus with a pod of 3 CPU, 6Gi and 3 gpus."""
        bench = PluginBench(node("n").cpu("4").memory("8Gi").allocatable(GPU, "4"))
        bench.put(pod("old").cpu("3").memory("6Gi").request(GPU, "3"), "n")
        return bench

    def test_what_is_left_may_be_used_up(self, bench: PluginBench) -> None:
        assert bench.passing(fit(bench), pod().cpu("1").memory("2Gi").request(GPU, "1")) == ["n"]

    def test_a_resource_that_the_empty_node_would_have_is_unschedulable(self, bench: PluginBench) -> None:
        assert bench.filter(fit(bench), pod().cpu("1001m")) == {"n": unschedulable("Insufficient cpu")}

    def test_a_resource_that_the_empty_node_would_not_have_is_unresolvable(self, bench: PluginBench) -> None:
        assert bench.filter(fit(bench), pod().cpu("4001m")) == {"n": unresolvable("Insufficient cpu")}
        assert bench.filter(fit(bench), pod().request("example.com/other", 1)) == {"n": unresolvable("Insufficient example.com/other")}

    def test_all_reasons_are_reported_in_order_and_one_unresolvable_one_decides(self, bench: PluginBench) -> None:
        greedy = pod().request(GPU, "2").request("ephemeral-storage", "1Gi").memory("3Gi").cpu("2")
        expected = ("Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage", f"Insufficient {GPU}")
        assert bench.filter(fit(bench), greedy) == {"n": unresolvable(*expected)}

    def test_too_many_pods_is_a_reason_of_its_own(self) -> None:
        # §13 line 9: pods=2 with 2 pods
        bench = PluginBench(node("n").cpu("4").pods(2))
        bench.put(pod("a").cpu("3"), "n")
        bench.put(pod("b"), "n")
        assert bench.filter(fit(bench), pod()) == {"n": unschedulable("Too many pods")}
        assert bench.filter(fit(bench), pod().cpu("2")) == {"n": unschedulable("Too many pods", "Insufficient cpu")}

    def test_a_node_without_a_number_of_pods_takes_none(self) -> None:
        bench = PluginBench(node("n").pods(0))
        assert bench.filter(fit(bench), pod()) == {"n": unschedulable("Too many pods")}

    def test_a_request_of_zero_never_fails(self) -> None:
        bench = PluginBench(node("n").cpu("1"))
        bench.put(pod("old").cpu("5"), "n")
        assert bench.passing(fit(bench), pod().cpu("0").memory("0").request(GPU, "0")) == ["n"]

    @pytest.mark.parametrize(("free", "fits"), [("3250m", True), ("3249m", False)])
    def test_init_containers_run_one_by_one_and_overhead_is_added(self, free: str, fits: bool) -> None:
        # §13 line 29: max(1 + 1, 2, 3) + 0.25
        bench = PluginBench(node("n").cpu(free))
        wanted = pod().cpu("1").container({"cpu": "1"}).init_container({"cpu": "2"}).init_container({"cpu": "3"}).overhead({"cpu": "250m"})
        assert bool(bench.passing(fit(bench), wanted)) is fits

    def test_pod_level_requests_replace_the_sum_of_the_containers(self) -> None:
        # §13 line 30
        bench = PluginBench(node("small").cpu("1999m"), node("large").cpu("2"))
        assert bench.passing(fit(bench), pod().cpu("500m").pod_level({"cpu": "2"})) == ["large"]

    def test_ignored_extended_resources_are_not_checked(self, bench: PluginBench) -> None:
        wanted = pod().cpu("1").request(GPU, "9").request("other.io/x", "1")
        assert bench.reasons(fit(bench, ignored_resources=(GPU,)), wanted) == {"n": ("Insufficient other.io/x",)}
        assert bench.passing(fit(bench, ignored_resources=(GPU,), ignored_resource_groups=("other.io",)), wanted) == ["n"]

    def test_other_resources_cannot_be_ignored(self, bench: PluginBench) -> None:
        plugin = fit(bench, ignored_resources=("cpu", "kubernetes.io/batch-cpu"), ignored_resource_groups=("kubernetes.io",))
        assert bench.reasons(plugin, pod().cpu("9")) == {"n": ("Insufficient cpu",)}
        assert bench.reasons(plugin, pod().request("kubernetes.io/batch-cpu", "1")) == {"n": ("Insufficient kubernetes.io/batch-cpu",)}

    def test_29_resources_are_checked_and_30_refused(self, bench: PluginBench) -> None:
        wanted = pod()
        for number in range(29):
            wanted = wanted.request(f"example.com/r{number}", "1")
        assert len(bench.reasons(fit(bench), wanted)["n"]) == 29
        refusal = unresolvable("the pod requests 30 resources, of which NodeResourcesFit can check at most 29")
        assert bench.pre_filter(fit(bench), wanted.cpu("1")) == refusal


class TestScore:
    def test_least_and_most_allocated(self) -> None:
        # §13 line 15: cpu 75 and memory 87 free; 25 and 12 used
        bench = PluginBench(node("n").cpu("4").memory("8Gi"))
        wanted = pod().cpu("1").memory("1Gi")
        assert bench.score(scoring(bench, "LeastAllocated"), wanted) == {"n": 81}
        assert bench.score(scoring(bench, "MostAllocated"), wanted) == {"n": 18}

    def test_a_silent_container_counts_with_defaults(self) -> None:
        # §13 line 17: 100m of 1 CPU, 200Mi of 1Gi -> cpu 90, memory 80
        bench = PluginBench(node("n").cpu("1").memory("1Gi"))
        assert bench.score(fit(bench), pod()) == {"n": 85}
        bench.put(pod("silent"), "n")
        assert bench.score(fit(bench), pod()) == {"n": 70}  # cpu 80, memory 60

    def test_pod_level_requests_do_not_count_for_the_pod_itself(self) -> None:
        # its container counts 100m and 200Mi of 1 CPU and 2000Mi
        bench = PluginBench(node("n").cpu("1").memory("2000Mi"))
        assert bench.score(fit(bench), pod().pod_level({"cpu": "1", "memory": "1000Mi"})) == {"n": 90}

    def test_a_scalar_resource_counts_only_for_pods_that_request_it(self) -> None:
        bench = PluginBench(node("n").cpu("10").allocatable(GPU, "4"), node("none").cpu("10"))
        bench.put(pod("old").request(GPU, "1").cpu("1"), "n")
        plugin = scoring(bench, "MostAllocated", (("cpu", 1), (GPU, 3)))
        assert bench.score(plugin, pod().cpu("1")) == {"n": 20, "none": 10}
        assert bench.score(plugin, pod().cpu("1").request(GPU, "1")) == {"n": 42, "none": 10}  # (20 + 3 * 50) / 4 = 42.5

    def test_ephemeral_storage_counts_for_every_pod(self) -> None:
        bench = PluginBench(node("n").allocatable("ephemeral-storage", "100Gi"))
        assert bench.score(scoring(bench, "LeastAllocated", (("ephemeral-storage", 1),)), pod()) == {"n": 100}

    def test_names_that_scheduling_does_not_count_are_left_out(self) -> None:
        bench = PluginBench(node("n").cpu("10"))
        assert bench.score(scoring(bench, "LeastAllocated", (("cpu", 1), ("pods", 1), ("storage", 1))), pod().cpu("1")) == {"n": 90}

    def test_hugepages_count_as_the_containers_request_them(self) -> None:
        bench = PluginBench(node("n").allocatable("hugepages-2Mi", "100Mi"))
        plugin = scoring(bench, "MostAllocated", (("hugepages-2Mi", 1),))
        plain = pod().request("hugepages-2Mi", "20Mi")
        assert bench.score(plugin, plain) == {"n": 20}
        assert bench.score(plugin, plain.pod_level({"hugepages-2Mi": "60Mi"})) == {"n": 20}
        more = pod().request("hugepages-2Mi", "40Mi").pod_level({"hugepages-2Mi": "60Mi"})
        assert plugin.sign(plain.pod_level({"hugepages-2Mi": "60Mi"}).info()) != plugin.sign(more.info())

    def test_requested_to_capacity_ratio_scores_the_shape_times_ten(self) -> None:
        # shape 0 -> 0, 50 -> 10, 100 -> 0: cpu at 20 % scores 40, memory at 60 % scores 80, weights 1 and 3
        bench = PluginBench(node("n").cpu("10").memory("10Gi"))
        plugin = scoring(bench, "RequestedToCapacityRatio", (("cpu", 1), ("memory", 3)), ((0, 0), (50, 10), (100, 0)))
        assert bench.score(plugin, pod().cpu("2").memory("6Gi")) == {"n": 70}


class TestSignature:
    def test_pods_with_equal_requests_are_alike(self) -> None:
        plugin = fit(PluginBench())
        assert plugin.sign(pod("a").cpu("1").info()) == plugin.sign(pod("b").cpu("1000m").info())
        assert plugin.sign(pod("a").cpu("0").info()) != plugin.sign(pod("b").info())  # an explicit 0 gets no default


class TestHints:
    def test_it_listens_to_pods_that_leave_or_shrink_and_nodes_that_come_or_grow(self) -> None:
        assert [(r.event.resource, r.event.action) for r in registered(fit(PluginBench()))] == [
            (EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN),
            (EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
        ]

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (pod("x").on("n"), None, QueueingHint.QUEUE),
            (pod("x").nominated("n"), None, QueueingHint.QUEUE),
            (pod("x"), None, QueueingHint.SKIP),
            (pod("own").cpu("2"), pod("own").cpu("1"), QueueingHint.QUEUE),
            (pod("x").cpu("2").on("n"), pod("x").cpu("1").on("n"), QueueingHint.QUEUE),
            (pod("x").cpu("2"), pod("x").cpu("1"), QueueingHint.SKIP),
            (pod("x").memory("2").on("n"), pod("x").memory("1").on("n"), QueueingHint.SKIP),
            (pod("x").cpu("1").memory("2").on("n"), pod("x").cpu("2").memory("1").on("n"), QueueingHint.SKIP),
        ],
    )
    def test_a_pod_helps_when_it_frees_what_the_waiting_pod_requests(
        self, old: PodBuilder, new: PodBuilder | None, expected: QueueingHint
    ) -> None:
        assert hint(fit(PluginBench()), 0, pod("own").cpu("1"), old.build(), new.build() if new else None) is expected

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (None, node().cpu("2"), QueueingHint.QUEUE),
            (None, node().cpu("1"), QueueingHint.SKIP),
            (None, node().cpu("2").pods(0), QueueingHint.SKIP),
            (node().cpu("1"), node().cpu("2"), QueueingHint.QUEUE),
            (node().cpu("2"), node().cpu("3"), QueueingHint.QUEUE),
            (node().cpu("3"), node().cpu("2"), QueueingHint.SKIP),
            (node().cpu("2"), node().cpu("2").memory("9Gi"), QueueingHint.SKIP),
            (node().cpu("2").pods(5), node().cpu("2").pods(6), QueueingHint.QUEUE),
        ],
    )
    def test_a_node_helps_when_the_pod_fits_it_empty_and_it_came_or_grew(
        self, old: NodeBuilder | None, new: NodeBuilder, expected: QueueingHint
    ) -> None:
        assert hint(fit(PluginBench()), 1, pod().cpu("2"), old.build() if old else None, new.build()) is expected

    def test_a_resource_that_is_ignored_keeps_no_node_from_helping(self) -> None:
        plugin = fit(PluginBench(), ignored_resources=(GPU,))
        assert hint(plugin, 1, pod().cpu("2").request(GPU, "1"), None, node().cpu("2").build()) is QueueingHint.QUEUE
