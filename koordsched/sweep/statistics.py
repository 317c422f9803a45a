"""Means over the seeds, with the interval in which the mean of all seeds is expected to be.

The interval is Student's: of n values with mean m and standard deviation s (of a sample: n - 1), m ± t * s / sqrt(n), t being the 97.5th
percentile of the t-distribution with n - 1 degrees of freedom, so that 95 of 100 such intervals hold the true mean. It needs two values.

Two configurations are compared seed by seed: they had the same pods in the same order, so what differs between the seeds falls out of the
differences, whose interval is narrower than those of the two means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean, stdev

from koordsched.framework.tooling import Figure
from koordsched.simulate.result import Output
from koordsched.sweep.folder import PlannedRun
from koordsched.sweep.run import RunRecord

CONFIDENCE = 0.95

Done = Sequence[tuple[PlannedRun, RunRecord]]


class Interval(Output):
    """A mean, and the bounds of its interval: None with one value."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def is_above_or_below_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class FigureStatistics(Output):
    """A figure of an input under a configuration. runs: how many have it. difference: from the first configuration, over the seeds that
    both have; None for the first one, and where there is none."""

    input: str
    configuration: str
    figure: str
    is_share: bool
    runs: int
    value: Interval
    difference: Interval | None


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of the values and its interval. There is one value at least."""
    mean, count = fmean(values), len(values)
    if count == 1:
        return Interval(mean=mean)
    from scipy.special import stdtrit  # noqa: PLC0415  # an optional package

    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * stdev(values) / math.sqrt(count)
    return Interval(mean=mean, low=mean - half, high=mean + half)


def statistics_of(done: Done) -> list[FigureStatistics]:
    """Return the statistics of all figures, by input, then by configuration, in the order of the runs."""
    return [
        found
        for _, of_input in groupby(done, key=lambda each: each[0].source.name)
        for found in _of_input({name: list(runs) for name, runs in groupby(of_input, key=lambda each: each[0].configuration.name)})
    ]


def _of_input(by_configuration: Mapping[str, Done]) -> Iterator[FigureStatistics]:
    tables = {name: _by_seed(record_of) for name, record_of in by_configuration.items()}
    first = next(iter(tables.values()))
    for (name, done), table in zip(by_configuration.items(), tables.values(), strict=True):
        for label, values in table.items():
            figure = _figure(done, label)
            pairs = [(value, first[label][seed]) for seed, value in values.items() if seed in first.get(label, {})]
            yield FigureStatistics(
                input=done[0][0].source.name,
                configuration=name,
                figure=label,
                is_share=figure.is_share,
                runs=len(values),
                value=interval(list(values.values())),
                difference=interval([here - there for here, there in pairs]) if pairs and table is not first else None,
            )


def _by_seed(done: Done) -> dict[str, dict[int, float]]:
    """Return by label what each seed has, in the order of the seeds."""
    table: dict[str, dict[int, float]] = {}
    for run, record in done:
        for figure in record.figures:
            table.setdefault(figure.label, {})[run.seed] = figure.value
    return table


def _figure(done: Iterable[tuple[PlannedRun, RunRecord]], label: str) -> Figure:
    return next(figure for _, record in done for figure in record.figures if figure.label == label)
