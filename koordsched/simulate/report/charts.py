"""Shapes of charts, as Vega-Lite specifications without a theme (`page.CONFIG`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

Spec = dict[str, Any]
Row = dict[str, Any]

WIDTH, HEIGHT = 760, 220
MOST_CELLS = 8000
"""Cells that are drawn one by one; of more, neighbours are drawn together."""
LARGEST_CELL = 18
MOST_COLUMNS = 96
"""Columns of a heat map over time."""
PERCENT = ".0%"


class Axis(msgspec.Struct, frozen=True):
    """The horizontal axis of charts over time: its title, and a value for each sample."""

    title: str
    values: Sequence[float]


def time_axis(seconds: Sequence[float]) -> Axis:
    """Return an axis of virtual time in the unit that suits its length."""
    longest = seconds[-1] if seconds else 0.0
    for unit, length, least in (("days", 86400.0, 3), ("hours", 3600.0, 3), ("minutes", 60.0, 5)):
        if longest > least * length:
            return Axis(f"virtual time in {unit}", [round(value / length, 4) for value in seconds])
    return Axis("virtual time in seconds", list(seconds))


def lines(axis: Axis, columns: Mapping[str, Sequence[float]], title: str, format_: str = PERCENT) -> Spec:
    """Draw a line for each column over the axis."""
    spec = _over(axis, columns, title, {"type": "line", "interpolate": "step-after", "strokeWidth": 2})
    spec["encoding"]["y"] |= {"axis": {"format": format_}, "stack": None}
    spec["encoding"]["strokeDash"] = {key: spec["encoding"]["color"][key] for key in ("field", "type", "title", "scale", "legend")}
    return spec


def areas(axis: Axis, columns: Mapping[str, Sequence[float]], title: str) -> Spec:
    """Draw columns that add up to a whole on top of each other."""
    spec = _over(axis, columns, title, {"type": "area", "interpolate": "step-after"})
    spec["encoding"]["y"] |= {"axis": {"format": "~s"}, "stack": "zero"}
    return spec


def _over(axis: Axis, columns: Mapping[str, Sequence[float]], title: str, mark: Row) -> Spec:
    names = list(columns)
    values = [{"x": x, **{f"c{place}": columns[name][sample] for place, name in enumerate(names)}} for sample, x in enumerate(axis.values)]
    labels = {f"c{place}": name for place, name in enumerate(names)}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": values},
        "transform": [
            {"fold": list(labels), "as": ["column", "y"]},
            {"calculate": f"({_object(labels)})[datum.column]", "as": "series"},
        ],
        "mark": {**mark, "tooltip": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": axis.title, "scale": {"nice": False, "zero": True}},
            "y": {"field": "y", "type": "quantitative", "title": title},
            "color": {"field": "series", "type": "nominal", "title": None, "scale": {"domain": names}, "legend": _LEGEND},
        },
    }


def _tick_axis(format_: str) -> Row:
    """Return an axis that counts in whole ones, unless it is of shares."""
    return {"format": format_} if format_.endswith("%") else {"format": format_, "tickMinStep": 1}


_LEGEND = {"orient": "top", "columns": 4}


def _object(texts: Mapping[str, str]) -> str:
    """Write an object in Vega's language of expressions."""
    return msgspec.json.encode(texts).decode()


def bars(rows: Sequence[tuple[str, str, float]], title: str, format_: str = "~s", *, stacked: bool = True) -> Spec:
    """Draw a horizontal bar for each label, of parts in their own colours, stacked or beside each other. rows: label, part, value."""
    labels, parts = (list(dict.fromkeys(row[place] for row in rows)) for place in (0, 1))
    several = len(parts) > 1
    color = {"field": "part", "type": "nominal", "title": None, "scale": {"domain": parts}, "legend": _LEGEND if several else None}
    return {
        "width": 460,
        "height": {"step": 22 if stacked or not several else 12},
        "data": {"values": [{"label": label, "part": part, "value": value} for label, part, value in rows]},
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "label", "type": "nominal", "title": None, "sort": labels, "axis": {"labelLimit": 420}},
            "x": {"field": "value", "type": "quantitative", "title": title, "axis": _tick_axis(format_)},
            "color": color,
            "order": {"field": "part", "sort": "ascending"},
            **({} if stacked or not several else {"yOffset": {"field": "part", "sort": parts}}),
        },
    }


def grid(shares: Mapping[str, Sequence[float]], what: str) -> Spec:
    """Draw a row of squares for each name, coloured by their shares. what: one square is one of these."""
    values = [{"row": name, "place": place, "share": share} for name, row in shares.items() for place, share in enumerate(row)]
    return {
        "width": {"step": 26},
        "height": {"step": 20},
        "data": {"values": values},
        "mark": {"type": "rect", "tooltip": True, "stroke": "#c3cad1", "strokeWidth": 0.5},
        "encoding": {
            "x": {"field": "place", "type": "ordinal", "title": what, "axis": {"labelAngle": 0}, "scale": {"padding": 0.1}},
            "y": {"field": "row", "type": "nominal", "title": None, "sort": list(shares), "scale": {"padding": 0.1}},
            "color": _share_color(),
        },
        "view": {"stroke": None},
    }


