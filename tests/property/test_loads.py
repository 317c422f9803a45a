"""Load columns after any sequence of metrics, pods, nodes, expiries and restarts: they answer as a plain model of frameworkext.md §5.

Two profiles with different arguments look at the same nodes. After each sequence the standing check finds nothing to mend, and a plugin
that begins with the same objects answers the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.load_model import CountedPod, LoadModel
from support.loads import LoadBench, load_args, metric, pod_usage, scheduled, usage

from koordsched._core.load import LoadScoring, LoadTable, PodEstimate, filter_load, refusal_of, score_load
from koordsched._core.table import NodeTable
from koordsched.api.koordinator.measurements import NodeMetric
from koordsched.plugins.loadaware.plugin import LoadAwareScheduling

if TYPE_CHECKING:
    from collections.abc import Sequence

THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
RAW = "node.koordinator.sh/raw-allocatable"
FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
SECONDS = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
GPU = "x.com/gpu"

NODES = ("n0", "n1")
PLAIN = node().cpu("4").memory("8Gi")
NODE_KINDS: tuple[NodeBuilder, ...] = (
    PLAIN,
    node().cpu("8"),
    PLAIN.allocatable(GPU, "8"),
    PLAIN.annotation(RAW, '{"cpu":"2"}'),
    PLAIN.annotation(RAW, "{"),
    PLAIN.annotation(THRESHOLDS, '{"usageThresholds":{"cpu":30}}'),
    PLAIN.annotation(THRESHOLDS, '{"prodUsageThresholds":{"cpu":20,"memory":120}}'),
    PLAIN.annotation(THRESHOLDS, '{"aggregatedUsage":{"usageThresholds":{"cpu":-1,"memory":40},"usageAggregationType":"p95"}}'),
    PLAIN.annotation(
        THRESHOLDS, '{"aggregatedUsage":{"usageThresholds":{"cpu":50},"usageAggregationType":"p90","usageAggregatedDuration":"5m"}}'
    ),
    PLAIN.annotation(THRESHOLDS, "{"),
)
POD_KINDS: tuple[PodBuilder, ...] = (
    pod(),
    pod().cpu("1").memory("1Gi"),
    pod().cpu("500m").label("koordinator.sh/qosClass", "LS"),
    pod().request("kubernetes.io/batch-cpu", "1500").request("kubernetes.io/batch-memory", "1Gi").priority(5500),
    pod().cpu("2").priority(7500),
    pod().cpu("1").priority(3500),
    pod().cpu("1").priority(9500).request(GPU, "2"),
    pod().cpu("1").annotation(FACTORS, '{"cpu":150}').annotation(SECONDS, "600"),
    pod().cpu("1").annotation(FACTORS, "{").annotation(SECONDS, "-1"),
    pod().cpu("1").owned_by("apps/v1", "DaemonSet", "d"),
)
ARGS: tuple[dict[str, Any], ...] = (
    {},
    {"usage_thresholds": {"cpu": 0, "memory": 0}},
    {"usage_thresholds": {"cpu": 50, GPU: 60}, "resource_weights": {"cpu": 3, "memory": 1}, "dominant_resource_weight": 2},
    {"prod_usage_thresholds": {"cpu": 40}, "prod_usage_include_sys": True, "score_according_prod_usage": True},
    {"aggregated": {"usage_thresholds": {"cpu": 45}, "usage_aggregation_type": "p95", "usage_aggregated_duration": 1800.0}},
    {"aggregated": {"usage_thresholds": {"cpu": 45}, "usage_aggregation_type": "avg", "score_aggregation_type": "p95"}},
    {"aggregated": {"score_aggregation_type": "p90", "score_aggregated_duration": 300.0}, "filter_expired_node_metrics": False},
    {"enable_schedule_when_node_metrics_expired": True, "node_metric_expiration_seconds": 90},
    {"allow_customize_estimation": True, "estimated_seconds_after_pod_scheduled": 120, "estimated_scaling_factors": {"cpu": 30, GPU: 100}},
)

cpu_texts = st.sampled_from(("0", "150m", "1", "2", "3900m", "1.5", "-1", "123456789n"))
memory_texts = st.sampled_from(("0", "1Gi", "1073741825", "3145728Ki", "7.5G", "16Gi"))
amounts = st.builds(usage, cpu_texts, memory_texts)


def _reported(number: int, cpu: str, priority: str, *, empty: bool) -> dict[str, Any]:
    made = pod_usage(f"p{number}", cpu, "1Gi", priority=priority)
    return {**made, "podUsage": {}} if empty else made


reported = st.builds(_reported, st.integers(0, 4), cpu_texts, st.sampled_from(("koord-prod", "koord-batch", "")), empty=st.booleans())
statistics = st.tuples(st.sampled_from(("avg", "p90", "p95")), st.sampled_from(("5m0s", "30m0s")))
metrics = st.fixed_dictionaries(
    {
        "cpu": cpu_texts,
        "memory": memory_texts,
        "pods": st.lists(reported, max_size=4),
        "aggregated": st.dictionaries(statistics, st.one_of(amounts, st.just({})), max_size=4),
        "system": st.one_of(st.none(), amounts),
        "measured": st.sampled_from((True, True, True, False)),
        "interval": st.sampled_from((None, 10, 600)),
    }
)
since = st.sampled_from((-600.0, -30.0, 0.0, None))
arguments_of_a_profile = st.integers(0, len(ARGS) - 1)
named, sorts = st.sampled_from(NODES), st.integers(0, len(POD_KINDS) - 1)
ages = st.sampled_from((0.0, 30.0, 89.0, 90.0, 179.0, 180.0, 4000.0, -3600.0, None))
events = st.lists(
    st.one_of(
        st.tuples(st.just("node"), named, st.integers(0, len(NODE_KINDS) - 1)),
        st.tuples(st.just("no node"), named),
        st.tuples(st.just("metric"), named, ages, metrics),
        st.tuples(st.just("metric"), named, ages, metrics),
        st.tuples(st.just("no metric"), named),
        st.tuples(st.just("assume"), named, st.integers(0, 4), sorts),
        st.tuples(st.just("bind"), named, st.integers(0, 4), sorts, since),
        st.tuples(st.just("gone"), st.integers(0, 4)),
        st.tuples(st.just("time"), st.sampled_from((1.0, 45.0, 90.0, 200.0))),
        st.tuples(st.just("restart")),
    ),
    max_size=10,
)
pods_there = st.lists(st.tuples(sorts, since), max_size=3)
beginnings = st.tuples(*[st.tuples(st.integers(0, len(NODE_KINDS) - 1), metrics, pods_there) for _ in NODES])
"""Of each node: its kind, its metric, and its pods with when they were scheduled; most of what can go wrong needs all of these."""


class Cluster:
    """A bench with two plugins, and what there is, for the model."""

    def __init__(self, arguments: tuple[int, int]) -> None:
        self.arguments = arguments
        self.nodes: dict[str, NodeBuilder] = {}
        self.metrics: dict[str, NodeMetric] = {}
        self.pods: dict[str, tuple[str, PodBuilder, float]] = {}  # by name: node, pod, when it was assumed
        self._begin(LoadBench())

    def fill(self, beginning: Sequence[tuple[int, dict[str, Any], list[tuple[int, float | None]]]]) -> None:
        number = 0
        for name, (kind, fields, pods) in zip(NODES, beginning, strict=True):
            self.happen(("node", name, kind))
            for sort, since in pods:
                self.happen(("assume", name, number, sort) if since is None else ("bind", name, number, sort, since))
                number += 1
            self.happen(("metric", name, 0.0, fields))

    def _begin(self, bench: LoadBench) -> None:
        self.bench = bench
        self.plugins: list[LoadAwareScheduling] = [bench.plugin(**ARGS[i]) for i in self.arguments]
        self.models = [LoadModel(load_args(**ARGS[i])) for i in self.arguments]

    def restart(self) -> None:
        """Begin anew with what is there. A pod without a PodScheduled condition was assumed now."""
        now = self.bench.clock.now()
        bench = LoadBench()
        bench.hand.time = now
        self._begin(bench)
        for made in self.metrics.values():
            bench.report(made)
        for name, (where, builder, _) in self.pods.items():
            bench.cache.set_pod(builder.on(where).info(counted_on_node=True), where)
            self.pods[name] = (where, builder.on(where), now)
        for name, kind in self.nodes.items():
            bench.set(_named(kind, name))

    def happen(self, event: tuple[Any, ...]) -> None:  # a case for each kind
        bench, now = self.bench, self.bench.clock.now()
        match event:
            case ("node", name, kind):
                self.nodes[name] = NODE_KINDS[kind]
                bench.set(_named(NODE_KINDS[kind], name))
            case ("no node", name) if name in self.nodes:
                del self.nodes[name]
                bench.remove(name)
            case ("metric", name, age, fields):
                # Whole seconds, as Kubernetes writes times.
                made = metric(name, at=None if age is None else now - age, **fields)
                self.metrics[name] = made
                bench.report(made)
            case ("no metric", name) if name in self.metrics:
                del self.metrics[name]
                bench.unreport(name)
            case ("assume", name, number, kind) if f"p{number}" not in self.pods and name in self.nodes:
                builder = _called(POD_KINDS[kind], number)
                self.pods[f"p{number}"] = (name, builder, now)
                bench.assume(builder, name)
            case ("bind", name, number, kind, since):
                builder = _called(POD_KINDS[kind], number)
                where, known, assumed_at = self.pods.get(f"p{number}", (name, builder, now))
                if f"p{number}" in self.pods:
                    builder = known
                if since is not None and not builder.build().status.conditions:
                    builder = builder.condition(scheduled(now + since))
                changed = builder.on(where).build().status.conditions != known.build().status.conditions or not known.build().spec.node_name
                self.pods[f"p{number}"] = (where, builder.on(where), now if changed else assumed_at)
                bench.cache.set_pod(builder.on(where).info(counted_on_node=True), where)
            case ("gone", number) if f"p{number}" in self.pods:
                del self.pods[f"p{number}"]
                bench.cache.remove_pod(_called(pod(), number).build().metadata.uid)
            case ("time", seconds):
                bench.pass_time(seconds)
            case ("restart",):
                self.restart()

    def check(self) -> None:
        bench, now = self.bench, self.bench.clock.now()
        for plugin, model in zip(self.plugins, self.models, strict=True):
            for builder in POD_KINDS:
                incoming = builder.build()
                reasons, scores = bench.reasons(plugin, builder), bench.score(plugin, builder)
                assert scores is not None
                for name, kind in self.nodes.items():
                    there = [CountedPod(made.build(), at) for where, made, at in self.pods.values() if where == name]
                    given_node, given_metric = _named(kind, name).build(), self.metrics.get(name)
                    refusal = model.refusal(incoming, given_node, given_metric, there, now)
                    assert reasons[name] == ((refusal,) if refusal else ()), (name, incoming)
                    assert scores[name] == model.score(incoming, given_node, given_metric, there, now), (name, incoming)
        (check,) = bench.cache.checked
        for name in {*NODES, *check.names()}:
            assert list(check.differences(name)) == []


def _named(builder: NodeBuilder, name: str) -> NodeBuilder:
    made = node(name).build()
    return NodeBuilder(type(made)(**{**_fields(builder.build()), "metadata": _with_name(builder, made)}))


def _fields(made: Any) -> dict[str, Any]:
    return {field: getattr(made, field) for field in made.__struct_fields__}


def _with_name(builder: NodeBuilder, made: Any) -> Any:
    return type(made.metadata)(**{**_fields(made.metadata), "annotations": builder.build().metadata.annotations})


def _called(builder: PodBuilder, number: int) -> PodBuilder:
    made = builder.build()
    metadata = type(made.metadata)(**{**_fields(made.metadata), "name": f"p{number}", "uid": f"uid-p{number}"})
    return PodBuilder(type(made)(**{**_fields(made), "metadata": metadata}))


@settings(max_examples=100)
@given(arguments=st.tuples(arguments_of_a_profile, arguments_of_a_profile), beginning=beginnings, happened=events)
def test_columns_equal_the_plain_model(
    arguments: tuple[int, int],
    beginning: Sequence[tuple[int, dict[str, Any], list[tuple[int, float | None]]]],
    happened: list[tuple[Any, ...]],
) -> None:
    cluster = Cluster(arguments)
    cluster.fill(beginning)
    cluster.check()
    for event in happened:
        cluster.happen(event)
    cluster.check()
    cluster.restart()
    cluster.check()


big = st.one_of(st.integers(0, 10**4), st.integers(0, 2**40), st.integers(0, 2**53))


@settings(max_examples=500)
@example(used=1140, capacity=4000, threshold=28)
@example(used=2**53, capacity=3, threshold=100)
@example(used=5809643518259366, capacity=516, threshold=2**50 + 1)
@example(used=2**53, capacity=1, threshold=2**53 + 1)
@example(used=45_035_996_273_703, capacity=2**53 - 1, threshold=100)
@given(used=big, capacity=big, threshold=st.one_of(st.integers(-3, 120), st.integers(-(2**62), 2**62)))
def test_the_room_that_is_left_is_where_the_float_expression_changes(used: int, capacity: int, threshold: int) -> None:
    """Whatever is used already, the first estimate that is refused is the first one for which the reference's expression is too large."""
    table, rows = _one_node(capacity, used, threshold)
    for estimate in _around(used, capacity, threshold):
        exact = float(used + estimate) / float(capacity) * 100 if capacity else 0.0  # the reference rounds both before it divides
        percent = int(exact) + (exact - int(exact) >= 0.5)
        expected = bool(threshold and capacity and percent > threshold)
        code = filter_load(table, PodEstimate([estimate], is_prod=False, is_daemon=False), rows)[0]
        assert bool(code) == expected, (estimate, exact)
        if code:
            assert refusal_of(int(code)) == (0, False)


