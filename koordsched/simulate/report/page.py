"""A page of tables and charts as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import Any

import msgspec

from koordsched import __version__
from koordsched.framework.tooling import BAR_CELLS, Section
from koordsched.manifests.documents import InputError

MISSING = "--report needs the package vl-convert-python: pip install 'koordsched[report]'"

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; color: #1b1f24; background: #fff;
  max-width: 1000px; margin: 0 auto; padding: 16px 24px 48px; }
h1 { font-size: 26px; margin: 8px 0 0; } h2 { font-size: 19px; margin: 40px 0 4px; border-top: 1px solid #d0d7de; padding-top: 16px; }
p { margin: 4px 0 12px; } .note, figcaption { color: #4b535d; font-size: 14px; }
a { color: #0a4fa3; } a:focus, [tabindex]:focus { outline: 3px solid #0a4fa3; outline-offset: 2px; }
.skip { position: absolute; left: -9999px; } .skip:focus { position: static; }
nav ul { columns: 3 220px; padding-left: 18px; margin: 8px 0; }
.numbers { display: flex; flex-wrap: wrap; gap: 12px; padding: 0; margin: 16px 0; list-style: none; }
.numbers li { border: 1px solid #d0d7de; border-radius: 6px; padding: 8px 14px; min-width: 110px; }
.numbers b { display: block; font-size: 22px; line-height: 1.2; } .numbers span { color: #4b535d; font-size: 13px; }
figure { margin: 12px 0 24px; } figure h3, caption { font-size: 15px; font-weight: 600; text-align: left; margin: 0 0 6px; }
figure svg { max-width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; margin: 12px 0 4px; }
table { border-collapse: collapse; font-size: 13.5px; } th, td { padding: 3px 12px 3px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid #e4e8ec; } .right { text-align: right; font-variant-numeric: tabular-nums; }
td { overflow-wrap: break-word; white-space: pre-wrap; }
.gauge { width: 180px; height: 12px; margin-top: 5px; background: #e4e8ec; } .gauge div { height: 100%; background: #0072b2; }
.gauge, .gauge div { print-color-adjust: exact; -webkit-print-color-adjust: exact; } .wide + .note, .note + .note { margin: 2px 0; }
@media print { nav, .skip { display: none; } body { max-width: none; padding: 0; font-size: 11px; }
  figure, tr { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; } }
"""

DRAW = """
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  vegaEmbed(figure.querySelector("div"), spec, {mode: "vega", renderer: "svg", actions: false, logLevel: 2});
}
"""

CONFIG: dict[str, Any] = {
    "font": 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif',
    "background": "#ffffff",
    "view": {"stroke": "#d0d7de"},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelColor": "#1b1f24",
        "titleColor": "#1b1f24",
        "gridColor": "#e9ecef",
        "labelLimit": 420,
    },
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "labelColor": "#1b1f24", "titleColor": "#1b1f24", "labelLimit": 420},
    "header": {"labelFontSize": 13, "labelFontWeight": "bold", "titleFontSize": 12},
    # Okabe and Ito's colours, which can be distinguished with every colour vision, the lightest ones left out
    "range": {"category": ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#7a5c00", "#333333", "#56b4e9", "#999933"]},
}


class Chart(msgspec.Struct, frozen=True):
    """A chart. spec: Vega-Lite with its data. text: what it shows, in a sentence or two, for all readers and for screen readers."""

    title: str
    text: str
    spec: dict[str, Any]


class Number(msgspec.Struct, frozen=True):
    """A number that stands on top of the page."""

    label: str
    text: str


class PagePart(msgspec.Struct, frozen=True):
    """A titled part of a page: charts, then tables."""

    title: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Section] = ()
    text: str = ""


class Page(msgspec.Struct, frozen=True):
    """What a page shows. Parts without charts and tables are left out."""

    title: str
    text: str
    numbers: Sequence[Number]
    parts: Sequence[PagePart]


def require_charts() -> None:
    """Check that charts can be made. InputError says what to install."""
    try:
        import vl_convert  # noqa: F401, PLC0415  # an optional extra
    except ImportError:
        raise InputError(MISSING) from None


def write_page(file: str, page: Page) -> None:
    """Write the page to a file. InputError: it cannot be written, or the library is missing."""
    require_charts()
    text = page_html(page)
    try:
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as mistake:
        raise InputError(f"{file}: cannot be written: {mistake.strerror}") from None


def page_html(page: Page) -> str:
    """Return the page as HTML."""
    parts = [part for part in page.parts if part.charts or part.tables]
    drawing = ""
    if any(part.charts for part in parts):
        drawing = f"<script>{_library()}\n{DRAW}</script>"
    contents = "".join(f'<li><a href="#part-{place}">{escape(part.title)}</a></li>' for place, part in enumerate(parts))
    numbers = "".join(f"<li><b>{escape(each.text)}</b><span>{escape(each.label)}</span></li>" for each in page.numbers)
    return "\n".join(
        [
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(page.title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">',
            f'<style>{STYLE}</style></head><body><a class="skip" href="#main">Skip to the contents</a>',
            f"<header><h1>{escape(page.title)}</h1><p>{escape(page.text)}</p></header>",
            f'<nav aria-label="Contents"><ul>{contents}</ul></nav><main id="main"><ul class="numbers">{numbers}</ul>',
            *_parts(parts),
            f'</main><footer><p class="note">koord-scheduler {escape(__version__)}</p></footer>',
            f"{drawing}</body></html>\n",
        ]
    )


@cache
def _library() -> str:
    """Return the script that draws charts. Bundling it takes seconds."""
    import vl_convert  # noqa: PLC0415  # an optional extra

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")  # or the element would end there


def _parts(parts: Sequence[PagePart]) -> Iterator[str]:
    drawn = 0
    for place, part in enumerate(parts):
        yield f'<section><h2 id="part-{place}">{escape(part.title)}</h2>'
        if part.text:
            yield f"<p>{escape(part.text)}</p>"
        for chart in part.charts:
            yield _figure(chart, drawn)
            drawn += 1
        yield from map(_table, part.tables)
        yield "</section>"


def _figure(chart: Chart, number: int) -> str:
    import vl_convert  # noqa: PLC0415  # an optional extra

    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "config": CONFIG, "description": chart.text, **chart.spec}
    compiled = vl_convert.vegalite_to_vega(spec)
    data = json.dumps(compiled, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")  # no name ends the element
    return (
        f'<figure data-chart="{number}"><h3>{escape(chart.title)}</h3><div></div>'
        f'<script type="application/json">{data}</script><figcaption>{escape(chart.text)}</figcaption></figure>'
    )


def _table(section: Section) -> str:
    kinds = [' class="right"' if align == ">" else "" for align in section.align]
    header = "".join(f'<th scope="col"{kind}>{escape(column)}</th>' for column, kind in zip(section.columns, kinds, strict=True))
    rows = "".join(f"<tr>{''.join(_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True))}</tr>" for row in section.rows)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in section.notes)
    head = f"<thead><tr>{header}</tr></thead>" if any(section.columns) else ""
    title = escape(section.title)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{title}"><table><caption>{title}</caption>'
        f"{head}<tbody>{rows}</tbody></table></div>{notes}"
    )


def _cell(cell: str, kind: str) -> str:
    if len(cell) == BAR_CELLS and not cell.strip("#."):  # a bar of text, beside the number that it shows
        return f'<td><div class="gauge" aria-hidden="true"><div style="width: {cell.count("#") / BAR_CELLS:.0%}"></div></div></td>'
    return f"<td{kind}>{escape(cell)}</td>"
