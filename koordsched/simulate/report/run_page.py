"""The page of one run of `simulate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.quantity import nano
from koordsched.plugins import tooling
from koordsched.simulate.report.charts import PERCENT, Axis, areas, band_map, bars, cells, grid, lines, time_axis
from koordsched.simulate.report.page import Chart, Number, Page, PagePart
from koordsched.simulate.summary import ReportOptions, group, sections

if TYPE_CHECKING:
    from koordsched.framework.tooling import Figure, Section
    from koordsched.simulate.result import Result
    from koordsched.simulate.simulation import SimulationOutcome
    from koordsched.simulate.usage import UsageRecord, UsageSeries

SHOWN = 50
"""Rows of a table, and bars of a chart."""
NAMED_NODES = 40
"""As many nodes at most have bars and rows with their names; more are squares."""
MOST_REASONS = 15
LONGEST_LABEL = 70


class RunPage(msgspec.Struct, frozen=True):
    """What the page of a run shows. config, source: as the user called them."""

    config: str
    source: str
    outcome: SimulationOutcome
    usage: UsageRecord


def run_page(run: RunPage) -> Page:
    """Return the page of a run."""
    result, usage = run.outcome.result, run.usage
    summary = result.summary
    at_most, at_end = (" at most", " at the end") if usage.is_timed else ("", "")
    numbers = [
        Number("nodes", f"{summary.nodes:,}"),
        Number("pods", f"{summary.pods:,}"),
        Number("bound", f"{summary.bound:,}"),
        Number("pending", f"{summary.pending:,}"),
        *(Number(f"{name} allocated{at_most}", f"{100 * share:.1f} %") for name, share in list(summary.allocation.items())[:2]),
        *(Number(f"{each.label}{at_end}", _shown(each)) for report in run.outcome.reports.values() for each in report.figures),
    ]
    tables = _tables(run)
    axis = axis_of(usage)
    parts = [
        PagePart("Summary", tables=tables.pop("", ())),
        PagePart("Placements over time", charts=list(_over_time(axis, usage))),
        PagePart("Fragmentation", charts=list(_fragmentation(axis, usage.series))),
        PagePart("Nodes", charts=list(_nodes(axis, usage)), tables=[*tables.pop("load", ()), *tables.pop("cpus", ())]),
        PagePart("GPUs", charts=list(_units(axis, usage)), tables=tables.pop("gpu", ())),
        PagePart("Pending pods", charts=list(_reasons(result)), tables=tables.pop("pending", ())),
        PagePart("Quotas", charts=list(_quotas(summary.body())), tables=tables.pop("elasticQuota", ())),
        PagePart("Gangs", charts=list(_gangs(summary.body())), tables=tables.pop("coscheduling", ())),
        PagePart("Reservations", charts=list(_reservations(summary.body())), tables=tables.pop("reservations", ())),
        *(PagePart(key, tables=found) for key, found in tables.items()),
    ]
    text = f"What koord-scheduler did with {run.source} under {run.config}."
    return Page("Simulation", text, numbers, parts)


def _shown(figure: Figure) -> str:
    return f"{100 * figure.value:.1f} %" if figure.is_share else f"{figure.value:g}"


def _tables(run: RunPage) -> dict[str, Sequence[Section]]:
    """Return the tables of the summary ("") and of the pending pods, and those of each report, by key."""
    options = ReportOptions(peak=run.usage.is_timed, shown=SHOWN)
    made = sections(run.outcome.result, options)
    found: dict[str, Sequence[Section]] = {key: report.sections(SHOWN) for key, report in run.outcome.reports.items()}
    pending = made[-1:] if run.outcome.result.pending else []
    return {"": made[1 : len(made) - len(pending)], "pending": pending, **found}


def axis_of(usage: UsageRecord) -> Axis:
    """Return the axis of the run: time, or, where all pods come at once, the decisions."""
    if usage.is_timed:
        return time_axis(usage.series.seconds)
    return Axis("pods placed or gone so far", usage.series.changes)


def _over_time(axis: Axis, usage: UsageRecord) -> Iterator[Chart]:
    series = usage.series
    if not axis.values:
        return
    yield Chart(
        "Pods",
        "Pods on nodes, and pods that wait for one.",
        lines(axis, {"on nodes": series.running, "pending": series.pending}, "pods", "~s"),
    )
    if allocated := merged({name: column for name, column in series.allocation.items() if any(column)}):
        text = "What pods on nodes request, as a share of what all nodes together can give."
        yield Chart("Allocation", text, lines(axis, allocated, "allocated"))


def merged(columns: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """Return columns without those that say the same as an earlier one, which is named after both."""
    names: dict[tuple[float, ...], list[str]] = {}
    for name, column in columns.items():
        names.setdefault(tuple(column), []).append(name)
    return {", ".join(same): column for column, same in names.items()}


def _fragmentation(axis: Axis, series: UsageSeries) -> Iterator[Chart]:
    columns: dict[str, Sequence[float]] = {**series.unusable}
    columns |= {f"{name}s": series.units[key].unusable for key, name in unit_names().items() if key in series.units}
    if columns and axis.values:
        text = "What is free, but of no use to pods like those of the input, as a share of all. Less of it is less fragmentation."
        yield Chart("Free, but unusable", text, lines(axis, columns, "of all", ".1%"))


def unit_names() -> dict[str, str]:
    """Return what units that pods share are called, by the key of their report."""
    return {units.key: units.name for each in tooling() for units in each.shared_units}


def _when(usage: UsageRecord, axis: Axis) -> str:
    """Say which moment the fullest one is."""
    if not axis.values:
        return ""
    value = axis.values[usage.series.fullest]
    return f"after {value:,.4g} {axis.title.removeprefix('virtual time in ')}" if usage.is_timed else f"after {value:,.0f} changes"


def _nodes(axis: Axis, usage: UsageRecord) -> Iterator[Chart]:
    when, named = _when(usage, axis), len(usage.fullest) <= NAMED_NODES
    names = [name for name in ("cpu", "memory") if any(node.shares[name] for node in usage.fullest)]
    if names and named:
        rows = [(node.name, name, node.shares[name]) for node in usage.fullest for name in names]
        text = f"The share of each node's cpu and memory that pods request {when}, when the most is allocated."
        yield Chart("Nodes at the fullest moment", text, bars(rows, "allocated", PERCENT, stacked=False))
    for name in names:
        if not named:
            text = f"A square is a node; its colour is the share of its {name} that pods request {when}, when the most is allocated."
            yield Chart(f"Nodes by allocated {name}", text, cells([(node.name, node.shares[name]) for node in usage.fullest], "node"))
        text = f"How many nodes have how much of their {name} allocated."
        yield Chart(f"Nodes by allocated {name} over time", text, band_map(axis, usage.bands[name], "nodes"))


def _units(axis: Axis, usage: UsageRecord) -> Iterator[Chart]:
    for key, name in unit_names().items():
        series = usage.series.units.get(key)
        if series is None:
            continue
        states = {"wholly allocated": series.full, "allocated in part": series.partly, "wholly free": series.idle}
        text = f"{name}s that are wholly allocated, allocated in part, and wholly free."
        yield Chart(f"{name}s by state", text, areas(axis, states, f"{name}s"))
        of_nodes = {node.name: [percent / 100 for percent in node.units[key]] for node in usage.fullest if key in node.units}
        if any(any(shares) for shares in of_nodes.values()):
            text = f"A square is a {name}, next to those of its node; its colour is what is allocated of it {_when(usage, axis)}."
            units = [(f"{node}: {name} {place}", share) for node, shares in of_nodes.items() for place, share in enumerate(shares)]
            spec = grid(of_nodes, name) if len(of_nodes) <= NAMED_NODES else cells(units, name)
            yield Chart(f"{name}s by what is allocated of each", text, spec)
        yield Chart(f"{name}s over time", f"How many {name}s are allocated by how much.", band_map(axis, usage.bands[key], f"{name}s"))


def _reasons(result: Result) -> Iterator[Chart]:
    groups = group(result.pending)
    if groups:
        rows = [(shortened("; ".join(found.reasons)), "pods", float(found.count)) for found in groups[:MOST_REASONS]]
        yield Chart(
            "Why pods are pending", "Pending pods by what the scheduler says of them; the table has the whole texts.", bars(rows, "pods")
        )


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def _quotas(body: Mapping[str, Any]) -> Iterator[Chart]:
    """Yield for each resource that quotas limit what is used and waited for of what each may use, in the order of the tree."""
    quotas = body.get("elasticQuota", {}).get("quotas", [])
    depths: dict[str, int] = {}
    for quota in quotas:
        depths[quota["name"]] = depths.get(quota["parent"], -1) + 1
    limited = sorted({name for quota in quotas for name in quota["max"]})
    for resource in limited[:4]:
        rows = []
        for quota in quotas[:SHOWN]:
            limit = nano(quota["runtime"].get(resource, quota["max"].get(resource, "0")))
            label = quota["name"] if depths[quota["name"]] <= 1 else f"{quota['parent']} / {quota['name']}"
            of_limit = {part: nano(quota[part].get(resource, "0")) / limit if limit else 0.0 for part in ("used", "waiting")}
            rows += [(label, part, share) for part, share in of_limit.items()]
        if any(row[2] for row in rows):
            text = f"The {resource} that pods of a quota and below it use, and wait for, as a share of what it may use now."
            yield Chart(f"Quota tree: {resource}", text, bars(rows, f"of the quota's {resource}", ".0%"))


def _gangs(body: Mapping[str, Any]) -> Iterator[Chart]:
    gangs = sorted(body.get("coscheduling", {}).get("gangs", []), key=lambda gang: -gang["waiting"])[:SHOWN]
    rows = [(gang["name"], part, float(gang[key])) for gang in gangs for part, key in (("on nodes", "placed"), ("waiting", "waiting"))]
    if any(row[2] for row in rows):
        yield Chart(
            "Members of gangs", "Members that are on nodes, and that wait, by gang; those first of which most wait.", bars(rows, "members")
        )


def _reservations(body: Mapping[str, Any]) -> Iterator[Chart]:
    found = body.get("reservations", {}).get("reservations", [])[:SHOWN]
    for resource in ("cpu", "memory"):
        rows = []
        for each in found:
            reserved = nano(each["reserved"].get(resource, "0"))
            used = min(nano(each["used"].get(resource, "0")), reserved)
            if reserved:
                rows += [(each["name"], "used by its owners", used / reserved), (each["name"], "unused", 1 - used / reserved)]
        if rows:
            yield Chart(
                f"Reserved {resource}",
                f"How much of the {resource} that a Reservation holds its owners use.",
                bars(rows, "of what it holds", ".0%"),
            )
