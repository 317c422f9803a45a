"""Reads Prometheus' text format: counters, and quantiles of histograms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"
REQUESTS = "apiserver_request_total"


class Bucket(NamedTuple):
    """How many observations were at most `bound`."""

    bound: float
    reached: float


class Histogram(msgspec.Struct, frozen=True):
    """Buckets by rising bound, the last one infinite."""

    buckets: Sequence[Bucket]
    sum: float

    @property
    def count(self) -> float:
        return self.buckets[-1].reached

    @property
    def mean(self) -> float:
        """Return the mean; nan without observations."""
        return self.sum / self.count if self.count else math.nan

    def quantile(self, part: float) -> float:
        """Interpolate within the bucket that the quantile is in, as histogram_quantile does; nan without observations."""
        rank = part * self.count
        for lower, upper in pairwise([Bucket(0.0, 0.0), *self.buckets]):
            if upper.reached >= rank and upper.reached > lower.reached:
                if math.isinf(upper.bound):
                    return lower.bound
                return lower.bound + (upper.bound - lower.bound) * (rank - lower.reached) / (upper.reached - lower.reached)
        return math.nan


def histogram(text: str, name: str) -> Histogram | None:
    """Return a histogram without labels, or None when the text has none of this name."""
    samples = [sample for family in _families(text, name) for sample in family.samples]
    buckets = [Bucket(float(sample.labels["le"]), sample.value) for sample in samples if sample.name == f"{name}_bucket"]
    sums = [sample.value for sample in samples if sample.name == f"{name}_sum"]
    return Histogram(sorted(buckets), sum(sums)) if buckets else None


def counter(text: str, name: str, key: Callable[[Mapping[str, str]], str]) -> Counter[str]:
    """Add up the samples of a counter by what `key` makes of their labels."""
    found: Counter[str] = Counter()
    for family in _families(text, name):
        for sample in family.samples:
            if sample.name == name:
                found[key(sample.labels)] += int(sample.value)
    return found


def request_key(labels: Mapping[str, str]) -> str:
    """Name a kind of request to the API server: "POST pods/binding"."""
    return f"{labels['verb']} {labels['resource']}{'/' if labels['subresource'] else ''}{labels['subresource']}"


def _families(text: str, name: str) -> Iterable[Metric]:
    """Parse this family only: the API server's page has ten thousand lines of others."""
    lines = (line for line in text.splitlines() if line.startswith((name, f"# TYPE {name} ")))
    return text_string_to_metric_families("\n".join(lines) + "\n")
