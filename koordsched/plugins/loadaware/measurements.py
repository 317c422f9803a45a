"""What a NodeMetric says, as amounts of a vector of resources (frameworkext.md §5.2).

An amount that is no quantity, or cannot be meant, does not make the metric worthless: it counts as what is nearest to it, and the object's
problems say so (`MetricProblems`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.load import LARGEST_AMOUNT, plain_amount, plain_amounts
from koordsched.api.quantity import QuantityError, millis, nano, units
from koordsched.clock import parse_rfc3339
from koordsched.config.duration import DurationError, parse_nanoseconds
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from koordsched.api.core import Quantity, ResourceList
    from koordsched.api.koordinator.measurements import NodeMetric, NodeUsageMetric
    from koordsched.plugins.loadaware.thresholds import Aggregation

DEFAULT_INTERVAL = 60.0
"""Seconds between two reports of a NodeMetric that does not say."""

Amounts = tuple[int, ...]


class MetricProblems:
    """What is wrong with one NodeMetric, by the place where it stands."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def add(self, path: str, problem: str, value: object) -> None:
        self.found[path] = f"{path}: {problem}: {shown(str(value))}"


def amounts_of(resources: ResourceList, vector: tuple[str, ...], path: str, problems: MetricProblems) -> Amounts:
    """Return the amounts of the vector's resources, 0 for those that are not there."""
    plain = plain_amounts(resources, vector)
    if plain is not None:
        return plain
    found = []
    for name in vector:
        quantity = resources.get(name)
        amount = 0 if quantity is None else plain_amount(quantity, name == "cpu")
        found.append(amount if amount >= 0 else _amount(name, quantity, f"{path}.{name}", problems))
    return tuple(found)


def _amount(name: str, quantity: Quantity | None, path: str, problems: MetricProblems) -> int:
    """Read what `plain_amount` left."""
    try:
        exact = nano(quantity)
    except (QuantityError, TypeError):  # TypeError: a list or an object
        problems.add(path, "expected a quantity, so it counts as 0", quantity)
        return 0
    amount = millis(exact) if name == "cpu" else units(exact)
    if amount < 0:
        problems.add(path, "less than nothing, so it counts as 0", quantity)
        return 0
    if amount > LARGEST_AMOUNT:
        problems.add(path, "more than 2^53, so it counts as that", quantity)
    return min(amount, LARGEST_AMOUNT)


def aggregated_amounts(
    measured: NodeUsageMetric, aggregation: Aggregation, vector: tuple[str, ...], node_usage: Amounts, problems: MetricProblems
) -> Amounts | None:
    """Return the statistic that is asked for; None: it was not measured, so that nothing is known but estimates.

    Without a duration it is that over the longest one, and where there is none of its type, plain use. Of two of the same type and duration
    the last counts.
    """
    longest, found = -1, None
    for i, entry in enumerate(measured.aggregated_node_usages):
        usage = entry.usage.get(aggregation.kind)
        path = f"status.nodeMetric.aggregatedNodeUsages[{i}]"
        nanoseconds = _nanoseconds(entry.duration, path, problems)
        if usage is None or not usage.resources or nanoseconds is None:
            continue
        if (aggregation.nanoseconds == 0 and nanoseconds >= longest) or nanoseconds == aggregation.nanoseconds != 0:
            longest = nanoseconds
            found = amounts_of(usage.resources, vector, f"{path}.usage.{aggregation.kind}", problems)
    return node_usage if found is None and aggregation.nanoseconds == 0 else found


def _nanoseconds(text: str, path: str, problems: MetricProblems) -> int | None:
    try:
        return parse_nanoseconds(text) if text else 0
    except DurationError:
        problems.add(f"{path}.duration", "no duration, so it is ignored", text)
        return None


def report_interval(metric: NodeMetric) -> float:
    """Return the seconds between two reports."""
    policy = metric.spec.metric_collect_policy
    return DEFAULT_INTERVAL if policy is None or policy.report_interval_seconds is None else float(policy.report_interval_seconds)


def update_time(metric: NodeMetric, problems: MetricProblems) -> float | None:
    """Return when the metric was measured, in seconds since the epoch; None when it does not say."""
    text = metric.status.update_time
    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        problems.add("status.updateTime", "no time, so the metric counts as expired", text)
        return None
