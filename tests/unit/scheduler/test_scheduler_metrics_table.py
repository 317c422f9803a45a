"""Every metric of framework.md §12: its name, type, labels and buckets, and that it says what it is.

The table was compared with /metrics of kube-scheduler 1.35.1; exp(a, f, n) is n buckets a * f^i.
"""

from __future__ import annotations

import asyncio

import pytest
from support.fakes import config_with, embedded

from koordsched.metrics import Alias, Collector, Counter, CounterFunction, Gauge, GaugeFunction, Histogram

KIND = {
    Counter: "counter",
    CounterFunction: "counter",
    Gauge: "gauge",
    GaugeFunction: "gauge",
    Histogram: "histogram",
}
Row = tuple[str, str, tuple[float, float, int] | None]
"""Type, labels separated by spaces, and exp(a, f, n) of a histogram."""

TABLE: dict[str, Row] = {
    "schedule_attempts_total": ("counter", "result profile", None),
    "scheduling_attempt_duration_seconds": ("histogram", "result profile", (0.001, 2, 15)),
    "scheduling_algorithm_duration_seconds": ("histogram", "", (0.001, 2, 15)),
    "framework_extension_point_duration_seconds": ("histogram", "extension_point status profile", (0.0001, 2, 12)),
    "plugin_execution_duration_seconds": ("histogram", "plugin extension_point status", (0.00001, 1.5, 20)),
    "plugin_evaluation_total": ("counter", "plugin extension_point profile", None),
    "pod_scheduling_sli_duration_seconds": ("histogram", "attempts", (0.01, 2, 20)),
    "pod_scheduling_attempts": ("histogram", "", (1, 2, 5)),
    "pending_pods": ("gauge", "queue", None),
    "queue_incoming_pods_total": ("counter", "queue event", None),
    "unschedulable_pods": ("gauge", "plugin profile", None),
    "event_handling_duration_seconds": ("histogram", "event", (0.0001, 2, 12)),
    "queueing_hint_execution_duration_seconds": ("histogram", "plugin event hint", (0.00001, 1.5, 20)),
    "inflight_events": ("gauge", "event", None),
    "preemption_victims": ("histogram", "", (1, 2, 7)),
    "preemption_attempts_total": ("counter", "", None),
    "preemption_goroutines_duration_seconds": ("histogram", "result", (0.01, 2, 20)),
    "preemption_goroutines_execution_total": ("counter", "result", None),
    "permit_wait_duration_seconds": ("histogram", "result", (0.001, 2, 15)),
    "cache_size": ("gauge", "type", None),
    "goroutines": ("gauge", "operation", None),
    "batch_attempts_total": ("counter", "profile result", None),
    "batch_cache_flushed_total": ("counter", "profile reason", None),
    "get_node_hint_duration_seconds": ("histogram", "hinted profile", (0.00001, 2, 12)),
    "store_schedule_results_duration_seconds": ("histogram", "profile", (0.00001, 2, 12)),
    "volume_binder_cache_requests_total": ("counter", "operation", None),
    "volume_scheduling_stage_error_total": ("counter", "operation", None),
    "pod_scheduled_after_flush_total": ("counter", "", None),
    # koord-scheduler's: frameworkext.md §8
    "scheduling_timeout": ("counter", "profile", None),
    "next_pod_delete_from_queue_latency": ("histogram", "", (0.00001, 2, 24)),
    "pod_scheduling_evaluated_nodes": ("histogram", "", (1, 2, 24)),
    "pod_scheduling_feasible_nodes": ("histogram", "", (1, 2, 24)),
    "e2e_scheduling_duration_seconds": ("histogram", "result profile", (0.001, 2, 15)),
    "pod_scheduling_duration_seconds": ("histogram", "attempts", (0.01, 2, 20)),
}


def row_of(collector: Collector) -> Row:
    if isinstance(collector, Alias):
        return row_of(collector.of)
    bounds = collector.bounds if isinstance(collector, Histogram) else None
    shape = None if bounds is None else (bounds[0], round(bounds[1] / bounds[0], 9), len(bounds))
    return KIND[type(collector)], " ".join(collector.labels), shape


@pytest.mark.parametrize("name", TABLE)
async def test_a_metric_is_as_the_table_says(name: str) -> None:
    async with embedded(asyncio.get_running_loop(), config_with({})) as world:
        (collector,) = [each for each in world.scheduler.metrics.collectors if each.name == f"scheduler_{name}"]
        assert row_of(collector) == TABLE[name]
        assert collector.help.endswith(".")


async def test_no_metric_pretends_to_be_one_of_the_references() -> None:
    async with embedded(asyncio.get_running_loop(), config_with({})) as world:
        ours = {each.name.removeprefix("scheduler_") for each in world.scheduler.metrics.collectors if each.name.startswith("scheduler_")}
        assert ours == set(TABLE)


async def test_every_metric_is_named_in_the_text_before_anything_happens() -> None:
    async with embedded(asyncio.get_running_loop(), config_with({})) as world:
        text = world.scheduler.metrics.text().decode()
    for name, (kind, _, _) in TABLE.items():
        assert f"\n# TYPE scheduler_{name} {kind}\n" in f"\n{text}"
