"""The scheduler's metrics, by kube-scheduler's names, labels and buckets (framework.md §12); durations in seconds.

One object per scheduler. Gauges that some other part knows (queue lengths, cache sizes) are read from it when
somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from koordsched.scheduler.framework_metrics import FrameworkMeasures
from koordsched.scheduler.measures import Count, Counts, Distribution, Level, Reading, Readings, Tally, exponential, exposition
from koordsched.scheduler.metric_rules import MetricRules

if TYPE_CHECKING:
    from koordsched.cluster.informer import Informer
    from koordsched.scheduler.measures import Buckets, Cell, Measure
    from koordsched.scheduler.status_writer import StatusWriter

Sizes = Mapping[str, Callable[[], int]]


class DriftMetrics(Protocol):
    """Where the standing check counts."""

    def drifted(self, kind: str) -> None:
        """Count a fact that differed from the cluster and was mended."""

    def checked(self) -> None:
        """Count a turn of the check."""

    def check_failed(self) -> None:
        """Count a turn that could not be ended."""


TIDY_DECISIONS = 1024  # pods after which observations are summed up
MANY_ATTEMPTS = 15  # the attempts label says "15+" from here on
NO_NODE_FITS = "no node would fit"
NOTHING_CHANGED = "nothing changed since an equal pod failed"


class Metrics:
    """What is counted and measured."""

    def __init__(self, rules: MetricRules | None = None) -> None:
        self.rules = MetricRules() if rules is None else rules  # what operators want to see
        self._shown: list[Measure] = []
        shown = self._shown
        self.framework = FrameworkMeasures(shown)
        self.decisions = 0  # pods for which a node was looked for
        self.decision_seconds_sum = 0.0
        self._attempts = Tally(shown, "scheduler_schedule_attempts_total", "Attempts to schedule pods, by result.", ["result", "profile"])
        self._attempt_duration = Distribution(
            shown,
            "scheduler_scheduling_attempt_duration_seconds",
            "Latency of an attempt: scheduling algorithm and binding.",
            ["result", "profile"],
        ).with_bounds(exponential(0.001, 2, 15))
        self._algorithm_duration = Distribution(
            shown, "scheduler_scheduling_algorithm_duration_seconds", "Latency of the scheduling algorithm."
        ).with_bounds(exponential(0.001, 2, 15))
        self._observe_algorithm = self._algorithm_duration.of().observe
        self._sli_duration = Distribution(
            shown,
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Latency of a pod from its first time in the active queue until it is bound.",
            ["attempts"],
        ).with_bounds(exponential(0.01, 2, 20))
        self._pod_attempts = Distribution(shown, "scheduler_pod_scheduling_attempts", "Attempts it took to bind a pod.").with_bounds(
            exponential(1, 2, 5)
        )
        self._observe_pod_attempts = self._pod_attempts.of().observe
        self._attempts_by: dict[tuple[str, str], tuple[Cell, Callable[[float], None]]] = {}  # by result and profile
        self._sli_by_attempts: dict[int, Callable[[float], None]] = {}
        self._permit_wait = Distribution(
            shown, "scheduler_permit_wait_duration_seconds", "Duration of waiting on Permit.", ["result"]
        ).with_bounds(exponential(0.001, 2, 15))
        self._incoming = Tally(shown, "scheduler_queue_incoming_pods_total", "Pods that entered a queue, by event.", ["queue", "event"])
        self._hint_duration = Distribution(
            shown, "scheduler_queueing_hint_execution_duration_seconds", "Duration of a queueing hint.", ["plugin", "event", "hint"]
        ).with_bounds(exponential(0.00001, 1.5, 20))
        self._event_handling = Distribution(
            shown, "scheduler_event_handling_duration_seconds", "Duration of bringing an event into cache and queue.", ["event"]
        ).with_bounds(exponential(0.0001, 2, 12))
        self._unschedulable = Level(shown, "scheduler_unschedulable_pods", "Pods that a plugin refused.", ["plugin", "profile"])
        self._after_flush = Tally(
            shown,
            "scheduler_pod_scheduled_after_flush_total",
            "Pods bound on the attempt right after the flush of long unschedulable pods.",
        )
        self._avoided = Tally(
            shown, "koord_scheduler_retries_avoided_total", "Retries that could not have succeeded.", ["reason", "profile"]
        )
        self._after_flush.of()
        self._drift = Tally(
            shown, "koord_scheduler_cache_drift_total", "Facts that differed from the cluster and were mended, by kind.", ["kind"]
        )
        self._checks = Tally(shown, "koord_scheduler_cache_checks_total", "Turns of the standing check, by result.", ["result"])

    @property
    def measures(self) -> Sequence[Measure]:
        """Return all that is measured."""
        return self._shown

    def watch_sizes(self, pending: Sizes, cached: Sizes, repairs: Callable[[], int]) -> None:
        """Read pending_pods{queue}, cache_size{type} and the number of cache repairs from these when scraped."""
        Reading(self._shown, "scheduler_pending_pods", "Pending pods, by queue.", ("queue", pending))
        Reading(self._shown, "scheduler_cache_size", "Nodes, pods and assumed pods in the cache.", ("type", cached))
        Count(self._shown, "koord_scheduler_cache_repairs_total", "Events that contradicted what the cache believed.", repairs)

    def watch_inflight(self, kept: Callable[[], Mapping[str, int]]) -> None:
        """Read inflight_events{event}, the events kept for pods in flight, from this when scraped."""
        Readings(self._shown, "scheduler_inflight_events", "Events kept for pods in flight.", ("event", kept))

    def watch_tasks(self, running: Sizes) -> None:
        """Read goroutines{operation}, the number of running tasks, from these when scraped."""
        Reading(self._shown, "scheduler_goroutines", "Running tasks, by what they do.", ("operation", running))

    def watch_informers(self, informers: Iterable[Informer[Any]]) -> None:
        """Read from informers, when scraped, what handlers failed on and how old what they know is, by kind."""
        by_kind = {informer.kind.plural_group: informer for informer in informers}

        def read(of: Callable[[Informer[Any]], float]) -> Callable[[], Mapping[str, float]]:
            return lambda: {kind: of(informer) for kind, informer in by_kind.items()}

        shown, kind = self._shown, "kind"
        Counts(
            shown,
            "koord_scheduler_handler_errors_total",
            "Calls of event handlers that raised.",
            (kind, read(lambda informer: informer.handler_errors)),
        )
        Readings(
            shown,
            "koord_scheduler_handler_retries_pending",
            "Objects of which an event handler that raised is still to be told.",
            (kind, read(lambda informer: len(informer.missed))),
        )
        Readings(
            shown,
            "koord_scheduler_watch_age_seconds",
            "Seconds since the API server last said anything of a kind.",
            (kind, read(lambda informer: informer.silent_for())),
        )
        Counts(
            shown,
            "koord_scheduler_watch_stalls_total",
            "Watches that were given up because they were silent.",
            (kind, read(lambda informer: informer.stats.stalls)),
        )
        Counts(
            shown,
            "koord_scheduler_relists_total",
            "Lists after the first, each because history was lost.",
            (kind, read(lambda informer: informer.stats.relists)),
        )
        Counts(
            shown,
            "koord_scheduler_watch_errors_total",
            "Lists and watches that failed.",
            (kind, read(lambda informer: informer.stats.errors)),
        )

    def watch_status_writer(self, writer: StatusWriter) -> None:
        """Read from the status writer how many conditions wait to be written, and how many writes were refused."""
        Count(
            self._shown,
            "koord_scheduler_status_writes_refused_total",
            "Writes of pod conditions that were refused for a reason that may last; each is tried again later.",
            lambda: writer.failed,
        )
        Reading(
            self._shown,
            "koord_scheduler_status_writes_pending",
            "Pods whose condition is still to be written.",
            ("", {"": lambda: writer.unwritten}),
        )

    def reset(self) -> None:
        """Count from zero again; gauges stay true."""
        for measure in self._shown:
            measure.reset()

    def tidy(self) -> None:
        """Sum up what was observed since the last time."""
        for measure in self._shown:
            measure.tidy()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return exposition(self._shown, self.rules)

    def decided(self, seconds: float) -> None:
        """Count one run of the scheduling algorithm."""
        self.decisions += 1
        if not self.decisions % TIDY_DECISIONS:
            self.tidy()
        self.decision_seconds_sum += seconds
        self._observe_algorithm(seconds)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt that ended: scheduled, unschedulable or error."""
        known = self._attempts_by.get((result, profile))
        if known is None:
            known = self._attempts_by[result, profile] = (
                self._attempts.of(result, profile),
                self._attempt_duration.of(result, profile).observe,
            )
        known[0].count += 1
        known[1](seconds)

    def bound(self, attempts: int, seconds: float) -> None:
        """Count a pod that was bound, this long after it first could have been tried."""
        observe = self._sli_by_attempts.get(attempts)
        if observe is None:
            label = str(attempts) if attempts < MANY_ATTEMPTS else f"{MANY_ATTEMPTS}+"
            observe = self._sli_by_attempts[attempts] = self._sli_duration.of(label).observe
        observe(seconds)
        self._observe_pod_attempts(attempts)

    def bound_after_flush(self) -> None:
        self._after_flush.add()

    def waited_on_permit(self, result: str, seconds: float) -> None:
        self._permit_wait.observe(seconds, result)

    def event_handling(self, event: str) -> Buckets:
        """Return the durations of handling events with this label."""
        return self._event_handling.of(event)

    # DriftMetrics

    def drifted(self, kind: str) -> None:
        self._drift.add(kind)

    def checked(self) -> None:
        self._checks.add("done")

    def check_failed(self) -> None:
        self._checks.add("failed")

    # QueueMetrics

    def incoming(self, queue: str, event: str) -> None:
        self._incoming.add(queue, event)

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self._hint_duration.observe(seconds, plugin, event, hint)

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        self._unschedulable.move(delta, plugin, profile)

    def probe_skipped(self, profile: str) -> None:
        self._avoided.add(NO_NODE_FITS, profile)

    def retry_skipped(self, profile: str) -> None:
        self._avoided.add(NOTHING_CHANGED, profile)
