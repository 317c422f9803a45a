"""Annotations about load: thresholds of Nodes, and how much a pod is estimated to use (frameworkext.md §5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import field

from koordsched.api.core import Quantity, ResourceList
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.meta import Api, Int64
from koordsched.api.quantity import QuantityError, nano

if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE_THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
"""Of Nodes: percentages that hold there instead of the scheduler's."""
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
"""Of Nodes: what they have, where status.allocatable says what was made of it by amplification."""
SCALING_FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
"""Of pods: percentages of requests and limits that they are estimated to use."""
SECONDS_AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
SECONDS_AFTER_INITIALIZED = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
"""Of pods: how long their estimates count in any case."""

RESERVE_POD = "scheduling.koordinator.sh/reserve-pod"
"""Of pods that stand for a Reservation inside a scheduler; "true"."""

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX_INT64 = 2**63 - 1
_MAX_DIGITS = 30


class CustomAggregatedUsage(Api):
    """`usage_aggregated_duration` is a Go duration such as "5m"."""

    usage_thresholds: dict[str, Int64] = field(default_factory=dict)
    usage_aggregation_type: str = ""
    usage_aggregated_duration: str | None = None


class CustomUsageThresholds(Api):
    """Percentages by resource; 0: none."""

    usage_thresholds: dict[str, Int64] = field(default_factory=dict)
    prod_usage_thresholds: dict[str, Int64] = field(default_factory=dict)
    aggregated_usage: CustomAggregatedUsage | None = None


def custom_thresholds(annotations: Mapping[str, str]) -> CustomUsageThresholds | None:
    """Return a Node's own thresholds, as written; None without. Malformed as `read_annotation`."""
    return read_annotation(annotations, USAGE_THRESHOLDS, CustomUsageThresholds)


def raw_allocatable(annotations: Mapping[str, str]) -> ResourceList:
    """Return what a Node has, as written; empty when the annotation does not say.

    Malformed as `read_annotation`, and when one of the amounts is no quantity: then none of them counts. A null is 0, as for Go's maps.
    """
    text = annotations.get(RAW_ALLOCATABLE)
    if not text:
        return {}
    written = read_annotation(annotations, RAW_ALLOCATABLE, dict[str, Quantity | None]) or {}
    amounts = {name: "0" if quantity is None else quantity for name, quantity in written.items()}
    for name, quantity in amounts.items():
        try:
            nano(quantity)
        except QuantityError as error:
            raise Malformed(RAW_ALLOCATABLE, f"{name}: {error.problem}", text) from None
    return amounts


def custom_factors(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return a pod's own scaling factors, as written; empty when it has none. Malformed as `read_annotation`; a null is 0."""
    if not annotations.get(SCALING_FACTORS):
        return {}
    written = read_annotation(annotations, SCALING_FACTORS, dict[str, Int64 | None]) or {}
    return {name: factor or 0 for name, factor in written.items()}


def custom_seconds(annotations: Mapping[str, str], key: str) -> int | None:
    """Return the seconds that an annotation gives; None without. Malformed: it is no whole number of 64 bits, or negative."""
    text = annotations.get(key)
    if not text:
        return None
    if len(text) > _MAX_DIGITS or not _INTEGER.fullmatch(text):
        raise Malformed(key, "expected a whole number of seconds", text)
    seconds = int(text)
    if not 0 <= seconds <= _MAX_INT64:
        raise Malformed(key, "expected 0 seconds or more", text)
    return seconds
