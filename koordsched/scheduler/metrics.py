"""The scheduler's metrics, by kube-scheduler's names, labels and buckets (framework.md §12); durations in seconds.

One object for each scheduler. Gauges that other parts keep (queue lengths, cache sizes) are read from them when the metrics are collected.
Of batching only the names are here, since koord-scheduler never batches. A metric without labels is shown as 0 from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from koordsched.metrics import (
    Alias,
    Counter,
    CounterFunction,
    Gauge,
    GaugeFunction,
    Histogram,
    MetricRules,
    Registry,
    exponential,
    exposition,
)

if TYPE_CHECKING:
    from koordsched.cluster.informer import Informer
    from koordsched.metrics import CounterChild, HistogramChild
    from koordsched.scheduler.status_writer import StatusWriter

Sizes = Mapping[str, Callable[[], int]]
"""Functions that return how many there are, by label value."""

TIDY_DECISIONS = 1024  # pods after which observations are summed up
MANY_ATTEMPTS = 15  # the attempts label is "15+" from here on
RESULTS = ("scheduled", "unschedulable", "error")  # of attempts
VOLUME_STAGES = ("predicate", "assume", "bind")
NO_NODE_FITS = "no node would fit"
NOTHING_CHANGED = "nothing changed since an equal pod failed"


class DriftMetrics(Protocol):
    """Where the standing check counts."""

    def drifted(self, kind: str) -> None:
        """Count a fact that differed from the cluster and was mended."""

    def checked(self) -> None:
        """Count a turn of the check."""

    def check_failed(self) -> None:
        """Count a turn that could not be ended."""


class FrameworkCollectors:
    """Extension points and plugins: `framework.timings.FrameworkMetrics`; preemption; objects and volumes of plugins."""

    def __init__(self, registry: Registry) -> None:
        self._points = Histogram(
            registry,
            "scheduler_framework_extension_point_duration_seconds",
            "Latency of all plugins of an extension point.",
            ["extension_point", "status", "profile"],
            bounds=exponential(0.0001, 2, 12),
        )
        self._executions = Histogram(
            registry,
            "scheduler_plugin_execution_duration_seconds",
            "Duration of a plugin at an extension point, in one cycle of ten; at Filter and Score for all nodes it is asked about at once.",
            ["plugin", "extension_point", "status"],
            bounds=exponential(0.00001, 1.5, 20),
        )
        self._evaluations = Counter(
            registry,
            "scheduler_plugin_evaluation_total",
            "Questions to a plugin, by extension point: one a pod, at Filter and Score one a node.",
            ["plugin", "extension_point", "profile"],
        )
        self.preemption = PreemptionCollectors(registry)
        # The first is kept for dashboards: kube-scheduler itself does not count by it any more.
        Counter(registry, "scheduler_volume_binder_cache_requests_total", "Requests to the cache of volume bindings.", ["operation"])
        self.volume_stage_errors = Counter(
            registry, "scheduler_volume_scheduling_stage_error_total", "Failed stages of volume scheduling.", ["operation"]
        )
        for stage in VOLUME_STAGES:
            self.volume_stage_errors.child(stage)
        self.malformed_objects = Counter(
            registry, "koord_scheduler_malformed_objects_total", "Objects that came and cannot be read, or only in part, by kind.", ["kind"]
        )
        Counter(registry, "scheduler_batch_attempts_total", "Attempts to use the result of an equal pod.", ["profile", "result"])
        Counter(registry, "scheduler_batch_cache_flushed_total", "Results of equal pods that were dropped.", ["profile", "reason"])
        Histogram(
            registry,
            "scheduler_get_node_hint_duration_seconds",
            "Duration of looking for an equal pod's result.",
            ["hinted", "profile"],
            bounds=exponential(0.00001, 2, 12),
        )
        Histogram(
            registry,
            "scheduler_store_schedule_results_duration_seconds",
            "Duration of keeping a result for equal pods.",
            ["profile"],
            bounds=exponential(0.00001, 2, 12),
        )

    def extension_point(self, point: str, status: str, profile: str) -> HistogramChild:
        return self._points.child(point, status, profile)

    def plugin_execution(self, plugin: str, point: str, status: str) -> HistogramChild:
        return self._executions.child(plugin, point, status)

    def plugin_evaluation(self, plugin: str, point: str, profile: str) -> CounterChild:
        return self._evaluations.child(plugin, point, profile)


class PreemptionCollectors:
    """`framework.handle.PreemptionMetrics`."""

    def __init__(self, registry: Registry) -> None:
        self._victims = Histogram(
            registry, "scheduler_preemption_victims", "Pods evicted for another pod.", bounds=exponential(1, 2, 7)
        ).child()
        self._attempts = Counter(registry, "scheduler_preemption_attempts_total", "Attempts to make room for a pod by evicting others.")
        self._attempts.child()
        self._durations = Histogram(
            registry,
            "scheduler_preemption_goroutines_duration_seconds",
            "Duration of the tasks that evict pods.",
            ["result"],
            bounds=exponential(0.01, 2, 20),
        )
        self._executions = Counter(
            registry, "scheduler_preemption_goroutines_execution_total", "Tasks that evict pods, by result.", ["result"]
        )

    def attempted(self) -> None:
        self._attempts.increment()

    def evicting(self, victims: int) -> None:
        self._victims.observe(victims)

    def evicted(self, result: str, seconds: float) -> None:
        self._durations.observe(seconds, result)
        self._executions.increment(result)


class Metrics:
    """What is counted and measured; `rules` say what of it operators want to see."""

    def __init__(self, rules: MetricRules | None = None) -> None:
        self.rules = MetricRules() if rules is None else rules
        self.collectors: Registry = []
        registry = self.collectors
        self.framework = FrameworkCollectors(registry)
        self.decisions = 0  # pods for which a node was looked for
        self.decision_seconds_sum = 0.0
        self._attempts = Counter(
            registry, "scheduler_schedule_attempts_total", "Attempts to schedule pods, by result.", ["result", "profile"]
        )
        self._attempt_duration = Histogram(
            registry,
            "scheduler_scheduling_attempt_duration_seconds",
            "Latency of an attempt: scheduling algorithm and binding.",
            ["result", "profile"],
            bounds=exponential(0.001, 2, 15),
        )
        algorithm_duration = Histogram(
            registry,
            "scheduler_scheduling_algorithm_duration_seconds",
            "Latency of the scheduling algorithm.",
            bounds=exponential(0.001, 2, 15),
        )
        self._observe_algorithm = algorithm_duration.child().observe
        evaluated = Histogram(
            registry,
            "scheduler_pod_scheduling_evaluated_nodes",
            "Nodes that were looked at for a pod that got one.",
            bounds=exponential(1, 2, 24),
        )
        feasible = Histogram(
            registry,
            "scheduler_pod_scheduling_feasible_nodes",
            "Nodes that passed all filters for a pod that got one.",
            bounds=exponential(1, 2, 24),
        )
        self.observe_evaluated, self.observe_feasible = evaluated.child().observe, feasible.child().observe
        self._sli_duration = Histogram(
            registry,
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Latency of a pod from its first time in the active queue until it is bound.",
            ["attempts"],
            bounds=exponential(0.01, 2, 20),
        )
        # Names that Kubernetes 1.35 no longer has and Koordinator's dashboard still asks for (frameworkext.md §8).
        Alias(registry, "scheduler_e2e_scheduling_duration_seconds", self._attempt_duration)
        Alias(registry, "scheduler_pod_scheduling_duration_seconds", self._sli_duration)
        pod_attempts = Histogram(
            registry, "scheduler_pod_scheduling_attempts", "Attempts it took to bind a pod.", bounds=exponential(1, 2, 5)
        )
        self._observe_pod_attempts = pod_attempts.child().observe
        self._attempts_by: dict[tuple[str, str], tuple[CounterChild, Callable[[float], None]]] = {}  # by result and profile
        self._sli_by_attempts: dict[int, Callable[[float], None]] = {}
        self._permit_wait = Histogram(
            registry,
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on Permit.",
            ["result"],
            bounds=exponential(0.001, 2, 15),
        )
        self._incoming = Counter(
            registry, "scheduler_queue_incoming_pods_total", "Pods that entered a queue, by event.", ["queue", "event"]
        )
        self._hint_duration = Histogram(
            registry,
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration of a queueing hint.",
            ["plugin", "event", "hint"],
            bounds=exponential(0.00001, 1.5, 20),
        )
        self._event_handling = Histogram(
            registry,
            "scheduler_event_handling_duration_seconds",
            "Duration of bringing an event into cache and queue.",
            ["event"],
            bounds=exponential(0.0001, 2, 12),
        )
        self.scheduling_timeout = Counter(
            registry,
            "scheduler_scheduling_timeout",
            "Attempts that took longer than --scheduling-timeout: one at each look of the monitor, and one when they end.",
            ["profile"],
        )
        next_pod = Histogram(
            registry,
            "scheduler_next_pod_delete_from_queue_latency",
            "Latency of removing a pod from the queue that a plugin named as the next one.",
            bounds=exponential(0.00001, 2, 24),
        )
        self.took_next_pod = next_pod.child().observe
        self._unschedulable = Gauge(registry, "scheduler_unschedulable_pods", "Pods that a plugin refused.", ["plugin", "profile"])
        self._after_flush = Counter(
            registry,
            "scheduler_pod_scheduled_after_flush_total",
            "Pods bound on the attempt right after the flush of long unschedulable pods.",
        )
        self._after_flush.child()
        self._avoided = Counter(
            registry, "koord_scheduler_retries_avoided_total", "Retries that could not have succeeded.", ["reason", "profile"]
        )
        self._drift = Counter(
            registry, "koord_scheduler_cache_drift_total", "Facts that differed from the cluster and were mended, by kind.", ["kind"]
        )
        self._checks = Counter(registry, "koord_scheduler_cache_checks_total", "Turns of the standing check, by result.", ["result"])

    def show_outcomes(self, profiles: Iterable[str]) -> None:
        """Show counters of outcomes from the start, at 0: what rises from nothing to 1 is no increase to Prometheus."""
        for profile in profiles:
            for result in RESULTS:
                self._attempts.child(result, profile)

    def watch_sizes(self, pending: Sizes, cached: Sizes, repairs: Callable[[], int]) -> None:
        """Collect pending_pods{queue}, cache_size{type} and the number of cache repairs from these."""
        registry = self.collectors
        GaugeFunction(registry, "scheduler_pending_pods", "Pending pods, by queue.", _read_all(pending), "queue")
        GaugeFunction(registry, "scheduler_cache_size", "Nodes, pods and assumed pods in the cache.", _read_all(cached), "type")
        CounterFunction(
            registry, "koord_scheduler_cache_repairs_total", "Events that contradicted what the cache held.", lambda: {"": repairs()}
        )

    def watch_inflight(self, kept: Callable[[], Mapping[str, int]]) -> None:
        """Collect inflight_events{event}, the events kept for pods in flight, from this."""
        GaugeFunction(self.collectors, "scheduler_inflight_events", "Events kept for pods in flight.", kept, "event")

    def watch_tasks(self, running: Sizes) -> None:
        """Collect goroutines{operation}, the number of running tasks, from these."""
        GaugeFunction(self.collectors, "scheduler_goroutines", "Running tasks, by what they do.", _read_all(running), "operation")

    def watch_informers(self, informers: Iterable[Informer[Any]]) -> None:
        """Collect from informers, by kind, what handlers failed on and how old their stores are."""
        by_kind = {informer.kind.plural_group: informer for informer in informers}

        def read(of: Callable[[Informer[Any]], float]) -> Callable[[], Mapping[str, float]]:
            return lambda: {kind: of(informer) for kind, informer in by_kind.items()}

        registry, kind = self.collectors, "kind"
        CounterFunction(
            registry,
            "koord_scheduler_handler_errors_total",
            "Calls of event handlers that raised.",
            read(lambda informer: informer.handler_errors),
            kind,
        )
        GaugeFunction(
            registry,
            "koord_scheduler_handler_retries_pending",
            "Objects for which an event handler that raised is still to be called again.",
            read(lambda informer: len(informer.missed)),
            kind,
        )
        GaugeFunction(
            registry,
            "koord_scheduler_watch_age_seconds",
            "Seconds since the API server last said anything of a kind.",
            read(lambda informer: informer.silent_for()),
            kind,
        )
        CounterFunction(
            registry,
            "koord_scheduler_watch_stalls_total",
            "Watches that were given up because they were silent.",
            read(lambda informer: informer.stats.stalls),
            kind,
        )
        CounterFunction(
            registry,
            "koord_scheduler_relists_total",
            "Lists after the first, each because history was lost.",
            read(lambda informer: informer.stats.relists),
            kind,
        )
        CounterFunction(
            registry,
            "koord_scheduler_watch_errors_total",
            "Lists and watches that failed.",
            read(lambda informer: informer.stats.errors),
            kind,
        )

    def watch_status_writer(self, writer: StatusWriter) -> None:
        """Collect from the status writer how many conditions wait to be written, and how many writes were refused."""
        CounterFunction(
            self.collectors,
            "koord_scheduler_status_writes_refused_total",
            "Writes of pod conditions that were refused for a reason that may last; each is tried again later.",
            lambda: {"": writer.failed},
        )
        GaugeFunction(
            self.collectors,
            "koord_scheduler_status_writes_pending",
            "Pods whose condition is still to be written.",
            lambda: {"": writer.unwritten},
        )

    def reset(self) -> None:
        """Count from zero again; gauges stay true."""
        for collector in self.collectors:
            collector.reset()

    def tidy(self) -> None:
        """Sum up what was observed since the last time."""
        for collector in self.collectors:
            collector.tidy()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return exposition(self.collectors, self.rules)

    def decided(self, seconds: float) -> None:
        """Count one run of the scheduling algorithm."""
        self.decisions += 1
        if not self.decisions % TIDY_DECISIONS:
            self.tidy()
        self.decision_seconds_sum += seconds
        self._observe_algorithm(seconds)

    def chose(self, evaluated: int, feasible: int) -> None:
        """Observe how many nodes were looked at, and how many were feasible, for a pod that gets one of them."""
        self.observe_evaluated(evaluated)
        self.observe_feasible(feasible)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt that ended: scheduled, unschedulable or error."""
        known = self._attempts_by.get((result, profile))
        if known is None:
            known = self._attempts_by[result, profile] = (
                self._attempts.child(result, profile),
                self._attempt_duration.child(result, profile).observe,
            )
        known[0].count += 1
        known[1](seconds)

    def bound(self, attempts: int, seconds: float) -> None:
        """Count a pod that was bound, this long after it first could have been tried."""
        observe = self._sli_by_attempts.get(attempts)
        if observe is None:
            label = str(attempts) if attempts < MANY_ATTEMPTS else f"{MANY_ATTEMPTS}+"
            observe = self._sli_by_attempts[attempts] = self._sli_duration.child(label).observe
        observe(seconds)
        self._observe_pod_attempts(attempts)

    def bound_after_flush(self) -> None:
        self._after_flush.increment()

    def waited_on_permit(self, result: str, seconds: float) -> None:
        self._permit_wait.observe(seconds, result)

    def event_handling(self, event: str) -> HistogramChild:
        """Return the durations of handling events with this label."""
        return self._event_handling.child(event)

    # DriftMetrics

    def drifted(self, kind: str) -> None:
        self._drift.increment(kind)

    def checked(self) -> None:
        self._checks.increment("done")

    def check_failed(self) -> None:
        self._checks.increment("failed")

    # QueueMetrics

    def incoming(self, queue: str, event: str) -> None:
        self._incoming.increment(queue, event)

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self._hint_duration.observe(seconds, plugin, event, hint)

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        self._unschedulable.add(delta, plugin, profile)

    def probe_skipped(self, profile: str) -> None:
        self._avoided.increment(NO_NODE_FITS, profile)

    def retry_skipped(self, profile: str) -> None:
        self._avoided.increment(NOTHING_CHANGED, profile)


def _read_all(sizes: Sizes) -> Callable[[], Mapping[str, int]]:
    return lambda: {value: size() for value, size in sizes.items()}
