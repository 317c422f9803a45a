"""The HTML page of `simulate --report`, but for what only a browser shows (tests/browser)."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from koordsched.cli import main
from koordsched.framework.tooling import Section
from koordsched.simulate.report.charts import MOST_CELLS, Axis, band_map, cells, time_axis
from koordsched.simulate.report.comparison_page import _holding
from koordsched.simulate.report.page import Chart, Number, Page, PagePart, page_html
from koordsched.simulate.report.run_page import merged

DEMO = str(Path(__file__).parents[3] / "examples/demo")
VOID = {"meta", "link"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and notes what they are and what would be loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.seen: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in {"src", "href"} and not (value or "").startswith(("#", "data:"))]
        if tag not in VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag


def specs_of(text: str) -> list[Any]:
    return [json.loads(found) for found in re.findall(r'<script type="application/json">(.*?)</script>', text)]


def test_a_page_holds_all_that_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    assert main(["simulate", DEMO, "--report", str(file)]) == 0
    assert capsys.readouterr().out.startswith("Simulation\n"), "the table is printed, too"
    outline = Outline(file.read_text())
    assert outline.opened == []
    assert outline.loaded == []
    assert outline.seen.count("figure") == len(specs_of(file.read_text())) > 5
    assert not any("url" in data for spec in specs_of(file.read_text()) for data in spec["data"])


def small(*parts: PagePart) -> str:
    return page_html(Page("A <title>", "Of a & b.", [Number("pods", "3")], parts))


def test_texts_are_texts_and_bars_have_a_width() -> None:
    section = Section(title="<T>", columns=("name", "share"), align="<<", rows=[("<b>&", "#" * 15 + "." * 15)], notes=["</main>"])
    text = small(PagePart("P", tables=[section]))
    assert Outline(text).opened == []
    assert "<td>&lt;b&gt;&amp;</td>" in text
    assert 'style="width: 50%"' in text
    assert "<script>" not in text, "there is nothing to draw"


def test_parts_without_contents_are_left_out() -> None:
    assert "Empty" not in small(PagePart("Empty"), PagePart("Full", tables=[Section(title="T", columns=("a",), align="<", rows=[("1",)])]))


def test_a_chart_that_cannot_be_drawn_is_found_when_the_page_is_made() -> None:
    with pytest.raises(ValueError, match="conversion failed"):
        small(PagePart("P", charts=[Chart("C", "of nothing", {"mark": {"type": "no such mark"}, "encoding": {}})]))


@pytest.mark.parametrize(
    ("seconds", "title", "last"),
    [(299, "seconds", 299), (600, "minutes", 10), (4 * 3600, "hours", 4), (30 * 86400, "days", 30)],
)
def test_time_is_shown_in_a_unit_that_suits_it(seconds: float, title: str, last: float) -> None:
    axis = time_axis([0.0, seconds])
    assert (axis.title, axis.values[-1]) == (f"virtual time in {title}", last)


def test_columns_that_say_the_same_are_one_line() -> None:
    found = merged({"a": [1, 2], "b": [3, 4], "c": [1, 2]})
    assert {name: list(column) for name, column in found.items()} == {"a, c": [1, 2], "b": [3, 4]}


def test_very_many_squares_are_drawn_together() -> None:
    values = cells([(f"n{number}", number % 2) for number in range(2 * MOST_CELLS)], "node")["data"]["values"]
    assert len(values) == MOST_CELLS
    assert (values[0]["name"], values[0]["share"]) == ("n0 and 1 more", 0.5)


def test_the_columns_of_a_heat_map_follow_each_other_to_the_end() -> None:
    values = band_map(Axis("t", [0.0, 1.0, 5.0]), [[2, 0], [1, 1], [0, 2]], "nodes")["data"]["values"]
    found = {(value["from"], value["to"]): value["count"] for value in values if value["band"] == "100 %"}
    assert list(found.values()) == [1, 2]
    assert [start for start, _ in found] == [1.0, 5.0]
    assert next(iter(found))[1] == 5.0


def test_runs_with_other_samples_are_compared_at_the_samples_of_both() -> None:
    assert _holding([0.0, 2.0], [0.0, 1.0, 2.0, 3.0]) == [0, 0, 1, 1]


def test_without_the_library_nothing_is_simulated_and_it_is_said_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["simulate", DEMO, "--report", str(tmp_path / "page.html")]) == 1
    ran = capsys.readouterr()
    assert (ran.out, ran.err) == ("", "--report needs the package vl-convert-python: pip install 'koordsched[report]'\n")


def test_a_page_that_cannot_be_written_is_said_after_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nowhere" / "page.html"
    assert main(["simulate", DEMO, "--report", str(file)]) == 1
    ran = capsys.readouterr()
    assert ran.out.startswith("Simulation\n")
    assert ran.err == f"{file}: cannot be written: No such file or directory\n"
