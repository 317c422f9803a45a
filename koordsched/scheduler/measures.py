"""Counters, gauges and histograms that cost an append or a dict update, shown to Prometheus only when somebody scrapes.

prometheus-client's own metrics take a lock and walk all buckets in Python at every observation; a pod makes about twenty of them
(bench_cycle.py, "pop to assumed"). The exposition itself is the library's, imported by the first scrape: it takes longer to import than
most simulations run. Who counts often keeps a `Cell` or `Buckets` at hand, which stays the same object for as long as its measure exists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from koordsched.scheduler.metric_rules import MetricRules


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

    def snapshot(self) -> Callable[[], Iterable[Metric]]:
        """Read the values now; return a function that yields their families later, in whatever thread."""
        families = list(self.collect())
        return lambda: families

    def tidy(self) -> None:
        """Give back the memory of what can be summed up. To be called now and then."""
        return

    def reset(self) -> None:
        """Count from zero again. What tells of the present (a gauge) or is counted elsewhere stays as it is."""
        return


def exposition(shown: Iterable[Measure], rules: MetricRules | None = None) -> bytes:
    """Return the values of these measures, as far as the rules let them be seen, in Prometheus' text format."""
    families = (family for measure in shown for family in measure.collect())
    return text_of(families if rules is None else rules.apply(families))


def text_of(families: Iterable[Metric]) -> bytes:
    """Write families in Prometheus' text format: the library's own, which escapes every value."""
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415  # see the module's docstring
    from prometheus_client.registry import CollectorRegistry  # noqa: PLC0415

    class All:
        def collect(self) -> Iterable[Metric]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(All())  # anything with collect()
    return generate_latest(registry)


class Cell:
    """A counter's value for one set of label values."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Tally(Measure):
    """A counter."""

    def __init__(self, shown: list[Measure], name: str, text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(shown, name, text, labels)
        self._cells: dict[tuple[str, ...], Cell] = {}

    def of(self, *labels: str) -> Cell:
        """Return the value for these label values; it is shown from now on."""
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = Cell()
        return cell

    def add(self, *labels: str) -> None:
        cell = self._cells.get(labels) or self.of(*labels)
        cell.count += 1

    def reset(self) -> None:
        for cell in self._cells.values():
            cell.count = 0

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415

        family = CounterMetricFamily(self.name, self.text, labels=self.labels)
        for labels, cell in self._cells.items():
            family.add_metric(labels, cell.count)
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


class Readings(Measure):
    """A gauge of which another part knows all values: read when scraped. A label value that was seen once stays."""

    def __init__(self, shown: list[Measure], name: str, text: str, read: tuple[str, Callable[[], Mapping[str, float]]]) -> None:
        label, self._read = read
        super().__init__(shown, name, text, [label])
        self._seen: dict[str, float] = {}

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

        self._seen = {**dict.fromkeys(self._seen, 0), **self._read()}
        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        for value, count in self._seen.items():
            family.add_metric([value], count)
        yield family


class Count(Measure):
    """A counter that another part keeps: read when scraped."""

    def __init__(self, shown: list[Measure], name: str, text: str, read: Callable[[], int]) -> None:
        super().__init__(shown, name, text)
        self._read = read

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415  # see measures' docstring

        yield CounterMetricFamily(self.name, self.text, value=self._read())


class Counts(Measure):
    """A counter of which another part keeps all values: read when scraped, one a label value."""

    def __init__(self, shown: list[Measure], name: str, text: str, read: tuple[str, Callable[[], Mapping[str, float]]]) -> None:
        label, self._read = read
        super().__init__(shown, name, text, [label])

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415  # see measures' docstring

        family = CounterMetricFamily(self.name, self.text, labels=self.labels)
        for value, count in self._read().items():
            family.add_metric([value], count)
        yield family


class Buckets:
    """A histogram's counts for one set of label values.

    Values are only kept when they come and sorted into buckets many at a time, which costs a fifth: whoever owns it calls `tidy` now and
    then. `observe` counts a value; one on a bound counts into that bucket.
    """

    __slots__ = ("_bounds", "_counts", "_kept", "_sum", "observe")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = np.array(bounds, np.float64)
        self._kept = array("d")
        self._counts = np.zeros(len(bounds) + 1, np.int64)
        self._sum = 0.0
        self.observe: Callable[[float], None] = self._kept.append

    def read(self) -> tuple[list[int], float]:
        """Return how many values each bucket holds, the one without a bound last, and the sum of all values."""
        self.tidy()
        return self._counts.tolist(), self._sum

    def reset(self) -> None:
        del self._kept[:]
        self._counts[:] = 0
        self._sum = 0.0

    def tidy(self) -> None:
        """Sort what is kept into buckets."""
        if not self._kept:
            return
        values = np.array(self._kept)
        del self._kept[:]
        self._counts += np.bincount(np.searchsorted(self._bounds, values), minlength=len(self._counts))
        self._sum += float(values.sum())


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

    def tidy(self) -> None:
        for buckets in self._buckets.values():
            buckets.tidy()

    def reset(self) -> None:
        for buckets in self._buckets.values():
            buckets.reset()

    def collect(self) -> Iterable[Metric]:
        return self.snapshot()()

    def snapshot(self) -> Callable[[], Iterable[Metric]]:
        """Read the counts only: making a sample of each bucket takes many times as long, and may be done elsewhere."""
        read = {labels: buckets.read() for labels, buckets in self._buckets.items()}
        return lambda: [self._family(read)]

    def _family(self, read: Mapping[tuple[str, ...], tuple[list[int], float]]) -> Metric:
        from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415

        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        names = [*(str(bound) for bound in self.bounds), "+Inf"]
        for labels, (counts, total) in read.items():
            family.add_metric(labels, list(zip(names, accumulate(counts), strict=True)), total)
        return family
