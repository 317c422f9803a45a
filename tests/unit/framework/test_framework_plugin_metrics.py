"""Metrics of plugins: one of a name, whichever profile's plugin registers it."""

from __future__ import annotations

import pytest

from koordsched.framework.plugin_metrics import MetricError, PluginMetrics
from koordsched.metrics import Counter, Registry, exposition


def test_plugins_of_two_profiles_count_with_one_collector() -> None:
    registry: Registry = []
    metrics = PluginMetrics(registry)
    for _profile in range(2):
        metrics.counter("my_writes_total", "Writes.", ["kind"]).increment("node")
        metrics.gauge("my_size", "Size.").add(3)
        metrics.histogram("my_seconds", "Seconds.", bounds=[1.0, 2.0]).observe(1.5)
        metrics.gauge_function("my_nodes", "Nodes.", lambda: {"a": 7}, "pool")
        metrics.counter_function("my_events_total", "Events.", lambda: {"": 5})
        metrics.counter_function("my_moves_total", "Moves.", lambda: {"up": 2}, "way")
        metrics.gauge_function("my_load", "Load.", lambda: {"": 0.5})
    assert len(registry) == 7
    text = exposition(registry).decode()
    for line in (
        'my_writes_total{kind="node"} 2.0',
        "my_size 6.0",
        'my_seconds_bucket{le="2.0"} 2.0',
        'my_nodes{pool="a"} 7.0',
        "my_events_total 5.0",
        'my_moves_total{way="up"} 2.0',
        "my_load 0.5",
    ):
        assert line in text.splitlines()


def test_a_gauge_shows_what_was_set_until_it_is_removed() -> None:
    registry: Registry = []
    gauge = PluginMetrics(registry).gauge("quota_used", "Used.", ["name"])
    gauge.set(2.5, "a")
    gauge.set(1, "b")
    gauge.remove("b")
    gauge.remove("never")
    lines = exposition(registry).decode().splitlines()
    assert [line for line in lines if line.startswith("quota_used")] == ['quota_used{name="a"} 2.5']


def test_a_name_that_stands_for_something_else_is_refused() -> None:
    registry: Registry = []
    Counter(registry, "scheduler_schedule_attempts_total", "Attempts.")
    metrics = PluginMetrics(registry)
    metrics.counter("my_total", "Mine.", ["kind"])
    metrics.histogram("my_seconds", "Seconds.", bounds=[1.0])
    with pytest.raises(MetricError, match="metric scheduler_schedule_attempts_total is one of the scheduler's own"):
        metrics.counter("scheduler_schedule_attempts_total", "Attempts.")
    with pytest.raises(MetricError, match=r"registered already as Counter with the labels \['kind'\], not as Gauge with \['kind'\]"):
        metrics.gauge("my_total", "Mine.", ["kind"])
    metrics.counter_function("my_moves_total", "Moves.", dict, "way")
    metrics.gauge_function("my_load", "Load.", dict)
    with pytest.raises(MetricError, match=r"as CounterFunction with the labels \['way'\], not as CounterFunction with \[\]"):
        metrics.counter_function("my_moves_total", "Moves.", dict)
    with pytest.raises(MetricError, match=r"as GaugeFunction with the labels \[\], not as GaugeFunction with \['pool'\]"):
        metrics.gauge_function("my_load", "Load.", dict, "pool")
    with pytest.raises(MetricError, match=r"not as Counter with \[\]"):
        metrics.counter("my_total", "Mine.")
    with pytest.raises(MetricError, match=r"with the bounds \[1.0\], not \[2.0\]"):
        metrics.histogram("my_seconds", "Seconds.", bounds=[2.0])
