"""Counters, gauges and histograms that cost an append or a dict update.

A collector registers itself in the list that it is given, with which it is collected later. Code that counts often keeps a child (the value
for one set of label values) at hand: it stays the same object for as long as its collector exists. Nothing here locks: a collector belongs
to one event loop, on which `collect` is called, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class BucketCounts(NamedTuple):
    """How many values each bucket of a histogram holds, the one without a bound last, and the sum of all values."""

    counts: Sequence[int]
    total: float


class Family(msgspec.Struct, frozen=True):
    """The values of one metric at one moment, with their label values in the order of `labels`. `bounds`: of a histogram's buckets."""

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    samples: Sequence[tuple[tuple[str, ...], float | BucketCounts]]
    labels: Sequence[str] = ()
    bounds: Sequence[float] = ()


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Return bucket bounds as Prometheus' ExponentialBuckets does."""
    return list(accumulate([start] + [factor] * (count - 1), lambda bound, by: bound * by))


class Collector(ABC):
    """A metric with a name, a help text and labels, that adds itself to a registry."""

    def __init__(self, registry: Registry, name: str, help: str, labels: Sequence[str] = ()) -> None:  # noqa: A002  # Prometheus' word
        self.name = name
        self.help = help
        self.labels = labels
        registry.append(self)

    @abstractmethod
    def collect(self) -> Iterable[Family]:
        """Read the values now. What is returned does not change afterwards, and may be used in another thread."""

    def tidy(self) -> None:
        """Release the memory of what can be summed up. To be called now and then."""
        return

    def reset(self) -> None:
        """Count from zero again. What describes the present (a gauge) or is counted elsewhere stays as it is."""
        return


Registry = list[Collector]


