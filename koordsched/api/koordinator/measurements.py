"""NodeMetric, NodeSLO and Recommendation: what nodes and workloads really use, and what is made of it.

A NodeMetric's and a NodeSLO's name is its node's. Of a NodeMetric those parts are here that LoadAwareScheduling reads (frameworkext.md
§5.2); usage of single devices, of host applications and what could be reclaimed are not. A scheduler reads nothing of a NodeSLO: its
strategies are koordlet's, so they are kept as JSON.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from koordsched.api.core import ResourceList
from koordsched.api.meta import Api, Int64, LabelSelector, Object


class NodeAggregatePolicy(Api):
    durations: tuple[str, ...] = ()


class MetricCollectPolicy(Api):
    """How koordlet measures. None and "": koordlet's own default."""

    aggregate_duration_seconds: Int64 | None = None
    report_interval_seconds: Int64 | None = None
    node_aggregate_policy: NodeAggregatePolicy | None = None
    node_memory_collect_policy: str = ""


class NodeMetricSpec(Api):
    metric_collect_policy: MetricCollectPolicy | None = None


class ResourceUsage(Api):
    resources: ResourceList = field(default_factory=dict)


class AggregatedUsage(Api):
    """Statistics over a duration such as "5m0s", by avg, p50, p90, p95 and p99."""

    duration: str = ""
    usage: dict[str, ResourceUsage] = field(default_factory=dict)


class NodeUsageMetric(Api):
    node_usage: ResourceUsage = ResourceUsage()
    aggregated_node_usages: tuple[AggregatedUsage, ...] = ()
    system_usage: ResourceUsage = ResourceUsage()
    aggregated_system_usages: tuple[AggregatedUsage, ...] = ()


class PodUsageMetric(Api):
    """`priority` and `qos` are Koordinator's classes, such as koord-prod and LS."""

    namespace: str = ""
    name: str = ""
    priority: str = ""
    qos: str = ""
    pod_usage: ResourceUsage = ResourceUsage()


class NodeMetricStatus(Api):
    """`node_metric` is None until koordlet has measured something."""

    update_time: str | None = None
    node_metric: NodeUsageMetric | None = None
    pods_metric: tuple[PodUsageMetric, ...] = ()


class NodeMetric(Object):
    spec: NodeMetricSpec = NodeMetricSpec()
    status: NodeMetricStatus = NodeMetricStatus()


class HostApplication(Api):
    name: str = ""
    priority: str = ""
    qos: str = ""


class NodeSLOSpec(Api):
    resource_used_threshold_with_be: dict[str, Any] = field(default_factory=dict, name="resourceUsedThresholdWithBE")
    resource_qos_strategy: dict[str, Any] = field(default_factory=dict, name="resourceQOSStrategy")
    cpu_burst_strategy: dict[str, Any] = field(default_factory=dict)
    system_strategy: dict[str, Any] = field(default_factory=dict)
    extensions: dict[str, Any] = field(default_factory=dict)
    host_applications: tuple[HostApplication, ...] = ()


class NodeSLO(Object):
    spec: NodeSLOSpec = NodeSLOSpec()


class RecommendedWorkload(Api):
    kind: str
    name: str
    api_version: str = ""


class RecommendationTarget(Api):
    """`type` says which of the two holds: workload or podSelector."""

    type: str
    workload: RecommendedWorkload | None = None
    pod_selector: LabelSelector | None = None


class RecommendationSpec(Api):
    target: RecommendationTarget | None = None


class RecommendedContainer(Api):
    container_name: str = ""
    resources: ResourceList = field(default_factory=dict)


class RecommendedPod(Api):
    container_statuses: tuple[RecommendedContainer, ...] = ()


class RecommendationCondition(Api):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 | None = None


class RecommendationStatus(Api):
    update_time: str | None = None
    pod_status: RecommendedPod | None = None
    conditions: tuple[RecommendationCondition, ...] = ()


class Recommendation(Object):
    spec: RecommendationSpec = RecommendationSpec()
    status: RecommendationStatus = RecommendationStatus()
