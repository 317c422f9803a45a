"""LoadAwareScheduling on a cache: thresholds, scores, estimates until a metric has seen the pod (numbers: frameworkext.md §10)."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import PodBuilder, node, pod
from support.loads import START, LoadBench, metric, pod_usage, scheduled, usage

GIB = 2**30


def bound(reasons: dict[str, tuple[str, ...]]) -> list[str]:
    return [name for name, reason in reasons.items() if not reason]


def test_usage_in_percent_is_rounded_before_it_is_compared() -> None:
    bench = LoadBench(node("n1").cpu("4"), node("n2").cpu("4"))
    plugin = bench.plugin(usage_thresholds={"cpu": 80})
    bench.report(metric("n1", "2370m"))
    bench.report(metric("n2", "2369m"))
    assert bench.reasons(plugin, pod().cpu("1")) == {"n1": ("node(s) cpu usage exceed threshold",), "n2": ()}


def test_the_float_expression_is_the_references() -> None:
    bench = LoadBench(node("n1").cpu("4"))
    plugin = bench.plugin(usage_thresholds={"cpu": 28})
    bench.report(metric("n1", "290m"))
    assert bench.passing(plugin, pod().cpu("1")) == ["n1"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod(), (250, 200 * 2**20)),
        (pod().priority(7500), (0, 0)),
        (pod().priority(3500), (0, 0)),
        (pod().request("kubernetes.io/batch-cpu", "4000").request("kubernetes.io/batch-memory", "1Gi").priority(5500), (3400, 751619277)),
        (pod().cpu("1").memory("1Gi"), (850, 751619277)),
    ],
)
def test_estimates(made: PodBuilder, expected: tuple[int, int]) -> None:
    bench = LoadBench()
    plugin = bench.plugin()
    assert plugin._estimator.estimate(made.info()).values == expected


def test_thresholds_of_zero_switch_the_filter_off() -> None:
    bench = LoadBench(node("n1").cpu("4").memory("8Gi"))
    off, default = bench.plugin(usage_thresholds={"cpu": 0, "memory": 0}), bench.plugin()
    bench.report(metric("n1", "3960m", "8Gi"))
    assert bench.passing(off, pod()) == ["n1"]
    assert bench.passing(default, pod()) == []


def test_pods_of_daemon_sets_go_anywhere() -> None:
    bench = LoadBench(node("n1").cpu("4"))
    plugin = bench.plugin()
    bench.report(metric("n1", "3800m"))
    assert bench.passing(plugin, pod().owned_by("apps/v1", "DaemonSet", "d")) == ["n1"]
    assert bench.passing(plugin, pod()) == []


def test_a_node_may_have_thresholds_of_its_own() -> None:
    own = node("n1").cpu("10").annotation("scheduling.koordinator.sh/usage-thresholds", '{"usageThresholds":{"cpu":30}}')
    bench = LoadBench(own, node("n2").cpu("10"))
    plugin = bench.plugin()
    for name in ("n1", "n2"):
        bench.report(metric(name, "4"))
    assert bench.passing(plugin, pod()) == ["n2"]
    bench.set(node("n1").cpu("10"))
    assert bench.passing(plugin, pod()) == ["n1", "n2"]


def test_prod_pods_are_compared_with_what_prod_pods_use() -> None:
    bench = LoadBench(node("n1").cpu("10").memory("10Gi"))
    plugin = bench.plugin(prod_usage_thresholds={"cpu": 40}, usage_thresholds={"cpu": 65})
    bench.put(pod("other").cpu("1").label("koordinator.sh/qosClass", "LS").condition(scheduled(START - 600)), "n1")
    bench.report(metric("n1", "7", pods=[pod_usage("other", "1")]))
    assert bench.passing(plugin, pod().cpu("1").label("koordinator.sh/qosClass", "LS")) == ["n1"]
    assert bench.reasons(plugin, pod().request("kubernetes.io/batch-cpu", "1000").label("koordinator.sh/qosClass", "BE")) == {
        "n1": ("node(s) cpu usage exceed threshold",)
    }


@pytest.mark.parametrize(("duration", "passes"), [({}, False), ({"usage_aggregated_duration": 300.0}, True)])
def test_aggregated_use(duration: dict[str, Any], passes: bool) -> None:
    bench = LoadBench(node("n1").cpu("10"))
    aggregated = {"usage_thresholds": {"cpu": 50}, "usage_aggregation_type": "p90", **duration}
    plugin = bench.plugin(aggregated=aggregated)
    bench.report(metric("n1", "9", aggregated={("p90", "5m0s"): usage("3"), ("p90", "30m0s"): usage("6")}))
    expected = () if passes else ("node(s) cpu aggregated usage exceed threshold",)
    assert bench.reasons(plugin, pod()) == {"n1": expected}


def test_expired_metrics_refuse_and_an_event_of_its_own_time_lets_them_expire() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    refusing, passing = bench.plugin(), bench.plugin(enable_schedule_when_node_metrics_expired=True)
    using = bench.plugin(filter_expired_node_metrics=False)
    bench.report(metric("n1", "1"))
    bench.pass_time(170)
    assert bench.passing(refusing, pod()) == bench.passing(passing, pod()) == ["n1"]
    bench.pass_time(10)
    assert bench.reasons(refusing, pod()) == {"n1": ("node(s) nodeMetric expired",)}
    assert bench.passing(passing, pod()) == bench.passing(using, pod()) == ["n1"]
    assert bench.score(using, pod()) == {"n1": 0}
    bench.report(metric("n1", "1", at=bench.clock.now()))
    assert bench.passing(refusing, pod()) == ["n1"]


def test_a_metric_without_time_counts_as_expired_and_one_that_measured_nothing_does_not_count() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    filtering, using = bench.plugin(), bench.plugin(filter_expired_node_metrics=False)
    bench.report(metric("n1", at=None, measured=False))
    assert bench.passing(filtering, pod()) == []
    assert bench.passing(using, pod()) == ["n1"]


def test_scores_are_what_is_left_in_percent() -> None:
    bench = LoadBench(node("n1").cpu("80").memory("256Gi"), node("n2").cpu("80").memory("256Gi"))
    plain, dominant = bench.plugin(), bench.plugin(dominant_resource_weight=2, resource_weights={"cpu": 1, "memory": 1})
    bench.report(metric("n1", "40", "64Gi"))
    eight = pod().cpu("8").memory("8Gi")
    assert bench.score(plain, eight) == {"n1": 56, "n2": 0}
    assert bench.score(dominant, eight) == {"n1": 48, "n2": 0}


def test_an_estimate_counts_until_a_metric_has_seen_the_pod() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin(usage_thresholds={"cpu": 65})
    bench.report(metric("n1", "1"))
    bench.assume(pod("first").cpu("6"), "n1")  # estimated 5100m
    assert bench.passing(plugin, pod().cpu("1")) == []
    bench.pass_time(70)
    bench.report(metric("n1", "1200m", pods=[pod_usage("first", "200m")], at=bench.clock.now()))
    assert bench.passing(plugin, pod().cpu("1")) == ["n1"]


def test_two_profiles_share_one_truth_and_count_by_their_own_factors() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    half = bench.plugin(usage_thresholds={"cpu": 50}, estimated_scaling_factors={"cpu": 50, "memory": 50})
    full = bench.plugin(usage_thresholds={"cpu": 50}, estimated_scaling_factors={"cpu": 100, "memory": 100})
    bench.report(metric("n1", "0"))
    bench.assume(pod("first").cpu("4"), "n1")
    assert bench.passing(half, pod().cpu("4")) == ["n1"]  # 2 + 2 of 10
    assert bench.passing(full, pod().cpu("4")) == []  # 4 + 4 of 10
    bench.cache.forget_pod(pod("first").info().uid)
    assert bench.passing(full, pod().cpu("4")) == ["n1"]


@pytest.mark.parametrize("duration", [{}, {"usage_aggregated_duration": 1800.0}])
def test_of_two_statistics_over_the_same_time_the_last_counts(duration: dict[str, Any]) -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin(aggregated={"usage_thresholds": {"cpu": 50}, "usage_aggregation_type": "p90", **duration})
    bench.report(metric("n1", "9", aggregated={("p90", "30m0s"): usage("9"), ("p90", "5m0s"): usage("9"), ("p90", "1800s"): usage("3")}))
    assert bench.passing(plugin, pod()) == ["n1"]
