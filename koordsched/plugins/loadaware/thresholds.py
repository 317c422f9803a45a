"""What a node may use: the arguments' thresholds, or those that its annotation gives instead (frameworkext.md §5.3, 2. and 3.).

Few different texts stand on many nodes, so what is made of a text is kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from koordsched.api.koordinator.loads import USAGE_THRESHOLDS, custom_thresholds
from koordsched.api.koordinator.reading import Malformed
from koordsched.config.duration import NANO, DurationError, parse_nanoseconds
from koordsched.config.koordinator_validation import AGGREGATION_TYPES
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koordsched.api.koordinator.loads import CustomUsageThresholds
    from koordsched.config.koordinator_args import LoadAwareSchedulingArgs

MAX_PROFILES = 1024
"""Different annotations whose thresholds are kept."""
MAX_PERCENTAGE = 100


class Aggregation(NamedTuple):
    """Which statistic of use counts. nanoseconds: over how long; 0: the longest there is."""

    kind: str
    nanoseconds: int


class NodeThresholds(NamedTuple):
    """Percentages, one for each resource of the vector; 0: none. aggregation None: `values` are of plain use."""

    values: tuple[int, ...]
    prod: tuple[int, ...]
    aggregation: Aggregation | None


class _Groups(NamedTuple):
    """The three groups of thresholds; aggregated None: there is none."""

    plain: Mapping[str, int]
    prod: Mapping[str, int]
    aggregated: tuple[Mapping[str, int], Aggregation] | None


class ThresholdProfiles:
    """The thresholds of nodes under the arguments of a profile."""

    def __init__(self, args: LoadAwareSchedulingArgs, vector: Sequence[str]) -> None:
        self._vector = vector
        own, aggregated = args.aggregated, None
        if own is not None and own.usage_thresholds and own.usage_aggregation_type:
            aggregation = Aggregation(own.usage_aggregation_type, round(own.usage_aggregated_duration * NANO))
            aggregated = (own.usage_thresholds, aggregation)
        self._groups = _Groups(args.usage_thresholds, args.prod_usage_thresholds, aggregated)
        self._default = self._vectors(self._groups)
        self._of_text: Callable[[str], NodeThresholds] = lru_cache(MAX_PROFILES)(self._read)

    def of(self, annotations: Mapping[str, str]) -> NodeThresholds:
        """Return the thresholds of a node with these annotations."""
        text = annotations.get(USAGE_THRESHOLDS)
        return self._default if text is None else self._of_text(text)

    def _read(self, text: str) -> NodeThresholds:
        try:
            own = custom_thresholds({USAGE_THRESHOLDS: text})
            aggregated = None if own is None else _aggregated(own)
        except (Malformed, DurationError):
            return self._default
        if own is None:
            return self._default
        groups = self._groups
        return self._vectors(
            _Groups(own.usage_thresholds or groups.plain, own.prod_usage_thresholds or groups.prod, aggregated or groups.aggregated)
        )

    def _vectors(self, groups: _Groups) -> NodeThresholds:
        values, aggregation = groups.aggregated or (groups.plain, None)
        return NodeThresholds(self._vector_of(values), self._vector_of(groups.prod), aggregation)

    def _vector_of(self, values: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(values.get(resource, 0) for resource in self._vector)


def _aggregated(own: CustomUsageThresholds) -> tuple[Mapping[str, int], Aggregation] | None:
    """Return the annotation's group of aggregated use if it has thresholds and a type. DurationError."""
    written = own.aggregated_usage
    if written is None:
        return None
    duration = 0 if written.usage_aggregated_duration is None else parse_nanoseconds(written.usage_aggregated_duration)
    if not written.usage_thresholds or not written.usage_aggregation_type:
        return None
    return written.usage_thresholds, Aggregation(written.usage_aggregation_type, duration)


def threshold_problems(annotations: Mapping[str, str]) -> list[str]:
    """Return what is wrong with a node's thresholds, a line each: a malformed text is ignored, values that cannot be meant hold."""
    text = annotations.get(USAGE_THRESHOLDS)
    if text is None:
        return []
    try:
        own = custom_thresholds(annotations)
        aggregated = None if own is None else own.aggregated_usage
        if aggregated is not None and aggregated.usage_aggregated_duration is not None:
            parse_nanoseconds(aggregated.usage_aggregated_duration)
    except Malformed as error:
        return [str(error)]
    except DurationError as error:
        return [f"{USAGE_THRESHOLDS}: aggregatedUsage.usageAggregatedDuration: {error}: {shown(text)}"]
    if own is None:
        return []
    groups = [("usageThresholds", own.usage_thresholds), ("prodUsageThresholds", own.prod_usage_thresholds)]
    if aggregated is not None:
        groups.append(("aggregatedUsage.usageThresholds", aggregated.usage_thresholds))
    found = [
        f"{USAGE_THRESHOLDS}: {group}.{name}: expected a percentage from 0 to {MAX_PERCENTAGE}: {value}"
        for group, values in groups
        for name, value in values.items()
        if not 0 <= value <= MAX_PERCENTAGE
    ]
    kind = "" if aggregated is None else aggregated.usage_aggregation_type
    if kind and kind not in AGGREGATION_TYPES:
        found.append(
            f"{USAGE_THRESHOLDS}: aggregatedUsage.usageAggregationType: expected one of {', '.join(AGGREGATION_TYPES)}: {shown(kind)}"
        )
    return found
