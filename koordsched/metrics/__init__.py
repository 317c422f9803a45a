"""Metrics: what is counted and measured, in objects that cost next to nothing, and Prometheus' text of it.

- `collectors.py`   Counter, Gauge and Histogram with their children, and collectors that read what another object keeps
- `exposition.py`   the text of collectors' values; which metrics and label values operators want to see

Nothing here knows what is measured. Why these collectors are not prometheus-client's own: docs/decisions/0008-own-metric-collectors.md.
"""

from koordsched.metrics.collectors import (
    Alias,
    BucketCounts,
    Collector,
    Counter,
    CounterChild,
    CounterFunction,
    Family,
    Gauge,
    GaugeFunction,
    GaugeTable,
    Histogram,
    HistogramChild,
    Registry,
    exponential,
)
from koordsched.metrics.exposition import MetricRules, exposition, text_of

__all__ = [
    "Alias",
    "BucketCounts",
    "Collector",
    "Counter",
    "CounterChild",
    "CounterFunction",
    "Family",
    "Gauge",
    "GaugeFunction",
    "GaugeTable",
    "Histogram",
    "HistogramChild",
    "MetricRules",
    "Registry",
    "exponential",
    "exposition",
    "text_of",
]