def _share_color() -> Row:
    scale = {"scheme": "blues", "domain": [0, 1], "clamp": True}
    return {"field": "share", "type": "quantitative", "title": "allocated", "scale": scale, "legend": {"format": PERCENT}}


def band_map(axis: Axis, bands: Sequence[Sequence[int]], what: str) -> Spec:
    """Draw how many of something are allocated by how much over time. bands: for each sample the numbers by tenths, and of what is full."""
    last = len(axis.values) - 1
    chosen = sorted({round(last * place / (MOST_COLUMNS - 1)) for place in range(MOST_COLUMNS)}) if last > 0 else [0]
    labels = [f"{10 * band}-{10 * band + 10} %" for band in range(len(bands[0]) - 1)] + ["100 %"]
    values = [
        {"from": axis.values[sample], "to": _end(axis, chosen, place), "band": labels[band], "count": count}
        for place, sample in enumerate(chosen)
        for band, count in enumerate(bands[sample])
        if count
    ]
    return {
        "width": WIDTH,
        "height": {"step": 18},
        "data": {"values": values},
        "mark": {"type": "rect", "tooltip": True},
        "encoding": {
            "x": {"field": "from", "type": "quantitative", "title": axis.title, "scale": {"nice": False, "zero": True}},
            "x2": {"field": "to"},
            "y": {"field": "band", "type": "ordinal", "title": "allocated", "sort": labels[::-1], "scale": {"domain": labels[::-1]}},
            "color": {"field": "count", "type": "quantitative", "title": what, "scale": {"scheme": "blues", "type": "symlog"}},
        },
    }


def _end(axis: Axis, chosen: Sequence[int], place: int) -> float:
    """Return where the column of a chosen sample ends: at the next one; the last is as wide as columns are on average."""
    if place + 1 < len(chosen):
        return axis.values[chosen[place + 1]]
    return axis.values[-1] + ((axis.values[-1] - axis.values[0]) / len(chosen) or 1.0)


def cells(shares: Sequence[tuple[str, float]], what: str) -> Spec:
    """Draw a square for each of many, coloured by its share, in rows. shares: name and share of each."""
    together = max(math.ceil(len(shares) / MOST_CELLS), 1)
    groups = [shares[start : start + together] for start in range(0, len(shares), together)]
    columns = max(math.ceil(math.sqrt(len(groups) * 2.4)), min(len(groups), WIDTH // LARGEST_CELL))
    size = min(WIDTH / columns, LARGEST_CELL)
    values = [
        {
            "x": place % columns,
            "y": place // columns,
            "name": group[0][0] if len(group) == 1 else f"{group[0][0]} and {len(group) - 1} more",
            "share": round(sum(share for _, share in group) / len(group), 4),
        }
        for place, group in enumerate(groups)
    ]
    tooltip = [{"field": "name", "title": what}, {"field": "share", "title": "allocated", "format": ".1%"}]
    return {
        "width": round(size * columns),
        "height": round(size * math.ceil(len(groups) / columns)),
        "data": {"values": values},
        "mark": {"type": "rect", "stroke": "#c3cad1", "strokeWidth": 0.5},
        "encoding": {
            "x": {"field": "x", "type": "ordinal", "axis": None, "scale": {"padding": 0.12}},
            "y": {"field": "y", "type": "ordinal", "axis": None, "scale": {"padding": 0.12}},
            "color": _share_color(),
            "tooltip": tooltip,
        },
        "view": {"stroke": None},
    }


def intervals(rows: Sequence[tuple[str, str, float, float, float]], title: str, format_: str) -> Spec:
    """Draw a mean and its interval for each label. rows: label, group (which has a colour), mean, low, high."""
    labels, groups = (list(dict.fromkeys(row[place] for row in rows)) for place in (0, 1))
    several = len(groups) > 1
    y: Row = {"field": "label", "type": "nominal", "title": None, "sort": labels}
    offset = {"yOffset": {"field": "group", "sort": groups}} if several else {}
    color = {"field": "group", "type": "nominal", "title": None, "scale": {"domain": groups}, "legend": _LEGEND if several else None}
    x = {"type": "quantitative", "title": title, "axis": {"format": format_}, "scale": {"zero": False}}
    return {
        "width": 460,
        "height": {"step": 24 if not several else 14},
        "data": {"values": [dict(zip(("label", "group", "mean", "low", "high"), row, strict=True)) for row in rows]},
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5}, "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}}},
            {"mark": {"type": "point", "filled": True, "size": 60, "tooltip": True}, "encoding": {"x": {**x, "field": "mean"}}},
        ],
        "encoding": {"y": y, "color": color, **offset},
    }
