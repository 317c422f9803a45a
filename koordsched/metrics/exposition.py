"""Prometheus' text of metric families, and what operators want to see of it.

The text is prometheus-client's own, which escapes every value. The library is imported by the first scrape: that takes longer than most
simulations run. `--disabled-metrics` and `--allow-metric-labels` (framework.md §1.5) are applied here, so that counting costs the same with
and without them.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, chain
from typing import TYPE_CHECKING, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from koordsched.metrics.collectors import BucketCounts, Collector, Family

UNEXPECTED = "unexpected"
"""What a label value that is not on its list is shown as."""


class MetricRules(msgspec.Struct, frozen=True):
    """Metrics not to be shown, by full name; and the only values a label may show, by (metric, label)."""

    disabled: frozenset[str] = frozenset()
    allowed: dict[tuple[str, str], frozenset[str]] = {}

    @classmethod
    def of(cls, disabled: Sequence[str], allowed_labels: Mapping[str, str]) -> MetricRules:
        """Read the values of the two flags; the second is `metric,label` -> `value,value...`."""
        allowed = {}
        for key, values in allowed_labels.items():
            metric, _, label = key.partition(",")
            allowed[metric.strip(), label.strip()] = frozenset(value.strip() for value in values.split(","))
        return cls(frozenset(disabled), allowed)


TOTAL = "_total"
SHOW_ALL = MetricRules()


def exposition(collectors: Iterable[Collector], rules: MetricRules = SHOW_ALL) -> bytes:
    """Return the values of these collectors, as far as the rules let them be seen, in Prometheus' text format."""
    return text_of(chain.from_iterable(collector.collect() for collector in collectors), rules)


def text_of(families: Iterable[Family], rules: MetricRules = SHOW_ALL) -> bytes:
    """Write families, as far as the rules let them be seen, in Prometheus' text format."""
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415  # see the module's docstring
    from prometheus_client.registry import CollectorRegistry  # noqa: PLC0415

    visible = [family for family in families if family.name not in rules.disabled]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics([_relabelled(_metric(family), family.name, rules) for family in visible]))
    text = generate_latest(registry)
    for family in visible:
        if family.kind == "counter" and not family.name.endswith(TOTAL):  # the library appends it to the names of all counters
            text = text.replace(f"{family.name}{TOTAL}".encode(), family.name.encode())
    return text


class _Metrics:
    """What the library takes for a collector. No class of the function: each call's would be a cycle, garbage to be collected."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _metric(family: Family) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily  # noqa: PLC0415

    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        names = [*(str(bound) for bound in family.bounds), "+Inf"]
        for labels, buckets in cast("Sequence[tuple[tuple[str, ...], BucketCounts]]", family.samples):
            histogram.add_metric(labels, list(zip(names, accumulate(buckets.counts), strict=True)), buckets.total)
        return histogram
    metric = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(family.name, family.help, labels=family.labels)
    for labels, value in cast("Sequence[tuple[tuple[str, ...], float]]", family.samples):
        metric.add_metric(labels, value)
    return metric


def _relabelled(shown: Metric, name: str, rules: MetricRules) -> Metric:
    """Add up the samples whose labels look alike once what is not allowed is hidden."""
    lists = {label: values for (metric, label), values in rules.allowed.items() if metric == name}
    if not lists:
        return shown
    sums: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
    for sample in shown.samples:
        labels = tuple((label, value if value in lists.get(label, {value}) else UNEXPECTED) for label, value in sample.labels.items())
        sums[sample.name, labels] += sample.value
    shown.samples = []
    for (sample_name, labels), value in sums.items():
        shown.add_sample(sample_name, dict(labels), value)
    return shown
