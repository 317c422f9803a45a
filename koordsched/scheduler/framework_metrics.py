"""What extension points, plugins and preemption are measured by (framework.md §12): `framework.stopwatch.FrameworkMetrics`.

Of batching only the names are here, since koord-scheduler never batches. What has no labels is shown as 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.scheduler.measures import Distribution, Tally, exponential

if TYPE_CHECKING:
    from koordsched.scheduler.measures import Buckets, Cell, Measure

POINT = ["extension_point", "status", "profile"]


class FrameworkMeasures:
    """The framework's part of the metrics."""

    def __init__(self, shown: list[Measure]) -> None:
        self._points = Distribution(
            shown, "scheduler_framework_extension_point_duration_seconds", "Latency of all plugins of an extension point.", POINT
        ).with_bounds(exponential(0.0001, 2, 12))
        self._executions = Distribution(
            shown,
            "scheduler_plugin_execution_duration_seconds",
            "Duration of a plugin at an extension point, in one cycle of ten; at Filter and Score for all nodes it is asked about at once.",
            ["plugin", "extension_point", "status"],
        ).with_bounds(exponential(0.00001, 1.5, 20))
        self._evaluations = Tally(
            shown,
            "scheduler_plugin_evaluation_total",
            "Questions to a plugin, by extension point: one a pod, at Filter and Score one a node.",
            ["plugin", "extension_point", "profile"],
        )
        self.preemption = PreemptionMeasures(shown)
        self.volume_stage_errors = _volumes(shown)
        self.malformed_objects = Tally(
            shown, "koord_scheduler_malformed_objects_total", "Objects that came and cannot be read, or only in part, by kind.", ["kind"]
        )
        _batching(shown)

    def extension_point(self, point: str, status: str, profile: str) -> Buckets:
        return self._points.of(point, status, profile)

    def plugin_execution(self, plugin: str, point: str, status: str) -> Buckets:
        return self._executions.of(plugin, point, status)

    def plugin_evaluation(self, plugin: str, point: str, profile: str) -> Cell:
        return self._evaluations.of(plugin, point, profile)


class PreemptionMeasures:
    """`framework.handle.PreemptionMetrics`."""

    def __init__(self, shown: list[Measure]) -> None:
        self._victims = (
            Distribution(shown, "scheduler_preemption_victims", "Pods evicted for another pod.").with_bounds(exponential(1, 2, 7)).of()
        )
        self._attempts = Tally(shown, "scheduler_preemption_attempts_total", "Attempts to make room for a pod by evicting others.")
        self._attempts.of()
        self._durations = Distribution(
            shown, "scheduler_preemption_goroutines_duration_seconds", "Duration of the tasks that evict pods.", ["result"]
        ).with_bounds(exponential(0.01, 2, 20))
        self._executions = Tally(shown, "scheduler_preemption_goroutines_execution_total", "Tasks that evict pods, by result.", ["result"])

    def attempted(self) -> None:
        self._attempts.add()

    def evicting(self, victims: int) -> None:
        self._victims.observe(victims)

    def evicted(self, result: str, seconds: float) -> None:
        self._durations.observe(seconds, result)
        self._executions.add(result)


def _volumes(shown: list[Measure]) -> Tally:
    """Return the failed stages; the other name is kept for dashboards, since kube-scheduler itself no longer counts by it."""
    Tally(shown, "scheduler_volume_binder_cache_requests_total", "Requests to the cache of volume bindings.", ["operation"])
    return Tally(shown, "scheduler_volume_scheduling_stage_error_total", "Failed stages of volume scheduling.", ["operation"])


def _batching(shown: list[Measure]) -> None:
    Tally(shown, "scheduler_batch_attempts_total", "Attempts to use the result of an equal pod.", ["profile", "result"])
    Tally(shown, "scheduler_batch_cache_flushed_total", "Results of equal pods that were dropped.", ["profile", "reason"])
    Distribution(
        shown, "scheduler_get_node_hint_duration_seconds", "Duration of looking for an equal pod's result.", ["hinted", "profile"]
    ).with_bounds(exponential(0.00001, 2, 12))
    Distribution(
        shown, "scheduler_store_schedule_results_duration_seconds", "Duration of keeping a result for equal pods.", ["profile"]
    ).with_bounds(exponential(0.00001, 2, 12))
