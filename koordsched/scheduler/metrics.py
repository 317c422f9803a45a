"""The scheduler's metrics, by kube-scheduler's names, labels and buckets (framework.md §12).

One object per scheduler with a registry of its own. Label children are kept, because looking them up costs more than counting. Gauges that
some other part knows better (queue lengths, cache sizes) are read from it when somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

disable_created_metrics()  # type: ignore[no-untyped-call]  # Go's client writes no _created series either

Sizes = Mapping[str, Callable[[], int]]

MANY_ATTEMPTS = 15  # the attempts label says "15+" from here on


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Return bucket bounds as Prometheus' ExponentialBuckets does."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return bounds


class Metrics:
    """What is counted and measured. Durations in seconds."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.decisions = 0  # pods for which a node was looked for
        self.decision_seconds_sum = 0.0
        self._attempts = Counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule pods, by the result.", ["result", "profile"], registry=registry
        )
        self._attempt_duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency (scheduling algorithm + binding).",
            ["result", "profile"],
            buckets=exponential(0.001, 2, 15),
            registry=registry,
        )
        self._algorithm_duration = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency.",
            buckets=exponential(0.001, 2, 15),
            registry=registry,
        )
        self._sli_duration = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "End-to-end latency of a pod from its first time in the active queue until it is bound.",
            ["attempts"],
            buckets=exponential(0.01, 2, 20),
            registry=registry,
        )
        self._pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts", "Attempts it took to schedule a pod.", buckets=exponential(1, 2, 5), registry=registry
        )
        self._permit_wait = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on permit.",
            ["result"],
            buckets=exponential(0.001, 2, 15),
            registry=registry,
        )
        self._incoming = Counter(
            "scheduler_queue_incoming_pods_total", "Pods added to queues, by event and queue.", ["queue", "event"], registry=registry
        )
        self._hint_duration = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration of a queueing hint.",
            ["plugin", "event", "hint"],
            buckets=exponential(0.00001, 1.5, 20),
            registry=registry,
        )
        self._unschedulable = Gauge(
            "scheduler_unschedulable_pods", "Pods that a plugin refused, by plugin.", ["plugin", "profile"], registry=registry
        )
        self._inflight_events = Gauge("scheduler_inflight_events", "Events kept for pods in flight.", ["event"], registry=registry)
        self._event_handling = Histogram(
            "scheduler_event_handling_duration_seconds",
            "Duration of handling a cluster event.",
            ["event"],
            buckets=exponential(0.0001, 2, 12),
            registry=registry,
        )
        self._after_flush = Counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods bound on the attempt right after the flush of long unschedulable pods.",
            registry=registry,
        )
        self._probe_skipped = Counter(
            "koord_scheduler_retries_avoided_total",
            "Retries not made because they could not succeed, by reason.",
            ["reason", "profile"],
            registry=registry,
        )
        self._children: dict[tuple[object, ...], Counter] = {}
        self._observers: dict[tuple[object, ...], Histogram] = {}

    def watch_sizes(self, pending: Sizes, cached: Sizes, repairs: Callable[[], int]) -> None:
        """Read the gauges pending_pods{queue} and cache_size{type}, and the counter of cache repairs, from these when scraped."""
        self.registry.register(_Sizes(pending, cached, repairs))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def decided(self, seconds: float) -> None:
        """Count one run of the scheduling algorithm."""
        self.decisions += 1
        self.decision_seconds_sum += seconds
        self._algorithm_duration.observe(seconds)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt that ended: scheduled, unschedulable or error."""
        self._count(self._attempts, result, profile)
        self._observe(self._attempt_duration, seconds, result, profile)

    def bound(self, attempts: int, seconds: float) -> None:
        """Count a pod that was bound, this long after it first could have been tried."""
        self._observe(self._sli_duration, seconds, str(attempts) if attempts < MANY_ATTEMPTS else f"{MANY_ATTEMPTS}+")
        self._pod_attempts.observe(attempts)

    def bound_after_flush(self) -> None:
        self._after_flush.inc()

    def waited_on_permit(self, result: str, seconds: float) -> None:
        self._observe(self._permit_wait, seconds, result)

    def event_handled(self, event: str, seconds: float) -> None:
        self._observe(self._event_handling, seconds, event)

    # QueueMetrics

    def incoming(self, queue: str, event: str) -> None:
        self._count(self._incoming, queue, event)

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self._observe(self._hint_duration, seconds, plugin, event, hint)

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        self._unschedulable.labels(plugin, profile).inc(delta)

    def inflight_events(self, event: str, delta: int) -> None:
        self._inflight_events.labels(event).inc(delta)

    def probe_skipped(self, profile: str) -> None:
        self._count(self._probe_skipped, "no node would fit", profile)

    def retry_skipped(self, profile: str) -> None:
        self._count(self._probe_skipped, "nothing changed since an equal pod failed", profile)

    def _count(self, counter: Counter, *labels: str) -> None:
        child = self._children.get((counter, *labels))
        if child is None:
            child = self._children[(counter, *labels)] = counter.labels(*labels)
        child.inc()

    def _observe(self, histogram: Histogram, seconds: float, *labels: str) -> None:
        child = self._observers.get((histogram, *labels))
        if child is None:
            child = self._observers[(histogram, *labels)] = histogram.labels(*labels)
        child.observe(seconds)


class _Sizes(Collector):
    """Gauges that are read when somebody scrapes."""

    def __init__(self, pending: Sizes, cached: Sizes, repairs: Callable[[], int]) -> None:
        self._pending = pending
        self._cached = cached
        self._repairs = repairs

    def collect(self) -> Iterable[Metric]:
        yield _family("scheduler_pending_pods", "Pending pods, by the queue type.", "queue", self._pending)
        yield _family("scheduler_cache_size", "Nodes, pods, and assumed pods in the scheduler cache.", "type", self._cached)
        repairs = GaugeMetricFamily("koord_scheduler_cache_repairs_total", "Times an event contradicted what the cache believed.")
        repairs.add_metric([], self._repairs())
        yield repairs


def _family(name: str, text: str, label: str, sizes: Sizes) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, size in sizes.items():
        family.add_metric([value], size())
    return family
