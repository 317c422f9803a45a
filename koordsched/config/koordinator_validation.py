"""What Koordinator v1.8.0 accepts as arguments of its plugins (`pkg/scheduler/apis/config/validation` and the plugins' constructors).

Texts equal the reference's; paths are the ones of the file, where the reference names a Go field. All is checked only for a plugin that
is enabled, since the reference does it while building the plugin. FIX marks what the reference lets pass and should not (frameworkext.md
§2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.quantity import MAX_INT64, QuantityError, nano
from koordsched.config.args import LEAST_ALLOCATED, MOST_ALLOCATED, NodeResourcesFitArgs
from koordsched.config.args_validation import MAX_PERCENTAGE, Problems, validate_fit, validate_resources
from koordsched.config.errors import invalid, not_found, not_supported
from koordsched.config.koordinator_args import (
    LEAST_FRAGMENTED,
    CoschedulingArgs,
    DeviceShareArgs,
    ElasticQuotaArgs,
    LoadAwareSchedulingAggregatedArgs,
    LoadAwareSchedulingArgs,
    NodeNUMAResourceArgs,
    NodeResourcesFitPlusArgs,
    NumaScoringStrategy,
    ReservationArgs,
    SchedulingHintArgs,
)
from koordsched.yamltext.documents import child

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from koordsched.api.core import Quantity
    from koordsched.config.features import FeatureGates
    from koordsched.config.types import PluginArgs

AGGREGATION_TYPES = ("avg", "p50", "p90", "p95", "p99")
CPU_BIND_POLICIES = ("", "FullPCPUs", "SpreadByPCPUs")
FIT_PLUS_TYPES = (MOST_ALLOCATED, LEAST_ALLOCATED)
KOORDINATOR_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED)
DEVICE_STRATEGIES = (*KOORDINATOR_STRATEGIES, LEAST_FRAGMENTED)
MAX_FIT_PLUS_WEIGHTS = MAX_INT64 // 100  # a score is a sum of weight * 0..100
MIN_COSCHEDULING_WORKERS = 1


def validate_load_aware(args: LoadAwareSchedulingArgs, _: FeatureGates) -> Problems:
    if args.node_metric_expiration_seconds <= 0:
        text = "nodeMetricExpiredSeconds should be a positive value"
        yield "nodeMetricExpirationSeconds", invalid(args.node_metric_expiration_seconds, text)
    yield from _positive_up_to_100(args.resource_weights, "resourceWeights", "resource Weight")
    if args.dominant_resource_weight < 0:
        text = "dominantResourceWeight should not be a negative value"
        yield "dominantResourceWeight", invalid(args.dominant_resource_weight, text)
    if args.dominant_resource_weight > MAX_PERCENTAGE:
        yield "dominantResourceWeight", invalid(args.dominant_resource_weight, "dominantResourceWeight should be less than 100")
    yield from _thresholds(args.usage_thresholds, "usageThresholds")
    yield from _thresholds(args.prod_usage_thresholds, "prodUsageThresholds")  # FIX
    yield from _positive_up_to_100(args.estimated_scaling_factors, "estimatedScalingFactors", "estimated resource ScalingFactor")
    for name in sorted(args.resource_weights.keys() - args.estimated_scaling_factors.keys()):
        yield "estimatedScalingFactors", not_found(name)
    if args.aggregated is not None:
        yield from _aggregated(args.aggregated)


def _aggregated(args: LoadAwareSchedulingAggregatedArgs) -> Problems:
    yield from _thresholds(args.usage_thresholds, "aggregated.usageThresholds")
    for path, kind in (("usageAggregationType", args.usage_aggregation_type), ("scoreAggregationType", args.score_aggregation_type)):
        if kind and kind not in AGGREGATION_TYPES:
            yield f"aggregated.{path}", not_supported(kind, AGGREGATION_TYPES)
    durations = (("usageAggregatedDuration", args.usage_aggregated_duration), ("scoreAggregatedDuration", args.score_aggregated_duration))
    for path, duration in durations:
        if duration < 0:
            yield f"aggregated.{path}", invalid(duration.text, "duration must be >= 0")


def _positive_up_to_100(values: Mapping[str, int], path: str, what: str) -> Problems:
    for name, value in sorted(values.items()):
        if value <= 0:
            yield path, invalid(values, f"{what} of {name} should be a positive value, got {value}")
        elif value > MAX_PERCENTAGE:
            yield path, invalid(values, f"{what} of {name} should be less than 100, got {value}")


def _thresholds(values: Mapping[str, int], path: str) -> Problems:
    for name, value in sorted(values.items()):
        if value < 0:
            yield path, invalid(values, f"resource Threshold of {name} should be a positive value, got {value}")
        elif value > MAX_PERCENTAGE:
            yield path, invalid(values, f"resource Threshold of {name} should be less than 100, got {value}")


def validate_numa(args: NodeNUMAResourceArgs, _: FeatureGates) -> Problems:
    if args.default_cpu_bind_policy not in CPU_BIND_POLICIES:
        text = "must specified CPU bind policy FullPCPUs or SpreadByPCPUs"
        yield "defaultCPUBindPolicy", invalid(args.default_cpu_bind_policy, text)
    yield from _strategy(args.scoring_strategy, "scoringStrategy", "scoring strategy")
    yield from _strategy(args.numa_scoring_strategy, "numaScoringStrategy", "numa scoring strategy")


def validate_device_share(args: DeviceShareArgs, _: FeatureGates) -> Problems:
    yield from _strategy(args.scoring_strategy, "scoringStrategy", "scoring strategy", DEVICE_STRATEGIES)


def _strategy(strategy: NumaScoringStrategy, path: str, what: str, known: Collection[str] = KOORDINATOR_STRATEGIES) -> Problems:
    yield from validate_resources(strategy.resources, f"{path}.resources")
    if strategy.type not in known:
        yield f"{path}.type", invalid(strategy.type, f"{what} {strategy.type} is not supported")


def validate_coscheduling(args: CoschedulingArgs, _: FeatureGates) -> Problems:
    if args.default_timeout < 0:
        yield "defaultTimeout", invalid(args.default_timeout.text, "coeSchedulingArgs DefaultTimeoutSeconds invalid")
    if args.controller_workers < MIN_COSCHEDULING_WORKERS:
        yield "controllerWorkers", invalid(args.controller_workers, "coeSchedulingArgs ControllerWorkers invalid")


def validate_elastic_quota(args: ElasticQuotaArgs, _: FeatureGates) -> Problems:
    yield from _quota_list(args.default_quota_group_max, "defaultQuotaGroupMax")
    yield from _quota_list(args.system_quota_group_max, "systemQuotaGroupMax")
    for path, duration, name in (
        ("delayEvictTime", args.delay_evict_time, "DelayEvictTime"),
        ("revokePodInterval", args.revoke_pod_interval, "RevokePodCycle"),
    ):
        if duration < 0:
            yield path, invalid(duration.text, f"elasticQuotaArgs error, {name} should be a positive value")


def _quota_list(quota: Mapping[str, Quantity], path: str) -> Iterator[tuple[str, str]]:
    for name, quantity in sorted(quota.items()):
        try:
            negative = nano(quantity) < 0
        except QuantityError as error:
            yield child(path, name), error.problem
            continue
        if negative:
            text = f"elasticQuotaArgs error, {path} should be a positive value, resourceName:{name}, got {quantity}"
            yield child(path, name), invalid(quantity, text)


def validate_reservation(args: ReservationArgs, _: FeatureGates) -> Problems:
    if not 0 <= args.min_candidate_nodes_percentage <= MAX_PERCENTAGE:
        yield "minCandidateNodesPercentage", invalid(args.min_candidate_nodes_percentage, "must be in the range [0, 100]")
    for path, value in (
        ("minCandidateNodesAbsolute", args.min_candidate_nodes_absolute),
        ("gcDurationSeconds", args.gc_duration_seconds),
        ("gcIntervalSeconds", args.gc_interval_seconds),
        ("resyncIntervalSeconds", args.resync_interval_seconds),
    ):
        if value < 0:
            yield path, invalid(value, "must be non-negative")


def validate_scheduling_hint(args: SchedulingHintArgs, _: FeatureGates) -> Problems:
    if args.max_hint_nodes <= 0:
        yield "maxHintNodes", invalid(args.max_hint_nodes, "must be a positive value")


def validate_fit_plus(args: NodeResourcesFitPlusArgs, _: FeatureGates) -> Problems:
    """FIX: the reference checks nothing, scores a resource of an unknown type 0 while counting its weight, and wraps at int64."""
    for name, kind in sorted(args.resources.items()):
        if kind.type not in FIT_PLUS_TYPES:
            yield f"{child('resources', name)}.type", not_supported(kind.type, FIT_PLUS_TYPES)
        if kind.weight < 0:
            yield f"{child('resources', name)}.weight", invalid(kind.weight, "must be non-negative")
    total = sum(kind.weight for kind in args.resources.values())
    if total > MAX_FIT_PLUS_WEIGHTS:
        yield "resources", invalid(total, f"weights must add up to at most {MAX_FIT_PLUS_WEIGHTS}")


VALIDATED_WHEN_BUILT: dict[type[PluginArgs], Callable[[Any, FeatureGates], Problems]] = {
    NodeResourcesFitArgs: validate_fit,
    LoadAwareSchedulingArgs: validate_load_aware,
    NodeNUMAResourceArgs: validate_numa,
    DeviceShareArgs: validate_device_share,
    CoschedulingArgs: validate_coscheduling,
    ElasticQuotaArgs: validate_elastic_quota,
    ReservationArgs: validate_reservation,
    SchedulingHintArgs: validate_scheduling_hint,
    NodeResourcesFitPlusArgs: validate_fit_plus,
}
"""Checked for an enabled plugin only; a problem reads `initializing plugin "X": ...`."""
