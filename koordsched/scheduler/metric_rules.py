"""What operators want to see of the metrics: `--disabled-metrics` and `--allow-metric-labels` (framework.md §1.5).

Both are applied when somebody scrapes, so that counting costs the same with and without them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from koordsched.config import Flags

UNEXPECTED = "unexpected"
"""What a label value that is not on its list is shown as."""


class MetricRules(msgspec.Struct, frozen=True):
    """Metrics not to be shown, by full name; and the only values a label may show, by (metric, label)."""

    disabled: frozenset[str] = frozenset()
    allowed: dict[tuple[str, str], frozenset[str]] = {}

    @classmethod
    def of(cls, flags: Flags) -> MetricRules:
        """Read `metric` and `metric,label=value,value...`."""
        allowed = {}
        for key, values in flags.allow_metric_labels.items():
            metric, _, label = key.partition(",")
            allowed[metric.strip(), label.strip()] = frozenset(value.strip() for value in values.split(","))
        return cls(frozenset(flags.disabled_metrics), allowed)

    def apply(self, families: Iterable[Metric]) -> Iterator[Metric]:
        """Yield the families that may be seen, with the label values that may be seen."""
        for family in families:
            name = f"{family.name}_total" if family.type == "counter" else family.name
            if name not in self.disabled:
                yield self._relabelled(name, family)

    def _relabelled(self, name: str, family: Metric) -> Metric:
        """Add up the samples whose labels look alike once what is not allowed is hidden."""
        lists = {label: values for (metric, label), values in self.allowed.items() if metric == name}
        if not lists:
            return family
        sums: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
        for sample in family.samples:
            labels = tuple((label, value if value in lists.get(label, {value}) else UNEXPECTED) for label, value in sample.labels.items())
            sums[sample.name, labels] += sample.value
        family.samples = []
        for (sample_name, labels), value in sums.items():
            family.add_sample(sample_name, dict(labels), value)
        return family
