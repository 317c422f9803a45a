"""Which metrics, and which values of their labels, are shown: --disabled-metrics and --allow-metric-labels."""

from __future__ import annotations

import gc

from koordsched.config.flags import parse_flags
from koordsched.metrics import Counter, Gauge, Histogram, MetricRules, Registry, exposition


def shown_with(*flags: str) -> list[str]:
    """Return the samples of three metrics under these flags."""
    registry: Registry = []
    counter = Counter(registry, "c_total", "Counted.", ["a", "b"])
    for a, b in (("x", "1"), ("y", "1"), ("z", "2")):
        counter.increment(a, b)
    Gauge(registry, "g", "Going.", ["a"]).add(5, "x")
    durations = Histogram(registry, "d", "Durations.", ["a"], bounds=[1])
    for a in ("x", "y", "z"):
        durations.observe(0.5, a)
    parsed = parse_flags(list(flags))
    text = exposition(registry, MetricRules.of(parsed.disabled_metrics, parsed.allow_metric_labels)).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_without_flags_everything_is_shown() -> None:
    assert len(shown_with()) == 3 + 1 + 3 * 4


def test_a_disabled_metric_is_not_shown() -> None:
    assert shown_with("--disabled-metrics=d,g") == ['c_total{a="x",b="1"} 1.0', 'c_total{a="y",b="1"} 1.0', 'c_total{a="z",b="2"} 1.0']
    assert shown_with("--disabled-metrics=c_total,d") == ['g{a="x"} 5.0']


def test_a_counter_is_disabled_by_its_full_name_only() -> None:
    assert len(shown_with("--disabled-metrics=c,d,g")) == 3


def test_values_that_are_not_allowed_are_unexpected_and_added_up() -> None:
    found = shown_with("--disabled-metrics=d,g", "--allow-metric-labels=c_total,a=x")
    assert found == ['c_total{a="x",b="1"} 1.0', 'c_total{a="unexpected",b="1"} 1.0', 'c_total{a="unexpected",b="2"} 1.0']
    found = shown_with("--disabled-metrics=d,g", "--allow-metric-labels=c_total,a=q", "--allow-metric-labels=c_total,b=2,3")
    assert found == ['c_total{a="unexpected",b="unexpected"} 2.0', 'c_total{a="unexpected",b="2"} 1.0']


def test_buckets_of_values_that_are_not_allowed_are_added_up() -> None:
    found = shown_with("--disabled-metrics=c_total,g", "--allow-metric-labels=d,a=y")
    assert found == [
        'd_bucket{a="unexpected",le="1"} 2.0',
        'd_bucket{a="unexpected",le="+Inf"} 2.0',
        'd_count{a="unexpected"} 2.0',
        'd_sum{a="unexpected"} 1.0',
        'd_bucket{a="y",le="1"} 1.0',
        'd_bucket{a="y",le="+Inf"} 1.0',
        'd_count{a="y"} 1.0',
        'd_sum{a="y"} 0.5',
    ]


def test_a_page_of_metrics_leaves_no_garbage() -> None:
    """A collection holds up the scheduling loop, whichever thread has made the garbage."""
    shown_with()  # imports
    gc.collect()
    gc.disable()
    try:
        shown_with("--disabled-metrics=g", "--allow-metric-labels=c_total,a=x")
        assert gc.collect() == 0
    finally:
        gc.enable()
