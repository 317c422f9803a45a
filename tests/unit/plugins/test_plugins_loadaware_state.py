"""What LoadAwareScheduling keeps of nodes: mistakes of objects, events that help, what is shown and mended; pods do not herd."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.builders import node, pod
from support.loads import START, LoadBench, load_args, metric, pod_usage, scheduled, usage
from support.plugins import hint

from koordsched._core.load import PodEstimate, plain_amount, plain_amounts, reported_amounts
from koordsched.api.koordinator.measurements import PodUsageMetric, ResourceUsage
from koordsched.clock import rfc3339
from koordsched.plugins.loadaware.plugin import LoadAwareScheduling
from koordsched.plugins.loadaware.state import UNKNOWN_NODE_SECONDS
from koordsched.queue.events import QueueingHint

THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
OVER_CPU = ("node(s) cpu usage exceed threshold",)


def warnings(bench: LoadBench) -> list[str]:
    return [said for said in bench.said if said.startswith("InvalidNodeLoad")]


# Mistakes


@pytest.mark.parametrize(
    ("made", "counts_as", "word"),
    [
        ({"cpu": "-2"}, 0, 'status.nodeMetric.nodeUsage.cpu: less than nothing, so it counts as 0: "-2"'),
        ({"cpu": "lots"}, 0, 'status.nodeMetric.nodeUsage.cpu: expected a quantity, so it counts as 0: "lots"'),
        ({"cpu": "9E"}, 2**53, 'status.nodeMetric.nodeUsage.cpu: more than 2^53, so it counts as that: "9E"'),
    ],
)
def test_amounts_that_cannot_be_meant_are_named_once_and_count_as_what_is_nearest(made: dict[str, Any], counts_as: int, word: str) -> None:
    bench = LoadBench(node("n1").cpu("10"), node("n2").cpu("10"))
    plugin = bench.plugin()
    written = metric("n1", memory="1Gi")
    assert written.status.node_metric is not None
    measured = replace(written.status.node_metric, node_usage=replace(written.status.node_metric.node_usage, resources=made))
    for _ in range(2):
        bench.report(replace(written, status=replace(written.status, node_metric=measured)))
    bench.report(metric("n2", "1"))
    assert warnings(bench) == [f"InvalidNodeLoad n1: NodeMetric: {word}"]
    assert plugin._table.load_of(bench.state.entries["n1"].index).filter_usage == (counts_as, 0)
    assert "n2" in bench.passing(plugin, pod())
    assert ("n1" in bench.passing(plugin, pod())) == (counts_as == 0)


@pytest.mark.parametrize(
    ("text", "word", "passes"),
    [
        ("{", "scheduling.koordinator.sh/usage-thresholds: ", True),
        ('{"usageThresholds":{"cpu":-1}}', "usageThresholds.cpu: expected a percentage from 0 to 100: -1", False),
        ('{"usageThresholds":{"cpu":900}}', "usageThresholds.cpu: expected a percentage from 0 to 100: 900", True),
        (
            '{"aggregatedUsage":{"usageThresholds":{"cpu":90},"usageAggregationType":"p42"}}',
            'aggregatedUsage.usageAggregationType: expected one of avg, p50, p90, p95, p99: "p42"',
            True,
        ),
        ('{"aggregatedUsage":{"usageAggregatedDuration":"soon"}}', "usageAggregatedDuration: time: invalid duration", True),
    ],
)
def test_thresholds_that_cannot_be_meant_are_named(text: str, word: str, passes: bool) -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin()
    bench.report(metric("n1", "5"))
    bench.set(node("n1").cpu("10").annotation(THRESHOLDS, text))
    (said,) = warnings(bench)
    assert word in said
    assert bench.passing(plugin, pod()) == (["n1"] if passes else [])


@pytest.mark.parametrize(
    ("age", "word"), [(-3600, "later than now, so the clock"), (3600, "new, but long ago, so the clock"), (0, None), (-59, None)]
)
def test_a_clock_that_is_an_hour_off_is_said_once(age: int, word: str | None) -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin()
    bench.report(metric("n1", "1", at=START - age))
    bench.pass_time(60)
    bench.report(metric("n1", "1", at=START + 60 - age))
    assert len(warnings(bench)) == (word is not None)
    assert all(word is not None and word in said for said in warnings(bench))
    assert bench.passing(plugin, pod()) == ([] if age == 3600 else ["n1"])


def test_a_metric_of_a_node_that_does_not_exist_is_said_once_and_counts_when_the_node_comes(capfd: Any) -> None:
    bench = LoadBench()
    plugin = bench.plugin()
    bench.report(metric("n1", "9"))
    bench.pass_time(UNKNOWN_NODE_SECONDS)
    bench.report(metric("n1", "9", at=bench.clock.now()))
    bench.pass_time(1)
    assert capfd.readouterr().err.count("a NodeMetric says something of a node that does not exist") <= 1
    bench.set(node("n1").cpu("10"))
    assert bench.reasons(plugin, pod()) == {"n1": OVER_CPU}


def test_a_pods_own_factors_that_cannot_be_meant_are_ignored_and_named() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin(allow_customize_estimation=True)
    made = pod("p").cpu("1").annotation("scheduling.koordinator.sh/load-estimated-scaling-factors", '{"cpu":-5,"memory":200}')
    assert plugin._estimator.estimate(made.info()).values[0] == 850
    bench.assume(made, "n1")
    (said,) = warnings(bench)
    assert "the factor of cpu is ignored, expected 0 or more: -5" in said


def test_times_that_cannot_be_read_expire_the_metric() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin()
    written = metric("n1", "1")
    bench.report(replace(written, status=replace(written.status, update_time="yesterday")))
    assert bench.reasons(plugin, pod()) == {"n1": ("node(s) nodeMetric expired",)}
    assert "status.updateTime" in warnings(bench)[0]


def test_what_stands_for_a_reservation_is_no_pod() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    bench.plugin()
    bench.assume(pod("r").cpu("9").annotation("scheduling.koordinator.sh/reserve-pod", "true"), "n1")
    assert bench.state.entries["n1"].pods == {}


# Events


def test_only_the_node_that_would_do_now_helps() -> None:
    bench = LoadBench(node("n1").cpu("10"), node("n2").cpu("10"))
    plugin = bench.plugin()
    hot, cool = metric("n1", "9"), metric("n2", "1")
    bench.report(hot)
    bench.report(cool)
    assert hint(plugin, 3, pod(), hot, hot) is QueueingHint.SKIP
    assert hint(plugin, 3, pod(), cool, cool) is QueueingHint.QUEUE
    assert hint(plugin, 3, pod(), metric("gone"), None) is QueueingHint.SKIP
    assert hint(plugin, 3, pod(), None, None) is QueueingHint.QUEUE
    assert hint(plugin, 2, pod(), None, node("n1").build()) is QueueingHint.SKIP
    assert hint(plugin, 2, pod(), None, node("n2").build()) is QueueingHint.QUEUE
    assert hint(plugin, 0, pod(), pod("gone").on("n1").build(), None) is QueueingHint.SKIP
    assert hint(plugin, 0, pod(), pod("gone").on("n2").build(), None) is QueueingHint.QUEUE
    assert hint(plugin, 1, pod(), pod().build(), pod().build()) is QueueingHint.QUEUE
    assert hint(plugin, 1, pod(), pod("x").build(), pod("x").build()) is QueueingHint.SKIP


def test_a_metric_that_expires_moves_pods_only_where_an_expired_one_lets_them_pass() -> None:
    for passing in (False, True):
        bench = LoadBench(node("n1").cpu("10"))
        bench.plugin(enable_schedule_when_node_metrics_expired=passing)
        bench.report(metric("n1", "9"))
        bench.pass_time(180)
        assert [said for said in bench.said if said.startswith("announce")] == (
            ["announce nodemetrics.slo.koordinator.shUpdate"] if passing else []
        )


def test_an_event_marks_its_own_row_with_a_kind_of_its_own() -> None:
    bench = LoadBench(node("n1").cpu("10"), node("n2").cpu("10"))
    plugin = bench.plugin()
    table = bench.cache.table
    before = table.log_end
    bench.report(metric("n2", "1"))
    logged = table.changes_since(before)
    assert logged is not None
    rows, changes = logged
    assert list(rows) == [bench.cache.nodes_by_name["n2"].row]
    assert list(changes) == [int(plugin.reads)]


def test_a_renewed_metric_is_looked_at_once_and_does_not_expire() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin()
    for _ in range(20):
        bench.report(metric("n1", "1", at=bench.clock.now()))
        bench.pass_time(60)
        assert bench.passing(plugin, pod()) == ["n1"]
    assert len(bench.state._expiries) == 1
    assert bench.state.expired == 0
    bench.pass_time(120)
    assert (bench.state.expired, bench.state.count_metrics()["expired"]) == (1, 1)
    assert bench.timers == []


def test_however_often_metrics_are_looked_at_one_timer_is_left() -> None:
    """The standing comparison looks at them before it compares: each time would leave a timer that sets itself anew for ever."""
    bench = LoadBench(node("n1").cpu("10"), node("n2").cpu("10"))
    bench.plugin()
    for name, age in (("n1", 0), ("n2", 100)):
        bench.report(metric(name, "1", at=bench.clock.now() - age))
    for _ in range(20):
        bench.state.expire()
        bench.pass_time(7)
    assert len(bench.timers) == 1
    assert (bench.state.expired, bench.state.count_metrics()["expired"]) == (1, 1)


def test_a_clock_that_is_set_forward_expires_metrics_within_seconds() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin()
    bench.report(metric("n1", "1"))
    bench.hand.time += 3600
    bench.timers = [(when + 3600, call) for when, call in bench.timers]
    bench.pass_time(10)
    assert bench.reasons(plugin, pod()) == {"n1": ("node(s) nodeMetric expired",)}


# Preemption


def test_no_victim_helps() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    plugin = bench.plugin()
    running = pod("running").cpu("8").on("n1")
    bench.put(pod("running").cpu("8"), "n1")
    bench.report(metric("n1", "9", pods=[pod_usage("running", "8")]))
    nodes, info = bench.cache.nodes(), pod().info()
    codes = plugin.filter_nodes(None, info, nodes)  # type: ignore[arg-type]
    assert codes is not None
    affected = plugin.affected_by_removals(None, info, nodes, codes)  # type: ignore[arg-type]
    assert affected is not None
    assert not affected.any()
    with bench.cache.simulate(bench.cache.nodes_by_name["n1"], remove=[running.info(counted_on_node=True)]):
        assert bench.passing(plugin, pod()) == []


# HTTP


def test_the_endpoint_shows_a_nodes_sums_as_the_reference_does() -> None:
    bench = LoadBench(node("n1").cpu("10").memory("32Gi"))
    plugin = bench.plugin()
    (route,) = plugin.routes()

    def shown() -> Any:
        return msgspec.json.decode(msgspec.json.encode(route.answer({"nodeName": "n1"}).body))

    assert route.answer({"nodeName": "nope"}).body == {}
    assert shown() == {}
    made = pod("burst").cpu("1").memory("1Gi")
    first = made.build().spec.containers[0]
    limits = replace(first.resources, limits={"cpu": "4", "memory": "8Gi"})
    burst = replace(made.build(), spec=replace(made.build().spec, containers=(replace(first, resources=limits),)))
    bench.cache.assume_pod(type(made)(burst).info(), "n1")
    assert shown().keys() == {"pods"}
    bench.report(metric("n1", "1", pods=[pod_usage("other", "1")]))
    body = shown()
    assert body["pods"][0]["timestamp"] == rfc3339(START)
    assert body["pods"][0]["pod"]["metadata"]["name"] == "burst"
    assert body["nodeDelta"] == body["nodeEstimated"] == body["prodDelta"] == {"cpu": "3400m", "memory": "6012954214"}
    assert body["prodUsage"] == {"cpu": "0", "memory": "0"}
    assert body["nodeDeltaPods"] == body["prodDeltaPods"] == body["nodeEstimatedPods"] == ["default/burst"]


# The standing check


def test_what_is_damaged_is_found_and_mended() -> None:
    bench = LoadBench(node("n1").cpu("10").memory("8Gi"))
    plugin = bench.plugin()
    bench.put(pod("p").cpu("1").condition(scheduled(START - 5)), "n1")
    bench.report(metric("n1", "1", "1Gi"))
    (check,) = bench.cache.checked
    index = bench.state.entries["n1"].index
    assert list(check.differences("n1")) == []
    for column in range(9):
        plugin._table.damage(index, column, 0, 5)
        assert list(check.differences("n1"))
        check.rebuild("n1")
        assert list(check.differences("n1")) == []
    bench.state.entries["n1"].pods.clear()
    assert next(each.column for each in check.differences("n1")).startswith("pod ")
    check.rebuild("n1")
    bench.state._entries.clear()
    assert [each.column for each in check.differences("n1")] == ["known"]
    check.rebuild("n1")
    assert list(check.differences("n1")) == []
    bench.state.entries["n1"].measurement = None
    assert "metric" in [each.column for each in check.differences("n1")]
    check.rebuild("n1")
    assert list(check.differences("n1")) == []


# Herds


def test_a_thousand_pods_between_two_metrics_do_not_herd() -> None:
    """100 nodes, half of them 40 % used: 1,000 pods of half a CPU, placed by score alone, spread as their estimates say."""
    bench = LoadBench(*[node(f"n{i:02d}").cpu("32").memory("128Gi") for i in range(100)])
    plugin = bench.plugin()
    for i in range(100):
        bench.report(metric(f"n{i:02d}", "12800m" if i % 2 else "0"))
    placed: Counter[str] = Counter()
    for i in range(1000):
        made = pod(f"p{i}").cpu("500m").memory("1Gi")
        scores = bench.score(plugin, made)
        assert scores is not None
        open_nodes = set(bench.passing(plugin, made))
        best = max(open_nodes, key=lambda name: (scores[name], name))
        placed[best] += 1
        bench.assume(made, best)
    assert sum(placed.values()) == 1000
    assert sum(count for name, count in placed.items() if int(name[1:]) % 2) == 0  # those that are used more wait for their turn
    assert max(placed.values()) - min(placed.values()) <= 4  # 20 each, within one percent of a node


def test_profiles_that_take_turns_never_push_a_node_above_its_threshold() -> None:
    """By frameworkext.md, checklist 36: each counts all pods, those of others too, by its own factors, and never passes its threshold."""
    bench = LoadBench(node("n1").cpu("10"))
    profiles = [
        bench.plugin(usage_thresholds={"cpu": 50}, estimated_scaling_factors={"cpu": factor, "memory": 70}) for factor in (85, 85, 100)
    ]
    bench.report(metric("n1", "1"))
    bound: Counter[int] = Counter()
    for i in range(21):
        made, profile = pod(f"p{i}").cpu("500m"), profiles[i % 3]
        if bench.passing(profile, made):
            bench.assume(made, "n1")
            bound[i % 3] += 1
            sums = profile._table.load_of(bench.state.entries["n1"].index)
            assert sums.filter_usage[0] + sums.delta[0] <= 5_000 + 49  # 50.49 % rounds to 50
    assert all(bound[i] for i in range(3))
    assert bound.total() == 9  # 1 + 9 * 0.425 = 4.825 of 10 CPUs; a tenth pod would make it 52.5 %
    assert len({id(profile._table) for profile in profiles}) == 2  # equal arguments share their columns


# Kernels


@pytest.mark.parametrize(
    ("text", "milli", "expected"),
    [("250m", True, 250), ("2", True, 2000), ("2", False, 2), ("3Ki", False, 3072), (7, True, 7000), (7, False, 7)]
    + [(text, True, -1) for text in ("", "m", "-1", "1.5", "1Ki", "1k", "1234567890123456", None, 1.5, True, "1mm", "\uff11")]
    + [(text, False, -1) for text in ("5m", "Ki", "1Mi", -1, 2**60)],
)
def test_plain_amounts(text: Any, milli: bool, expected: int) -> None:
    assert plain_amount(text, milli) == expected


def test_amounts_are_read_at_once_where_all_are_plain() -> None:
    names = ("batch-cpu", "cpu", "memory")
    assert plain_amounts({"cpu": "250m", "memory": "3Ki", "other": "x"}, names) == (0, 250, 3072)
    assert plain_amounts({}, names) == (0, 0, 0)
    assert plain_amounts({"cpu": "250m", "memory": "1.5"}, names) is None


def test_of_reported_pods_those_wanted_are_read_the_last_of_each_name_and_what_is_not_plain_by_the_caller() -> None:
    def reported(name: str, cpu: str | None, priority: str = "koord-prod") -> PodUsageMetric:
        return PodUsageMetric("default", name, priority, pod_usage=ResourceUsage({} if cpu is None else {"cpu": cpu}))

    pods = [
        reported("p", "1"),
        reported("p", "250m", "koord-batch"),
        reported("p", None),
        reported("other", "1"),
        reported("q", "1"),
        reported("q", "1.5"),
    ]
    asked: list[tuple[PodUsageMetric, int]] = []

    def read_other(pod: PodUsageMetric, place: int) -> tuple[int, ...]:
        asked.append((pod, place))
        return (1500,)

    found = reported_amounts(pods, {"default/p", "default/q", "default/absent"}, ("cpu",), "koord-prod", read_other)
    assert found == {"default/p": ((250,), False), "default/q": ((1500,), True)}
    assert asked == [(pods[5], 5)]


def test_estimates_are_equal_by_what_they_say() -> None:
    one, other = (PodEstimate([1, 2], is_prod=True, is_daemon=False) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != PodEstimate([1, 2], is_prod=False, is_daemon=False)
    with pytest.raises(ValueError, match="must be 0 to 2"):
        PodEstimate([-1], is_prod=True, is_daemon=False)


def test_a_profile_that_comes_later_sees_what_is_there() -> None:
    bench = LoadBench(node("n1").cpu("10"))
    bench.plugin()
    bench.put(pod("p").cpu("4").condition(scheduled(START)), "n1")
    bench.report(metric("n1", "1", aggregated={("p95", "5m0s"): usage("6")}))
    later = LoadAwareScheduling(load_args(aggregated={"usage_thresholds": {"cpu": 90}, "usage_aggregation_type": "p95"}), bench)
    assert bench.reasons(later, pod()) == {"n1": ("node(s) cpu aggregated usage exceed threshold",)}
