"""Metrics of plugins: a plugin registers its own, and they are shown at /metrics beside the scheduler's.

Every profile makes a plugin of its own, but there is one metric of a name: who registers it again, with the same labels, gets the same
collector. What a function reads (`gauge_function`, `counter_function`) is therefore what the first one reads: state of which there is
one for all profiles (`Cache.shared`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from koordsched.metrics import Collector, Counter, CounterFunction, Gauge, GaugeFunction, GaugeTable, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koordsched.metrics import Registry

C = TypeVar("C", bound=Collector)


class MetricError(Exception):
    """A metric cannot be registered: its name is that of another one. The text names both."""


class PluginMetrics:
    """The metrics of all plugins of one scheduler, in the registry of the scheduler's own."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._own: dict[str, Collector] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:  # noqa: A002  # Prometheus' word
        """Return a number that only grows, for each set of label values."""
        return self._one(Counter, name, tuple(labels)) or self._add(Counter(self._registry, name, help, tuple(labels)))

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:  # noqa: A002
        """Return a number that rises and falls, for each set of label values, and is gone when it is removed."""
        return self._one(Gauge, name, tuple(labels)) or self._add(Gauge(self._registry, name, help, tuple(labels)))

    def histogram(self, name: str, help: str, labels: Sequence[str] = (), *, bounds: Sequence[float]) -> Histogram:  # noqa: A002
        """Return how often which values come; `bounds` of its buckets rise."""
        found = self._one(Histogram, name, tuple(labels))
        if found is not None and list(found.bounds) != list(bounds):
            raise MetricError(f"metric {name} is registered already with the bounds {list(found.bounds)}, not {list(bounds)}")
        return found or self._add(Histogram(self._registry, name, help, tuple(labels), bounds=bounds))

    def counter_function(self, name: str, help: str, read: Callable[[], Mapping[str, float]], label: str = "") -> None:  # noqa: A002
        """Show a counter that another object keeps: `read` returns its values by label value, without a label by ""."""
        if self._one(CounterFunction, name, (label,) if label else ()) is None:
            self._add(CounterFunction(self._registry, name, help, read, label))

    def gauge_function(self, name: str, help: str, read: Callable[[], Mapping[str, float]], label: str = "") -> None:  # noqa: A002
        """Show a gauge that another object keeps. A label value that was read once stays, at 0 when it has gone."""
        if self._one(GaugeFunction, name, (label,) if label else ()) is None:
            self._add(GaugeFunction(self._registry, name, help, read, label))

    def gauge_table(
        self,
        name: str,
        help: str,  # noqa: A002
        labels: Sequence[str],
        read: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        """Show a gauge of several labels that another object keeps: `read` returns its values by label values, read at each scrape."""
        if self._one(GaugeTable, name, tuple(labels)) is None:
            self._add(GaugeTable(self._registry, name, help, tuple(labels), read))

    def _one(self, kind: type[C], name: str, labels: tuple[str, ...]) -> C | None:
        """Return the plugins' metric of this name; None: there is none. MetricError when it is another one, or one of the scheduler's."""
        found = self._own.get(name)
        if found is None:
            if any(other.name == name for other in self._registry):
                raise MetricError(f"metric {name} is one of the scheduler's own; a plugin's metric needs a name of its own")
            return None
        if not isinstance(found, kind) or tuple(found.labels) != labels:
            registered = f"{type(found).__name__} with the labels {list(found.labels)}"
            raise MetricError(f"metric {name} is registered already as {registered}, not as {kind.__name__} with {list(labels)}")
        return found

    def _add(self, collector: C) -> C:
        self._own[collector.name] = collector
        return collector