@given(used=big, capacity=big, estimate=big, weights=st.tuples(st.integers(0, 100), st.integers(0, 100)))
def test_scores_are_exact_for_all_amounts(used: int, capacity: int, estimate: int, weights: tuple[int, int]) -> None:
    table, rows = _one_node(capacity, used, 0)
    weight, dominant = weights
    score = score_load(
        table, PodEstimate([estimate], is_prod=True, is_daemon=False), LoadScoring([weight], dominant, by_prod_usage=False), rows
    )
    left = capacity - used - estimate
    own = left * 100 // capacity if capacity and left >= 0 else 0
    assert score[0] == ((weight * own + dominant * min(100, own)) // (weight + dominant) if weight + dominant else 0)


def _one_node(capacity: int, used: int, threshold: int) -> tuple[LoadTable, Any]:
    nodes = NodeTable()
    attribute = nodes.new_attribute()
    row = nodes.acquire_row()
    nodes.set_attribute(attribute, row, 1, 0)
    table = LoadTable(nodes, attribute, 1, filters_expired=True, passes_expired=False)
    table.clear_node(1)
    table.set_node(1, [capacity], [threshold], [0], aggregated=False)
    table.set_metric(1, [used], [used], [0], measured=True, expired=False, pods=[], usages={}, update_time=0.0, settled_before=0.0)
    return table, np.array([row], np.int32)


def _around(used: int, capacity: int, threshold: int) -> list[int]:
    """Return estimates near the one at which the answer changes, as far as there is one."""
    middle = int((threshold + 0.5) / 100 * capacity) - used if abs(threshold) < 2**50 else 0
    found = {0, 1, 2**20, *(middle + by for by in (-1024, -3, -2, -1, 0, 1, 2, 3, 1024))}
    return sorted(estimate for estimate in found if 0 <= estimate <= 2**53)
