"""Pages of `simulate --report` in a real browser without a network, opened from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from support.browser import charts_of, complaints_of, needed_programs, opened_page
from support.report_input import write_input
from support.sweeping import SweepFiles

from koordsched.cli import main

OPENB = Path(os.environ.get("OPENB", "../shared/data/openb"))
LARGEST = 5_000_000
"""Bytes of a page, that of openb included."""
WIDEST = 1100


@pytest.fixture(autouse=True)
def browser() -> None:
    """Skip, or fail with CI set, before a page is made in vain."""
    needed_programs()


def page(tmp_path: Path, *arguments: str) -> Path:
    file = tmp_path / "page.html"
    assert main(["simulate", *arguments, "--report", str(file)]) == 0
    return file


def drawn(file: Path) -> list[dict[str, Any]]:
    """Return the charts of the page, once it is checked that each is drawn, fits, can be read aloud, and that nothing was complained of."""
    assert file.stat().st_size < LARGEST
    with opened_page(file) as driver:
        charts = charts_of(driver)
        assert complaints_of(driver) == []
        assert driver.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        loaded = driver.execute_script("return performance.getEntriesByType('resource').map(each => each.name)")
        assert [name for name in loaded if not name.startswith("data:")] == []
    assert charts
    for chart in charts:
        assert chart["marks"] > 0, chart
        assert any(text.strip() for text in chart["texts"]), chart
        assert chart["description"], chart
        assert chart["width"] < WIDEST, chart
    return charts


def test_the_page_of_a_run_shows_all_that_there_is(tmp_path: Path) -> None:
    charts = {chart["title"]: chart for chart in drawn(page(tmp_path, *write_input(tmp_path)))}
    assert list(charts) == [
        "Pods",
        "Allocation",
        "Free, but unusable",
        "Nodes at the fullest moment",
        "Nodes by allocated cpu over time",
        "Nodes by allocated memory over time",
        "GPUs by state",
        "GPUs by what is allocated of each",
        "GPUs over time",
        "Why pods are pending",
        "Quota tree: cpu",
        "Quota tree: memory",
        "Members of gangs",
        "Reserved cpu",
        "Reserved memory",
    ]
    assert charts["Pods"]["marks"] == 2
    assert charts["Nodes at the fullest moment"]["marks"] == 20, "cpu and memory of ten nodes"
    assert charts["GPUs by what is allocated of each"]["marks"] == 24
    assert charts["GPUs by state"]["marks"] == 3
    assert "virtual time in minutes" in charts["Pods"]["texts"]


def test_the_page_of_a_comparison_shows_both_runs(tmp_path: Path) -> None:
    config = Path(__file__).parents[2] / "examples/gpu-fragmentation/koord-scheduler-config.yaml"
    charts = {chart["title"]: chart for chart in drawn(page(tmp_path, *write_input(tmp_path), "--compare", str(config)))}
    assert list(charts)[:2] == ["Pending pods", "cpu allocated"]
    assert {"GPUs allocated", "GPUs free, but unusable", "Why pods are pending", "What namespaces are given"} <= charts.keys()
    for title in ("Pending pods", "GPUs allocated"):
        assert charts[title]["marks"] == 2
        assert {"base", "other"} <= set(charts[title]["texts"])


def test_the_page_of_a_sweep_shows_means_with_their_intervals(tmp_path: Path) -> None:
    file = tmp_path / "sweep.html"
    assert SweepFiles(tmp_path).run("out", "--workers", "1", "--report", str(file)) == 0
    charts = {chart["title"]: chart for chart in drawn(file)}
    assert charts["pods bound"]["marks"] == charts["cpu allocated"]["marks"] == 4, "a mean and an interval of two configurations"


def test_names_with_markup_stay_texts(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("name,cpu,memory\nn1,4,8Gi\n")
    (tmp_path / "pods.csv").write_text('name,cpu,scheduler\na,2,\nb,1,</script><script>document.title="x"</script>\n')
    arguments = ["--trace", "csv", "--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv")]
    file = page(tmp_path, *arguments)
    drawn(file)
    with opened_page(file) as driver:
        assert driver.title == "Simulation"


def test_the_page_can_be_used_with_the_keyboard_and_has_an_outline(tmp_path: Path) -> None:
    with opened_page(page(tmp_path, *write_input(tmp_path, pods=20))) as driver:
        driver.switch_to.active_element.send_keys(Keys.TAB)
        assert driver.switch_to.active_element.text == "Skip to the contents"
        driver.switch_to.active_element.send_keys(Keys.TAB)
        assert driver.switch_to.active_element.text == "Summary"
        levels = driver.execute_script("return [...document.querySelectorAll('h1, h2, h3')].map(each => each.tagName)")
        assert levels.count("H1") == 1
        assert "H2" in levels
        assert driver.execute_script("return document.documentElement.lang") == "en"
        assert driver.execute_script(
            "return [...document.querySelectorAll('nav a')].every(a => document.querySelector(a.getAttribute('href')))"
        )


def test_the_page_of_openb_is_small_enough_and_each_node_and_gpu_has_its_square(tmp_path: Path) -> None:
    nodes, pods = OPENB / "openb_node_list_all_node.csv", OPENB / "openb_pod_list_default.csv"
    if not nodes.is_file():
        pytest.skip(f"the trace is not at {OPENB}: set OPENB to the folder that holds it")
    arguments = ["--trace", "openb", "--nodes", str(nodes), "--pods", str(pods), "--order", "arrival"]
    charts = {chart["title"]: chart for chart in drawn(page(tmp_path, *arguments))}
    assert charts["Nodes by allocated cpu"]["marks"] == 1523
    assert charts["GPUs by what is allocated of each"]["marks"] == 6212
