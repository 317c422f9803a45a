"""What a pod is estimated to use until a metric has seen it, and how long that counts (frameworkext.md §5.1, §5.2).

The default estimator of the reference, which is the only one there is: a share of what the pod requests, or of its limit if that is larger.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from koordsched._core.load import LARGEST_AMOUNT, PodEstimate, PodLoad
from koordsched.api.koordinator.loads import (
    SCALING_FACTORS,
    SECONDS_AFTER_INITIALIZED,
    SECONDS_AFTER_SCHEDULED,
    custom_factors,
    custom_seconds,
)
from koordsched.api.koordinator.priority import (
    PRIORITY_CLASS,
    KoordinatorPriorityClass,
    priority_class_or_default,
    resource_of_class,
)
from koordsched.api.koordinator.qos import QOS_CLASS
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.quantity import QuantityError, millis, units
from koordsched.api.resources import written_totals
from koordsched.clock import parse_rfc3339

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched.api.core import Pod, PodCondition
    from koordsched.api.podinfo import PodInfo
    from koordsched.config.koordinator_args import LoadAwareSchedulingArgs

MAX_KEPT = 16384
"""Estimates that are kept, by what pods ask for: those of pods that all differ must not fill the memory."""

DEFAULT_MILLI_CPU = 250  # of a pod that asks for no cpu
DEFAULT_MEMORY = 200 * 1024 * 1024  # bytes, likewise

_DEFAULTS = {
    "cpu": DEFAULT_MILLI_CPU,
    "kubernetes.io/batch-cpu": DEFAULT_MILLI_CPU,
    "memory": DEFAULT_MEMORY,
    "kubernetes.io/batch-memory": DEFAULT_MEMORY,
}
NO_DEADLINE = -math.inf


def vector_of(args: LoadAwareSchedulingArgs) -> tuple[str, ...]:
    """Return the resources that count under these arguments, in the order in which they are looked at."""
    aggregated = {} if args.aggregated is None else args.aggregated.usage_thresholds
    named = (args.usage_thresholds, args.prod_usage_thresholds, aggregated, args.resource_weights, args.estimated_scaling_factors)
    return tuple(sorted({"cpu", "memory"}.union(*named, args.supported_resources)))


class PodEstimator:
    """Estimates pods under the arguments of a profile."""

    def __init__(self, args: LoadAwareSchedulingArgs, vector: Sequence[str]) -> None:
        self._vector = vector
        self._factors = args.estimated_scaling_factors
        self._customizable = args.allow_customize_estimation
        self._after_scheduled = args.estimated_seconds_after_pod_scheduled
        self._after_initialized = args.estimated_seconds_after_initialized
        self._kept: dict[Hashable, PodEstimate] = {}
        self._last: tuple[PodInfo, PodEstimate] | None = None  # filter, score and assumption ask about one pod in turn

    def estimate(self, pod: PodInfo) -> PodEstimate:
        """Return what the pod is estimated to use; pods that are equal in all that it depends on share it."""
        last = self._last
        if last is not None and last[0] is pod:
            return last[1]
        raw = pod.pod
        labels = raw.metadata.labels
        custom = raw.metadata.annotations.get(SCALING_FACTORS) if self._customizable else None
        key = (_written(raw), labels.get(PRIORITY_CLASS), labels.get(QOS_CLASS), raw.spec.priority, _is_daemon(raw), custom)
        found = self._kept.get(key)
        if found is None:
            found = self._work_out(raw)
            if not pod.names_much:
                if len(self._kept) >= MAX_KEPT:
                    self._kept.clear()
                self._kept[key] = found
        self._last = (pod, found)
        return found

    def _work_out(self, pod: Pod) -> PodEstimate:
        try:
            requests, limits = written_totals(pod)
        except QuantityError:  # of a limit, as PodInfo has read the requests; no API server lets it pass
            requests, limits = {}, {}
        priority, factors = priority_class_or_default(pod), self._factors | self._own_factors(pod)
        values = []
        for resource in self._vector:
            factor = factors.get(resource)
            name = resource_of_class(priority, resource)
            values.append(0 if factor is None else _estimated(name, requests.get(name, 0), limits.get(name, 0), factor))
        return PodEstimate(values, is_prod=priority is KoordinatorPriorityClass.PROD, is_daemon=_is_daemon(pod))

    def _own_factors(self, pod: Pod) -> dict[str, int]:
        """Return those of the pod's own factors that make sense."""
        if not self._customizable:
            return {}
        try:
            return {name: factor for name, factor in custom_factors(pod.metadata.annotations).items() if factor >= 0}
        except Malformed:
            return {}

    def load(self, pod: PodInfo, timestamp: float) -> PodLoad:
        """Return the pod as it counts on its node. timestamp: when it was scheduled."""
        return PodLoad(self.estimate(pod), pod.key, timestamp, self._deadline(pod.pod, timestamp))

    def _deadline(self, pod: Pod, timestamp: float) -> float:
        """Return until when the estimate counts for metrics that know the pod already."""
        after_scheduled, after_initialized = self._after_scheduled, self._after_initialized
        if self._customizable:
            annotations = pod.metadata.annotations
            after_scheduled = _own_seconds(annotations, SECONDS_AFTER_SCHEDULED, after_scheduled)
            after_initialized = _own_seconds(annotations, SECONDS_AFTER_INITIALIZED, after_initialized)
        if after_initialized is not None and after_initialized > 0:
            initialized = true_since(pod, "Initialized")
            if initialized is not None:
                return initialized + after_initialized
        return timestamp + after_scheduled if after_scheduled is not None and after_scheduled > 0 else NO_DEADLINE

    def problems(self, pod: Pod) -> list[str]:
        """Return what is wrong with the pod's annotations, a line each; it is ignored."""
        if not self._customizable:
            return []
        annotations, found = pod.metadata.annotations, []
        try:
            own = custom_factors(annotations)
        except Malformed as error:
            found.append(str(error))
        else:
            found += [
                f"{SCALING_FACTORS}: the factor of {name} is ignored, expected 0 or more: {factor}"
                for name, factor in own.items()
                if factor < 0
            ]
        for key in (SECONDS_AFTER_SCHEDULED, SECONDS_AFTER_INITIALIZED):
            try:
                custom_seconds(annotations, key)
            except Malformed as error:
                found.append(str(error))
        return found


