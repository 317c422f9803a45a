"""Metrics: kube-scheduler's names, labels and buckets (framework.md §12) in Prometheus' text."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from koordsched.metrics import Counter, Gauge, GaugeFunction, Histogram, Registry, exponential, exposition
from koordsched.scheduler.metrics import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample by name and labels."""
    families = text_string_to_metric_families(metrics.text().decode())
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples}


def bounds(metrics: Metrics, name: str) -> list[str]:
    """Return the bucket bounds of a histogram with one set of labels."""
    return [dict(labels)["le"] for found, labels in samples(metrics) if found == f"{name}_bucket"]


def test_attempts_are_counted_and_collectord_by_result_and_profile() -> None:
    metrics = Metrics()
    for result in ("scheduled", "scheduled", "unschedulable", "error"):
        metrics.attempted(result, "p", 0.003)
    found = samples(metrics)
    for result, count in (("scheduled", 2), ("unschedulable", 1), ("error", 1)):
        labels = (("profile", "p"), ("result", result))
        assert found["scheduler_schedule_attempts_total", labels] == count
        assert found["scheduler_scheduling_attempt_duration_seconds_count", labels] == count
    bucket = (("le", "0.004"), ("profile", "p"), ("result", "scheduled"))
    assert found["scheduler_scheduling_attempt_duration_seconds_bucket", bucket] == 2


def test_buckets_are_those_of_kube_scheduler() -> None:
    metrics = Metrics()
    metrics.decided(0.01)
    metrics.bound(1, 0.5)
    metrics.waited_on_permit("scheduled", 1.0)
    metrics.hint_duration("F", "NodeAdd", "Queue", 0.001)
    for name, start, factor, count in (
        ("scheduler_scheduling_algorithm_duration_seconds", 0.001, 2, 15),
        ("scheduler_pod_scheduling_sli_duration_seconds", 0.01, 2, 20),
        ("scheduler_pod_scheduling_attempts", 1, 2, 5),
        ("scheduler_permit_wait_duration_seconds", 0.001, 2, 15),
        ("scheduler_queueing_hint_execution_duration_seconds", 0.00001, 1.5, 20),
    ):
        *finite, infinity = bounds(metrics, name)
        assert infinity == "+Inf"
        assert [float(bound) for bound in finite] == exponential(start, factor, count)
    assert bounds(metrics, "scheduler_pod_scheduling_attempts") == ["1", "2", "4", "8", "16", "+Inf"]


def test_attempts_from_15_on_share_a_label() -> None:
    metrics = Metrics()
    for attempts in (1, 14, 15, 400):
        metrics.bound(attempts, 1.0)
    counts = {
        dict(labels)["attempts"]: value for (name, labels), value in samples(metrics).items() if name.endswith("sli_duration_seconds_count")
    }
    assert counts == {"1": 1, "14": 1, "15+": 2}


def test_sizes_are_read_when_they_are_asked_for() -> None:
    metrics, sizes = Metrics(), {"active": 1}
    metrics.watch_sizes({"active": lambda: sizes["active"]}, {"nodes": lambda: 3, "assumed_pods": lambda: 0}, lambda: 7)
    sizes["active"] = 5
    found = samples(metrics)
    assert found["scheduler_pending_pods", (("queue", "active"),)] == 5
    assert found["scheduler_cache_size", (("type", "nodes"),)] == 3
    assert found["koord_scheduler_cache_repairs_total", ()] == 7


def test_the_queues_numbers_have_their_labels() -> None:
    metrics = Metrics()
    metrics.incoming("active", "NodeAdd")
    metrics.unschedulable_pods("F", "p", 2)
    metrics.unschedulable_pods("F", "p", -1)
    metrics.bound_after_flush()
    metrics.probe_skipped("p")
    metrics.retry_skipped("p")
    found = samples(metrics)
    assert found["scheduler_queue_incoming_pods_total", (("event", "NodeAdd"), ("queue", "active"))] == 1
    assert found["scheduler_unschedulable_pods", (("plugin", "F"), ("profile", "p"))] == 1
    assert found["scheduler_pod_scheduled_after_flush_total", ()] == 1
    avoided = {dict(labels)["reason"] for name, labels in found if name == "koord_scheduler_retries_avoided_total"}
    assert len(avoided) == 2


def test_an_event_label_that_was_shown_once_goes_down_to_zero() -> None:
    metrics, kept = Metrics(), {"PodPopped": 1, "NodeAdd": 2}
    metrics.watch_inflight(lambda: kept)
    assert samples(metrics)["scheduler_inflight_events", (("event", "NodeAdd"),)] == 2
    kept = {"PodPopped": 0}
    assert samples(metrics)["scheduler_inflight_events", (("event", "NodeAdd"),)] == 0


def test_what_never_happened_but_must_be_seen_starts_at_zero() -> None:
    assert samples(Metrics())["scheduler_pod_scheduled_after_flush_total", ()] == 0


def test_a_value_on_a_bound_counts_into_that_bucket() -> None:
    registry: Registry = []
    made = Histogram(registry, "d", "text", bounds=[1, 2])
    for value in (1, 1.5, 2, 3):
        made.observe(value)
    lines = exposition(registry).decode().splitlines()
    assert lines[2:] == ['d_bucket{le="1"} 1.0', 'd_bucket{le="2"} 3.0', 'd_bucket{le="+Inf"} 4.0', "d_count 4.0", "d_sum 7.5"]


def test_names_types_and_help_are_written() -> None:
    registry: Registry = []
    Counter(registry, "c_total", "Counted.", ["a"]).increment("x")
    Gauge(registry, "g", "Going.", ["a"]).add(-3, "y")
    GaugeFunction(registry, "r", "Read.", lambda: {"v": 9}, "k")
    lines = exposition(registry).decode().splitlines()
    assert lines == [
        "# HELP c_total Counted.",
        "# TYPE c_total counter",
        'c_total{a="x"} 1.0',
        "# HELP g Going.",
        "# TYPE g gauge",
        'g{a="y"} -3.0',
        "# HELP r Read.",
        "# TYPE r gauge",
        'r{k="v"} 9.0',
    ]


def test_the_number_of_cache_repairs_is_a_counter() -> None:
    metrics = Metrics()
    metrics.watch_sizes({}, {}, lambda: 7)
    lines = metrics.text().decode().splitlines()
    assert "# TYPE koord_scheduler_cache_repairs_total counter" in lines
    assert "koord_scheduler_cache_repairs_total 7.0" in lines
