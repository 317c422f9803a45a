"""The loads of all nodes under the arguments of one or more profiles, as columns (`_core.load.LoadTable`).

What is true of nodes, metrics and pods is kept once for all profiles (`state`); what factors, thresholds and durations make of it is kept
here, once for all profiles whose arguments are equal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from koordsched._core.load import LoadTable, last_reported, reported_amounts
from koordsched.api.koordinator.priority import KoordinatorPriorityClass
from koordsched.config.duration import NANO
from koordsched.plugins.loadaware.estimation import PodEstimator, vector_of
from koordsched.plugins.loadaware.measurements import MetricProblems, aggregated_amounts, amounts_of
from koordsched.plugins.loadaware.thresholds import Aggregation, ThresholdProfiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched._core.load import PodLoad
    from koordsched._core.load_facts import NodeLoad
    from koordsched._core.table import NodeTable
    from koordsched.api.core import ResourceList
    from koordsched.api.koordinator.measurements import NodeMetric, NodeMetricStatus, PodUsageMetric
    from koordsched.config.koordinator_args import LoadAwareSchedulingArgs
    from koordsched.plugins.loadaware.measurements import Amounts

PROD = KoordinatorPriorityClass.PROD.value
NEVER = -math.inf
"""The time at which a metric was measured that has never said so."""


class Measurement:
    """A node's metric, and how its times are meant. Shared by all profiles."""

    __slots__ = ("interval", "metric", "reported_at", "settled_before", "update_time")

    def __init__(self, metric: NodeMetric, reported_at: float | None, update_time: float, interval: float) -> None:
        self.metric = metric
        self.reported_at = reported_at  # status.updateTime; None: it has none, and counts as expired
        self.update_time = update_time  # the same, or where it is missing that of the metric before; NEVER: there is none
        self.interval = interval  # seconds between two reports
        self.settled_before = update_time - interval  # a pod must have been scheduled by then for the metric to know all of its use


class NodeLoads:
    """The columns, and how they are made of metrics, nodes and pods under these arguments."""

    def __init__(self, args: LoadAwareSchedulingArgs, nodes: NodeTable, index_attribute: int) -> None:
        self.args = args
        self.vector = vector_of(args)
        self.estimator = PodEstimator(args, self.vector)
        self.thresholds = ThresholdProfiles(args, self.vector)
        self.table = self.new_table(nodes, index_attribute)
        self._includes_system = args.prod_usage_include_sys
        self._said_before = MetricProblems()  # of what is read once more
        own = args.aggregated
        self._score_aggregation = (
            None
            if own is None or not own.score_aggregation_type
            else Aggregation(own.score_aggregation_type, round(own.score_aggregated_duration * NANO))
        )

    def new_table(self, nodes: NodeTable, index_attribute: int) -> LoadTable:
        """Make an empty table such as this one's."""
        return LoadTable(
            nodes,
            index_attribute,
            len(self.vector),
            filters_expired=self.args.filter_expired_node_metrics,
            passes_expired=self.args.enable_schedule_when_node_metrics_expired,
        )

    # Writing

    def set_node(
        self, index: int, capacity: ResourceList, annotations: Mapping[str, str], table: LoadTable | None = None
    ) -> Aggregation | None:
        """Take over what a node has and what it may use, and return which statistic of use its thresholds are of."""
        thresholds = self.thresholds.of(annotations)
        amounts = amounts_of(capacity, self.vector, "", MetricProblems())
        (table or self.table).set_node(index, amounts, thresholds.values, thresholds.prod, aggregated=thresholds.aggregation is not None)
        return thresholds.aggregation

    def set_measurement(
        self,
        index: int,
        measurement: Measurement,
        aggregation: Aggregation | None,
        pods: Iterable[PodLoad],
        *,
        now: float,
        problems: MetricProblems,
        table: LoadTable | None = None,
    ) -> None:
        """Take over a metric, and count the node's pods anew."""
        status, vector = measurement.metric.status, self.vector
        measured = status.node_metric
        none = (0,) * len(vector)
        filter_usage: Amounts | None = none
        score_usage: Amounts | None = none
        prod_usage = none
        if measured is not None:
            node_usage = filter_usage = score_usage = amounts_of(
                measured.node_usage.resources, vector, "status.nodeMetric.nodeUsage", problems
            )
            if aggregation is not None:
                filter_usage = aggregated_amounts(measured, aggregation, vector, node_usage, problems)
            if self._score_aggregation is not None:
                score_usage = aggregated_amounts(measured, self._score_aggregation, vector, node_usage, problems)
            if self._includes_system:
                prod_usage = amounts_of(measured.system_usage.resources, vector, "status.nodeMetric.systemUsage", problems)
        counted = list(pods)
        (table or self.table).set_metric(
            index,
            filter_usage,
            score_usage,
            prod_usage,
            measured=measured is not None,
            expired=self.is_expired(measurement, now),
            pods=counted,
            usages=self._usages(status, {pod.key for pod in counted}, problems),
            update_time=measurement.update_time,
            settled_before=measurement.settled_before,
        )

    def _usages(self, status: NodeMetricStatus, wanted: set[str], problems: MetricProblems) -> dict[str, tuple[Amounts, bool]]:
        """Return what pods use, by key, and whether they are reported as prod pods; what is said of other pods is not read."""

        def read(pod: PodUsageMetric, i: int) -> Amounts:
            return self._usage(pod, i, problems)

        return reported_amounts(status.pods_metric, wanted, self.vector, PROD, read)

    def _usage(self, pod: PodUsageMetric, i: int, problems: MetricProblems) -> Amounts:
        return amounts_of(pod.pod_usage.resources, self.vector, f"status.podsMetric[{i}].podUsage", problems)

    def is_expired(self, measurement: Measurement, now: float) -> bool:
        reported_at = measurement.reported_at
        return reported_at is None or now - reported_at >= self.args.node_metric_expiration_seconds

    def expires_at(self, measurement: Measurement) -> float | None:
        """Return when the metric expires; None when it counts as expired anyhow."""
        return None if measurement.reported_at is None else measurement.reported_at + self.args.node_metric_expiration_seconds

    # Pods

    def add_pod(self, index: int, measurement: Measurement, pod: PodLoad) -> None:
        usage, as_prod = self._reported(measurement, pod.key)
        self.table.add_pod(index, pod, usage, as_prod, update_time=measurement.update_time, settled_before=measurement.settled_before)

    def remove_pod(self, index: int, measurement: Measurement, pod: PodLoad) -> None:
        usage, as_prod = self._reported(measurement, pod.key)
        self.table.remove_pod(index, pod, usage, as_prod, update_time=measurement.update_time, settled_before=measurement.settled_before)

    def _reported(self, measurement: Measurement, key: str) -> tuple[Amounts | None, bool]:
        """Return what the metric says of a pod."""
        namespace, _, name = key.partition("/")
        found = last_reported(measurement.metric.status.pods_metric, namespace, name)
        return (None, False) if found is None else (self._usage(found, 0, self._said_before), found.priority == PROD)

    def sums(self, measurement: Measurement, pods: Iterable[PodLoad]) -> NodeLoad:
        """Return what the columns say of a node on which these pods run, for people to look at."""
        alone = self.new_table(self.table.nodes, self.table.index_attribute)
        alone.clear_node(1)
        self.set_measurement(1, measurement, None, pods, now=measurement.update_time, problems=MetricProblems(), table=alone)
        return alone.load_of(1)