def true_since(pod: Pod, kind: str) -> float | None:
    """Return since when a condition of the pod is true, in seconds since the epoch; None when it is not, or does not say."""
    condition = next((each for each in pod.status.conditions if each.type == kind), None)
    return None if condition is None or condition.status != "True" else _time_of(condition)


def _time_of(condition: PodCondition) -> float | None:
    try:
        return parse_rfc3339(condition.last_transition_time) if condition.last_transition_time else None
    except ValueError:
        return None


def _own_seconds(annotations: Mapping[str, str], key: str, otherwise: int | None) -> int | None:
    try:
        own = custom_seconds(annotations, key)
    except Malformed:
        return otherwise
    return otherwise if own is None else own


def _estimated(name: str, request: int, limit: int, factor: int) -> int:
    """Return the part of the larger one, given in nano-units, that is estimated to be used: cpu in milli, others in whole units."""
    larger = max(request, limit)
    if larger <= 0:
        return _DEFAULTS.get(name, 0)
    count = millis if name == "cpu" else units
    share = float(count(larger)) * float(factor) / 100
    whole = math.floor(share)
    estimated = whole + (share - whole >= 0.5)  # noqa: PLR2004  # half away from zero
    most = count(limit)
    return max(0, min(estimated, most if most > 0 else LARGEST_AMOUNT, LARGEST_AMOUNT))


def _written(pod: Pod) -> Hashable:
    """Return all requests and limits as they are written."""
    spec = pod.spec
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or spec.resources is not None):
        own = spec.containers[0].resources
        return (tuple(own.requests.items()), tuple(own.limits.items()))
    containers = [(tuple(each.resources.requests.items()), tuple(each.resources.limits.items())) for each in spec.containers]
    inits = [
        (tuple(each.resources.requests.items()), tuple(each.resources.limits.items()), each.restart_policy) for each in spec.init_containers
    ]
    level = None if spec.resources is None else (tuple(spec.resources.requests.items()), tuple(spec.resources.limits.items()))
    return (tuple(containers), tuple(inits), tuple(spec.overhead.items()), level)


def _is_daemon(pod: Pod) -> bool:
    owners = pod.metadata.owner_references
    return bool(owners) and any(owner.kind == "DaemonSet" for owner in owners)
