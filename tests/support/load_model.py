"""What LoadAwareScheduling has to answer, written down as frameworkext.md §5 says it, from objects alone and in fractions where that helps.

Slow and plain: everything is worked out anew from the objects at each question. Amounts are read by `api.quantity`; nothing of the plugin
or of its kernel is used.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from koordsched.api.koordinator.priority import priority_class
from koordsched.api.koordinator.qos import qos_class_or_default
from koordsched.api.quantity import milli_value, nano, value
from koordsched.api.resources import written_totals
from koordsched.clock import parse_rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node, Pod, Quantity
    from koordsched.api.koordinator.measurements import NodeMetric
    from koordsched.config.koordinator_args import LoadAwareSchedulingArgs

NANO = 10**9
PROD, BATCH, MID = "koord-prod", "koord-batch", "koord-mid"


class CountedPod(NamedTuple):
    """A pod on the node, and when it was assumed there."""

    pod: Pod
    assumed_at: float


class Sums(NamedTuple):
    """By resource."""

    node_usage: dict[str, int]
    prod_usage: dict[str, int]
    delta: dict[str, int]
    prod_delta: dict[str, int]
    estimated: dict[str, int]


class LoadModel:
    """The answers under the arguments of one profile."""

    def __init__(self, args: LoadAwareSchedulingArgs) -> None:
        self.args = args
        names = {"cpu", "memory", *args.usage_thresholds, *args.prod_usage_thresholds, *args.resource_weights}
        names |= {*args.estimated_scaling_factors, *args.supported_resources}
        names |= set(args.aggregated.usage_thresholds) if args.aggregated else set()
        self.vector = sorted(names)

    # Estimates

    def estimate(self, pod: Pod) -> dict[str, int]:
        factors = dict(self.args.estimated_scaling_factors)
        if self.args.allow_customize_estimation:
            own = pod.metadata.annotations.get("scheduling.koordinator.sh/load-estimated-scaling-factors")
            with suppress(ValueError):
                factors |= {name: factor for name, factor in json.loads(own or "{}").items() if factor >= 0}
        requests, limits = written_totals(pod)
        band = _class(pod)
        found = {}
        for resource, factor in factors.items():
            if resource not in self.vector:
                continue
            name = resource
            if band in {BATCH, MID, "koord-free"}:
                short = band.removeprefix("koord-")
                name = f"kubernetes.io/{short}-{resource}" if band != "koord-free" and resource in {"cpu", "memory"} else ""
            found[resource] = self._estimated(name, requests.get(name, 0), limits.get(name, 0), factor)
        return found

    def _estimated(self, name: str, request: int, limit: int, factor: int) -> int:
        larger = max(request, limit)
        if larger == 0:
            if name in {"cpu", "kubernetes.io/batch-cpu"}:
                return 250
            return 200 * 2**20 if name in {"memory", "kubernetes.io/batch-memory"} else 0
        unit = 10**6 if name == "cpu" else NANO
        share = float(-(-larger // unit)) * factor / 100
        estimated = int(share) + (share - int(share) >= 0.5)
        most = -(-limit // unit)
        return min(estimated, most) if most > 0 else estimated

    # Sums

    def sums(self, metric: NodeMetric, pods: list[CountedPod]) -> Sums:
        measured = metric.status.node_metric
        updated = -math.inf if metric.status.update_time is None else parse_rfc3339(metric.status.update_time)
        policy = metric.spec.metric_collect_policy
        interval = 60 if policy is None or policy.report_interval_seconds is None else policy.report_interval_seconds
        reported = {
            f"{each.namespace}/{each.name}": (self._amounts(each.pod_usage.resources), each.priority == PROD)
            for each in metric.status.pods_metric
            if each.pod_usage.resources
        }
        sums = Sums(*[dict.fromkeys(self.vector, 0) for _ in Sums._fields])
        if measured is not None:
            sums.node_usage.update(self._amounts(measured.node_usage.resources))
            if self.args.prod_usage_include_sys:
                sums.prod_usage.update(self._amounts(measured.system_usage.resources))
        for pod, assumed_at in pods:
            estimate, prod = self.estimate(pod), _class(pod) == PROD
            used, as_prod = reported.get(f"{pod.metadata.namespace}/{pod.metadata.name}", (None, False))
            since = _true_since(pod, "PodScheduled")
            timestamp = assumed_at if since is None else since
            counts = used is None or updated - interval < timestamp or self._deadline(pod, timestamp) > updated
            if prod and as_prod and used is not None:
                _add(sums.prod_usage, used)
            if not any(estimate.values()):
                continue
            more = {name: max(0, amount - (used or {}).get(name, 0)) for name, amount in estimate.items()}
            _add(sums.estimated, estimate)
            if counts:
                _add(sums.delta, more)
            if prod and not (used is not None and as_prod):
                _add(sums.prod_delta, estimate)
            elif prod and counts:
                _add(sums.prod_delta, more)
        return sums

    def _deadline(self, pod: Pod, timestamp: float) -> float:
        after_scheduled, after_initialized = self.args.estimated_seconds_after_pod_scheduled, self.args.estimated_seconds_after_initialized
        if self.args.allow_customize_estimation:
            prefix, annotations = "scheduling.koordinator.sh/load-estimated-seconds-after-", pod.metadata.annotations
            after_scheduled = _seconds(annotations.get(f"{prefix}pod-scheduled"), after_scheduled)
            after_initialized = _seconds(annotations.get(f"{prefix}initialized"), after_initialized)
        initialized = _true_since(pod, "Initialized")
        if after_initialized and initialized is not None:
            return initialized + after_initialized
        return timestamp + after_scheduled if after_scheduled else -math.inf

    def _amounts(self, resources: Mapping[str, Quantity]) -> dict[str, int]:
        return {name: _amount(name, resources[name]) for name in self.vector if name in resources}

    # Thresholds

    def _groups(self, node: Node) -> tuple[dict[str, int], dict[str, int], tuple[dict[str, int], str, float] | None]:
        """Return plain, prod and aggregated thresholds of the node."""
        own: dict[str, Any] = {}
        with suppress(ValueError):
            own = json.loads(node.metadata.annotations.get("scheduling.koordinator.sh/usage-thresholds", "{}"))
        aggregated = None
        if self.args.aggregated and self.args.aggregated.usage_thresholds and self.args.aggregated.usage_aggregation_type:
            given = self.args.aggregated
            aggregated = (dict(given.usage_thresholds), given.usage_aggregation_type, float(given.usage_aggregated_duration))
        written = own.get("aggregatedUsage") or {}
        if written.get("usageThresholds") and written.get("usageAggregationType"):
            duration = {"": 0.0, "5m": 300.0, "30m": 1800.0}[written.get("usageAggregatedDuration", "")]
            aggregated = (written["usageThresholds"], written["usageAggregationType"], duration)
        plain = own.get("usageThresholds") or dict(self.args.usage_thresholds)
        return plain, own.get("prodUsageThresholds") or dict(self.args.prod_usage_thresholds), aggregated

    def _aggregate(self, metric: NodeMetric, kind: str, duration: float, sums: Sums) -> dict[str, int] | None:
        measured = metric.status.node_metric
        assert measured is not None
        found = {}
        for entry in measured.aggregated_node_usages:
            usage = entry.usage.get(kind)
            if usage is not None and usage.resources:
                found[{"5m0s": 300.0, "30m0s": 1800.0}[entry.duration]] = self._amounts(usage.resources)
        if duration == 0:
            return found[max(found)] if found else sums.node_usage
        return found.get(duration)

    # Answers

    def refusal(self, pod: Pod, node: Node, metric: NodeMetric | None, pods: list[CountedPod], now: float) -> str:
        """Return why the node is refused, "" when it is not."""
        if any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references):
            return ""
        plain, prod, aggregated = self._groups(node)
        by_prod = _class(pod) == PROD and any(prod.get(name, 0) for name in self.vector)
        thresholds = prod if by_prod else aggregated[0] if aggregated else plain
        if not any(thresholds.get(name, 0) for name in self.vector) or metric is None:
            return ""
        if self.args.filter_expired_node_metrics and self._expired(metric, now):
            return "" if self.args.enable_schedule_when_node_metrics_expired else "node(s) nodeMetric expired"
        if metric.status.node_metric is None:
            return ""
        sums = self.sums(metric, pods)
        if by_prod:
            base = _plus(sums.prod_usage, sums.prod_delta)
        elif aggregated:
            usage = self._aggregate(metric, aggregated[1], aggregated[2], sums)
            base = sums.estimated if usage is None else _plus(usage, sums.delta)
        else:
            base = _plus(sums.node_usage, sums.delta)
        base = _plus(base, self.estimate(pod))
        capacity = self._capacity(node)
        for name in self.vector:
            threshold, total = thresholds.get(name, 0), capacity.get(name, 0)
            if threshold == 0 or total == 0:
                continue
            exact = float(base.get(name, 0)) / float(total) * 100
            usage_percent = int(exact) + (exact - int(exact) >= 0.5)
            if usage_percent > threshold:
                text = "aggregated usage" if aggregated and not by_prod else "usage"
                return f"node(s) {name} {text} exceed threshold"
        return ""

    def score(self, pod: Pod, node: Node, metric: NodeMetric | None, pods: list[CountedPod], now: float) -> int:
        weights, dominant = self.args.resource_weights, self.args.dominant_resource_weight
        if sum(weights.values()) + dominant == 0 or metric is None or self._expired(metric, now) or metric.status.node_metric is None:
            return 0
        sums, own = self.sums(metric, pods), self.args.aggregated
        if _class(pod) == PROD and self.args.score_according_prod_usage:
            base = _plus(sums.prod_usage, sums.prod_delta)
        elif own and own.score_aggregation_type:
            usage = self._aggregate(metric, own.score_aggregation_type, float(own.score_aggregated_duration), sums)
            base = sums.estimated if usage is None else _plus(usage, sums.delta)
        else:
            base = _plus(sums.node_usage, sums.delta)
        used, capacity = _plus(base, self.estimate(pod)), self._capacity(node)
        each = {}
        for name in self.vector:
            total, use = capacity.get(name, 0), used.get(name, 0)
            each[name] = 0 if total == 0 or use > total else (total - use) * 100 // total
        score = sum(weights.get(name, 0) * each[name] for name in self.vector)
        least = min(100, *each.values())
        return (score + dominant * least) // (sum(weights.values()) + dominant)

    def _capacity(self, node: Node) -> dict[str, int]:
        amounts: dict[str, Quantity] = dict(node.status.allocatable)
        with suppress(ValueError):
            amounts |= json.loads(node.metadata.annotations.get("node.koordinator.sh/raw-allocatable", "{}"))
        return self._amounts(amounts)

    def _expired(self, metric: NodeMetric, now: float) -> bool:
        text = metric.status.update_time
        return text is None or now - parse_rfc3339(text) >= self.args.node_metric_expiration_seconds


def _class(pod: Pod) -> str:
    return priority_class(pod, qos_class_or_default(pod)).value


def _amount(name: str, quantity: Quantity) -> int:
    if nano(quantity) < 0:
        return 0
    return min(milli_value(quantity) if name == "cpu" else value(quantity), 2**53)


def _true_since(pod: Pod, kind: str) -> float | None:
    for condition in pod.status.conditions:
        if condition.type == kind and condition.status == "True" and condition.last_transition_time:
            return parse_rfc3339(condition.last_transition_time)
    return None


def _seconds(text: str | None, otherwise: int | None) -> int | None:
    try:
        seconds = int(text or "")
    except ValueError:
        return otherwise
    return seconds if seconds >= 0 else otherwise


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _plus(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    total = dict(left)
    _add(total, right)
    return total
