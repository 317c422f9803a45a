"""All metrics of framework.md §12 that this version has, by hand: name, labels, buckets."""

from __future__ import annotations

import pytest

from koordsched.metrics import Alias, Histogram
from koordsched.scheduler.metrics import Metrics

COUNTERS = {
    "schedule_attempts_total": "result profile",
    "plugin_evaluation_total": "plugin extension_point profile",
    "queue_incoming_pods_total": "queue event",
    "preemption_attempts_total": "",
    "preemption_goroutines_execution_total": "result",
    "volume_binder_cache_requests_total": "operation",
    "volume_scheduling_stage_error_total": "operation",
    "batch_attempts_total": "profile result",
    "batch_cache_flushed_total": "profile reason",
    "pod_scheduled_after_flush_total": "",
    "scheduling_timeout": "profile",
}
GAUGES = {
    "pending_pods": "queue",
    "unschedulable_pods": "plugin profile",
    "inflight_events": "event",
    "cache_size": "type",
    "goroutines": "operation",
}
HISTOGRAMS = {  # labels; first bound, last bound, number of bounds
    "scheduling_attempt_duration_seconds": ("result profile", 0.001, 16.384, 15),
    "scheduling_algorithm_duration_seconds": ("", 0.001, 16.384, 15),
    "framework_extension_point_duration_seconds": ("extension_point status profile", 0.0001, 0.2048, 12),
    "plugin_execution_duration_seconds": ("plugin extension_point status", 0.00001, 0.02216837820, 20),
    "pod_scheduling_sli_duration_seconds": ("attempts", 0.01, 5242.88, 20),
    "pod_scheduling_attempts": ("", 1, 16, 5),
    "event_handling_duration_seconds": ("event", 0.0001, 0.2048, 12),
    "queueing_hint_execution_duration_seconds": ("plugin event hint", 0.00001, 0.02216837820, 20),
    "preemption_victims": ("", 1, 64, 7),
    "preemption_goroutines_duration_seconds": ("result", 0.01, 5242.88, 20),
    "permit_wait_duration_seconds": ("result", 0.001, 16.384, 15),
    "get_node_hint_duration_seconds": ("hinted profile", 0.00001, 0.02048, 12),
    "next_pod_delete_from_queue_latency": ("", 0.00001, 83.88608, 24),
    "pod_scheduling_evaluated_nodes": ("", 1, 8388608, 24),
    "pod_scheduling_feasible_nodes": ("", 1, 8388608, 24),
    "e2e_scheduling_duration_seconds": ("result profile", 0.001, 16.384, 15),
    "pod_scheduling_duration_seconds": ("attempts", 0.01, 5242.88, 20),
    "store_schedule_results_duration_seconds": ("profile", 0.00001, 0.02048, 12),
}


def whole() -> Metrics:
    metrics = Metrics()
    metrics.watch_sizes({"active": lambda: 0}, {"nodes": lambda: 0}, lambda: 0)
    metrics.watch_tasks({"binding": lambda: 0})
    metrics.watch_inflight(dict)
    return metrics


def test_names_and_types_are_those_of_the_table() -> None:
    types = dict(line.split()[2:] for line in whole().text().decode().splitlines() if line.startswith("# TYPE scheduler_"))
    expected = {
        **dict.fromkeys(COUNTERS, "counter"),
        **dict.fromkeys(GAUGES, "gauge"),
        **dict.fromkeys(HISTOGRAMS, "histogram"),
    }
    assert types == {f"scheduler_{name}": type_ for name, type_ in expected.items()}


def test_labels_are_those_of_the_table() -> None:
    expected = {**COUNTERS, **GAUGES, **{name: labels for name, (labels, *_) in HISTOGRAMS.items()}}
    found = {collector.name: " ".join(collector.labels) for collector in whole().collectors if collector.name.startswith("scheduler_")}
    assert found == {f"scheduler_{name}": labels for name, labels in expected.items()}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_buckets_are_those_of_the_table(name: str) -> None:
    _, first, last, count = HISTOGRAMS[name]
    collector = next(collector for collector in Metrics().collectors if collector.name == f"scheduler_{name}")
    collector = collector.of if isinstance(collector, Alias) else collector
    assert isinstance(collector, Histogram)
    assert (collector.bounds[0], len(collector.bounds)) == (first, count)
    assert collector.bounds[-1] == pytest.approx(last)


def test_what_has_no_labels_is_shown_before_it_happens() -> None:
    lines = Metrics().text().decode().splitlines()
    assert "scheduler_preemption_attempts_total 0.0" in lines
    assert 'scheduler_preemption_victims_bucket{le="64"} 0.0' in lines
    assert "scheduler_preemption_victims_count 0.0" in lines
