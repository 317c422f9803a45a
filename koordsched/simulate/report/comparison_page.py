"""The page of `simulate --compare`: two runs of one input beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from koordsched.simulate.comparison_table import ComparisonOptions, comparison_sections
from koordsched.simulate.report.charts import Axis, bars, lines, time_axis
from koordsched.simulate.report.page import Chart, Number, Page, PagePart
from koordsched.simulate.report.run_page import MOST_REASONS, SHOWN, axis_of, shortened, unit_names
from koordsched.simulate.summary import group

if TYPE_CHECKING:
    from koordsched.simulate.comparison import RunComparison
    from koordsched.simulate.usage import UsageRecord

BASE, OTHER = "base", "other"


class ComparisonPage(msgspec.Struct, frozen=True):
    """What the page of a comparison shows. source: the input, as the user called it."""

    source: str
    found: RunComparison
    base: UsageRecord
    other: UsageRecord


def comparison_page(page: ComparisonPage) -> Page:
    """Return the page of a comparison."""
    found = page.found
    counts = found.counts
    numbers = [
        Number("pods on the same node", f"{counts.same_node:,}"),
        Number("on another node", f"{counts.other_node:,}"),
        Number("placed by base only", f"{counts.only_base:,}"),
        Number("placed by other only", f"{counts.only_other:,}"),
        Number("placed by neither", f"{counts.neither:,}"),
    ]
    made = {section.title: section for section in comparison_sections(found, ComparisonOptions(page.base.is_timed, SHOWN, SHOWN))}
    charts = list(_over_time(page))
    parts = [
        PagePart("Numbers", tables=[made[title] for title in ("Comparison", "Placements") if title in made]),
        PagePart("Placements over time", charts=[chart for chart in charts if not chart.title.endswith("unusable")]),
        PagePart("Fragmentation", charts=[chart for chart in charts if chart.title.endswith("unusable")]),
        PagePart(
            "Pending pods", charts=list(_reasons(found)), tables=[made[title] for title in ("Why pods are pending",) if title in made]
        ),
        PagePart("Namespaces", charts=list(_namespaces(found)), tables=[made[title] for title in ("Namespaces",) if title in made]),
        PagePart("Pods placed differently", tables=[made[title] for title in ("Pods placed differently",) if title in made]),
    ]
    return Page("Comparison", f"{page.source} under {found.base.config} (base) and under {found.other.config} (other).", numbers, parts)


def _over_time(page: ComparisonPage) -> Iterator[Chart]:
    base, other = page.base.series, page.other.series
    axis, places = _common_axis(page.base, page.other)
    if not axis.values:
        return

    def chart(title: str, text: str, columns: Sequence[Sequence[float]], what: str, format_: str) -> Chart:
        both = zip((BASE, OTHER), columns, places, strict=True)
        return Chart(title, text, lines(axis, {name: [column[place] for place in at] for name, column, at in both}, what, format_))

    yield chart("Pending pods", "Pods that wait for a node.", (base.pending, other.pending), "pods", "~s")
    for name in ("cpu", "memory"):
        if name in base.allocation and name in other.allocation:
            text = f"What pods on nodes request of {name}, as a share of what all nodes can give."
            yield chart(f"{name} allocated", text, (base.allocation[name], other.allocation[name]), "allocated", ".0%")
        if name in base.unusable and name in other.unusable:
            text = f"Free {name} that is of no use to pods like those of the input, as a share of all."
            yield chart(f"{name} free, but unusable", text, (base.unusable[name], other.unusable[name]), "of all", ".1%")
    for key, name in unit_names().items():
        if key in base.units and key in other.units:
            one, two = base.units[key], other.units[key]
            yield chart(f"{name}s allocated", f"The allocated share of all {name}s.", (one.allocation, two.allocation), "allocated", ".0%")
            text = f"Free shares of {name}s that are of no use to pods like those of the input, as a share of all."
            yield chart(f"{name}s free, but unusable", text, (one.unusable, two.unusable), "of all", ".1%")


def _common_axis(base: UsageRecord, other: UsageRecord) -> tuple[Axis, tuple[list[int], list[int]]]:
    """Return an axis with the samples of both, and for each of its values the place of the sample that holds there, in each of them."""
    axes = [axis_of(base).values, axis_of(other).values]
    if base.is_timed:
        axes = [base.series.seconds, other.series.seconds]
    values = sorted({value for axis in axes for value in axis})
    first, second = (_holding(axis, values) for axis in axes)
    return (time_axis(values) if base.is_timed else Axis(axis_of(base).title, values)), (first, second)


def _holding(axis: Sequence[float], values: Sequence[float]) -> list[int]:
    places, place = [], 0
    for value in values:
        while place + 1 < len(axis) and axis[place + 1] <= value:
            place += 1
        places.append(place)
    return places


def _reasons(found: RunComparison) -> Iterator[Chart]:
    counted = [{each.reasons: each.count for each in group(run.outcome.result.pending)} for run in (found.base, found.other)]
    reasons = sorted(
        {reason for counts in counted for reason in counts}, key=lambda reason: (-sum(each.get(reason, 0) for each in counted), reason)
    )
    rows = [
        (shortened("; ".join(reason)), name, float(counts.get(reason, 0)))
        for reason in reasons[:MOST_REASONS]
        for name, counts in zip((BASE, OTHER), counted, strict=True)
    ]
    if rows:
        yield Chart("Why pods are pending", "Pending pods by what the scheduler says of them.", bars(rows, "pods", stacked=False))


def _namespaces(found: RunComparison) -> Iterator[Chart]:
    rows = []
    for name, run in ((BASE, found.base), (OTHER, found.other)):
        fairness = run.outcome.result.summary.fairness
        rows += [(each.namespace, name, each.served) for each in fairness.namespaces[:SHOWN]] if fairness else []
    if rows:
        text = "The share of what a namespace asks for that its pods were given, of the resource of which it asks for the largest share."
        yield Chart("What namespaces are given", text, bars(rows, "of what they ask for", ".0%", stacked=False))
