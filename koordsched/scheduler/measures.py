"""Counters, gauges and histograms that cost a dict update, shown to Prometheus only when somebody scrapes.

prometheus-client's own metrics take a lock and walk all buckets in Python at every observation; a pod makes about fifteen of them
(bench_metrics.py). The exposition itself is the library's, imported by the first scrape: it takes longer to import than most simulations
run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Return bucket bounds as Prometheus' ExponentialBuckets does."""
    return list(accumulate([start] + [factor] * (count - 1), lambda bound, by: bound * by))


class Measure(ABC):
    """Something with a name, a help text and labels, that puts itself on the list of what is shown."""

    def __init__(self, shown: list[Measure], name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.text = text
        self.labels = labels
        shown.append(self)

    @abstractmethod
    def collect(self) -> Iterable[Metric]:
        """Yield the values as Prometheus' metric families."""


def exposition(shown: Sequence[Measure]) -> bytes:
    """Return the values of these measures in Prometheus' text format."""
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415  # see the module's docstring
    from prometheus_client.registry import CollectorRegistry  # noqa: PLC0415

    class All:
        def collect(self) -> Iterable[Metric]:
            for measure in shown:
                yield from measure.collect()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(All())  # anything with collect()
    return generate_latest(registry)


class Tally(Measure):
    """A counter."""

    def __init__(self, shown: list[Measure], name: str, text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(shown, name, text, labels)
        self.counts: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str) -> None:
        self.counts[labels] = self.counts.get(labels, 0) + 1

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415

        family = CounterMetricFamily(self.name, self.text, labels=self.labels)
        for labels, count in self.counts.items():
            family.add_metric(labels, count)
        yield family


class Level(Measure):
    """A gauge that goes up and down."""

    def __init__(self, shown: list[Measure], name: str, text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(shown, name, text, labels)
        self.values: dict[tuple[str, ...], int] = {}

    def move(self, by: int, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + by

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        for labels, value in self.values.items():
            family.add_metric(labels, value)
        yield family


class Reading(Measure):
    """A gauge or counter that another part knows: read when scraped, one value a label."""

    def __init__(self, shown: list[Measure], name: str, text: str, read: tuple[str, Mapping[str, Callable[[], int]]]) -> None:
        label, self._sources = read
        super().__init__(shown, name, text, [label] if label else [])

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        for value, source in self._sources.items():
            family.add_metric([value] if self.labels else [], source())
        yield family


class Buckets:
    """A histogram's counts for one set of label values: what observes often keeps it at hand."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; one on a bound counts into that bucket."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class Distribution(Measure):
    """A histogram. Make it with `with_bounds`."""

    bounds: Sequence[float] = ()

    def with_bounds(self, bounds: Sequence[float]) -> Distribution:
        self.bounds = bounds
        self._buckets: dict[tuple[str, ...], Buckets] = {}
        return self

    def of(self, *labels: str) -> Buckets:
        """Return the counts for these label values; they are shown from now on."""
        buckets = self._buckets.get(labels)
        if buckets is None:
            buckets = self._buckets[labels] = Buckets(self.bounds)
        return buckets

    def observe(self, value: float, *labels: str) -> None:
        self.of(*labels).observe(value)

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415

        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        names = [*(str(bound) for bound in self.bounds), "+Inf"]
        for labels, buckets in self._buckets.items():
            family.add_metric(labels, list(zip(names, accumulate(buckets.counts), strict=True)), buckets.sum)
        yield family