class CounterChild:
    """A counter's value for one set of label values."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Counter(Collector):
    """A number that only grows, for each set of label values."""

    def __init__(self, registry: Registry, name: str, help: str, labels: Sequence[str] = ()) -> None:  # noqa: A002
        super().__init__(registry, name, help, labels)
        self._children: dict[tuple[str, ...], CounterChild] = {}

    def child(self, *labels: str) -> CounterChild:
        """Return the child with these label values; it is shown from now on."""
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = CounterChild()
        return child

    def increment(self, *labels: str) -> None:
        """Count one more with these label values."""
        try:
            self._children[labels].count += 1
        except KeyError:
            self.child(*labels).count = 1

    def reset(self) -> None:
        for child in self._children.values():
            child.count = 0

    def collect(self) -> Iterable[Family]:
        return [Family(self.name, self.help, "counter", [(labels, child.count) for labels, child in self._children.items()], self.labels)]


class Gauge(Collector):
    """A number that rises and falls, for each set of label values."""

    def __init__(self, registry: Registry, name: str, help: str, labels: Sequence[str] = ()) -> None:  # noqa: A002
        super().__init__(registry, name, help, labels)
        self.values: dict[tuple[str, ...], float] = {}

    def add(self, difference: float, *labels: str) -> None:
        """Change the value with these label values by a difference."""
        self.values[labels] = self.values.get(labels, 0) + difference

    def set(self, value: float, *labels: str) -> None:
        """Set the value with these label values."""
        self.values[labels] = value

    def remove(self, *labels: str) -> None:
        """Show nothing with these label values any more."""
        self.values.pop(labels, None)

    def collect(self) -> Iterable[Family]:
        return [Family(self.name, self.help, "gauge", list(self.values.items()), self.labels)]


class CounterFunction(Collector):
    """A counter that another object keeps: `read` returns its values by label value, without a label by ""."""

    def __init__(self, registry: Registry, name: str, help: str, read: Callable[[], Mapping[str, float]], label: str = "") -> None:  # noqa: A002
        super().__init__(registry, name, help, [label] if label else [])
        self._read = read

    def collect(self) -> Iterable[Family]:
        return [Family(self.name, self.help, "counter", _labelled(self._read(), self.labels), self.labels)]


class GaugeFunction(Collector):
    """A gauge that another object keeps: `read` as for CounterFunction. A label value that was read once stays, at 0 when it has gone."""

    def __init__(self, registry: Registry, name: str, help: str, read: Callable[[], Mapping[str, float]], label: str = "") -> None:  # noqa: A002
        super().__init__(registry, name, help, [label] if label else [])
        self._read = read
        self._seen: dict[str, float] = {}

    def collect(self) -> Iterable[Family]:
        self._seen = {**dict.fromkeys(self._seen, 0), **self._read()}
        return [Family(self.name, self.help, "gauge", _labelled(self._seen, self.labels), self.labels)]


class GaugeTable(Collector):
    """A gauge of several labels that another object keeps: `read` returns its values by label values. What it leaves out is gone."""

    def __init__(
        self,
        registry: Registry,
        name: str,
        help: str,  # noqa: A002
        labels: Sequence[str],
        read: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        super().__init__(registry, name, help, labels)
        self._read = read

    def collect(self) -> Iterable[Family]:
        return [Family(self.name, self.help, "gauge", list(self._read().items()), self.labels)]


def _labelled(values: Mapping[str, float], labels: Sequence[str]) -> list[tuple[tuple[str, ...], float]]:
    return [((value,) if labels else (), number) for value, number in values.items()]


class HistogramChild:
    """A histogram's counts for one set of label values.

    Values are kept as they come and sorted into buckets many at a time, which costs a fifth: the owner calls `tidy` now and then.
    `observe` counts a value; one that equals a bound counts into that bucket.
    """

    __slots__ = ("_bounds", "_counts", "_kept", "_sum", "observe")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = np.array(bounds, np.float64)
        self._kept = array("d")
        self._counts = np.zeros(len(bounds) + 1, np.int64)
        self._sum = 0.0
        self.observe: Callable[[float], None] = self._kept.append

    def read(self) -> BucketCounts:
        """Return the counts now."""
        self.tidy()
        return BucketCounts(self._counts.tolist(), self._sum)

    def reset(self) -> None:
        """Count from zero again."""
        del self._kept[:]
        self._counts[:] = 0
        self._sum = 0.0

    def tidy(self) -> None:
        """Sort the values that came since the last time into buckets."""
        if not self._kept:
            return
        values = np.array(self._kept)
        del self._kept[:]
        self._counts += np.bincount(np.searchsorted(self._bounds, values), minlength=len(self._counts))
        self._sum += float(values.sum())


class Histogram(Collector):
    """How often which values came, for each set of label values; `bounds` of the buckets rise."""

    def __init__(self, registry: Registry, name: str, help: str, labels: Sequence[str] = (), *, bounds: Sequence[float]) -> None:  # noqa: A002
        super().__init__(registry, name, help, labels)
        self.bounds = bounds
        self._children: dict[tuple[str, ...], HistogramChild] = {}

    def child(self, *labels: str) -> HistogramChild:
        """Return the child with these label values; it is shown from now on."""
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = HistogramChild(self.bounds)
        return child

    def observe(self, value: float, *labels: str) -> None:
        """Count a value with these label values."""
        self.child(*labels).observe(value)

    def remove(self, *labels: str) -> None:
        """Show nothing with these label values any more."""
        self._children.pop(labels, None)

    def tidy(self) -> None:
        for child in self._children.values():
            child.tidy()

    def reset(self) -> None:
        for child in self._children.values():
            child.reset()

    def collect(self) -> Iterable[Family]:
        samples = [(labels, child.read()) for labels, child in self._children.items()]
        return [Family(self.name, self.help, "histogram", samples, self.labels, self.bounds)]


class Alias(Collector):
    """Another metric's values under a second name, as long as dashboards ask for that one."""

    def __init__(self, registry: Registry, name: str, of: Collector) -> None:
        super().__init__(registry, name, f"The same as {of.name}, by its former name.", of.labels)
        self.of = of

    def collect(self) -> Iterable[Family]:
        return [msgspec.structs.replace(family, name=self.name, help=self.help) for family in self.of.collect()]
