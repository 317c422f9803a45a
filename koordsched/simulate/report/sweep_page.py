"""The page of a sweep: many runs, by configuration and input, as means with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from koordsched.simulate.report.charts import intervals
from koordsched.simulate.report.page import Chart, Number, Page, PagePart

if TYPE_CHECKING:
    from koordsched.framework.tooling import Section


class Estimate(msgspec.Struct, frozen=True):
    """The mean of a measure over the seeds of one configuration on one input, and its confidence interval. is_share: shown in percent."""

    measure: str
    config: str
    source: str
    mean: float
    low: float
    high: float
    is_share: bool = False


def sweep_page(text: str, numbers: Sequence[Number], estimates: Sequence[Estimate], tables: Sequence[Section] = ()) -> Page:
    """Return the page of a sweep: a chart for each measure, in the order in which they come first, then the tables."""
    measures = dict.fromkeys(estimate.measure for estimate in estimates)
    charts = []
    for measure in measures:
        found = [each for each in estimates if each.measure == measure]
        rows = [(each.config, each.source, each.mean, each.low, each.high) for each in found]
        legend = f"{measure}: mean of the seeds and its confidence interval, by configuration."
        charts.append(Chart(measure, legend, intervals(rows, measure, ".1%" if found[0].is_share else "~s")))
    return Page("Sweep", text, numbers, [PagePart("Measures", charts=charts), PagePart("Tables", tables=tables)])
