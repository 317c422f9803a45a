"""How side_by_side shows figures, and what it takes from the command line."""

from __future__ import annotations

import argparse
import math
from io import StringIO

import pytest
from rich.console import Console
from side_by_side.__main__ import names, parser, positive, rate, title, workload_of
from side_by_side.figures import Figures
from side_by_side.machine import busy_ticks
from side_by_side.table import ratio, table, text
from side_by_side.wire import sockets_to
from side_by_side.workload import Workload, bound_pods, pending_pods

NET_TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 111 1 0 20 4 30 10 -1
   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 222 1 0 20 4 30 10 -1
"""


def some_figures(**known: float) -> Figures:
    return Figures(
        **{name: known.get(name, math.nan) for name in NUMBERS}, requests_by_kind_pod={"POST pods/binding": 1.0, "LIST pods": 0.001}
    )


NUMBERS = [name for name in Figures.__struct_fields__ if name != "requests_by_kind_pod"]


def lines(results: dict[str, Figures]) -> list[list[str]]:
    """Return the table's cells, row by row."""
    output = StringIO()
    Console(file=output, width=200).print(table("a title", results))
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in output.getvalue().splitlines()]


def test_a_row_has_the_figures_and_our_ratios_to_both_others() -> None:
    results = {
        "kube-scheduler": some_figures(whole_pods_s=400.0),
        "ours": some_figures(whole_pods_s=900.0),
        "null": some_figures(whole_pods_s=1200.0),
    }
    rows = lines(results)
    assert ["", "kube-scheduler", "ours", "null", "ours/kube-scheduler", "ours/null"] in rows
    assert ["pods/s, whole (start to last bind)", "400", "900", "1,200", "2.25", "0.75"] in rows


def test_what_only_some_know_is_a_dash_for_the_others_and_what_none_knows_is_left_out() -> None:
    rows = lines({"ours": some_figures(algorithm_mean_ms=0.05), "null": some_figures()})
    assert ["algorithm mean, ms", "0.050", "-", "-"] in rows
    assert not any(row[0].startswith("pods/s") for row in rows)


def test_kinds_of_requests_that_hardly_occur_are_left_out() -> None:
    rows = lines({"ours": some_figures()})
    assert ["POST pods/binding /pod", "1.00"] in rows
    assert not any("LIST" in row[0] for row in rows)


def test_there_is_no_ratio_to_nothing() -> None:
    assert ratio(3.0, 2.0) == 1.5
    assert text(ratio(3.0, 0.0), 2) == "-"
    assert text(ratio(math.nan, 2.0), 2) == "-"


def test_with_bound_pods_there_is_one_pending_pod_unless_more_are_asked_for() -> None:
    assert workload_of(parser().parse_args(["--bound", "50000"])) == Workload(nodes=5000, pods=1, bound=50_000)
    assert workload_of(parser().parse_args(["--bound", "5", "--pods", "7"])).pods == 7
    assert workload_of(parser().parse_args([])) == Workload(nodes=5000, pods=5000, sizes=16)


def test_the_title_says_what_was_asked_for() -> None:
    assert title(Workload(nodes=2, pods=3, rate=300.0, bound=4), 5).startswith(
        "2 nodes, 3 pods of 16 sizes at 300/s, 4 bound before, medians of 5"
    )


@pytest.mark.parametrize("given", ["0", "-1", "x", "1.5"])
def test_a_count_is_a_whole_number_of_at_least_one(given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="whole number"):
        positive(given)


@pytest.mark.parametrize("given", ["0", "-1", "x", "inf", "nan"])
def test_a_rate_is_a_positive_number(given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="pods a second"):
        rate(given)


def test_an_unknown_competitor_is_named() -> None:
    assert names("ours,null") == ["ours", "null"]
    with pytest.raises(argparse.ArgumentTypeError, match="'theirs': expected some of kube-scheduler, koord-scheduler, ours, ours-traced"):
        names("ours,theirs")


def test_pods_come_in_as_many_sizes_as_asked_for() -> None:
    pods = pending_pods(Workload(nodes=1, pods=40, sizes=16))
    assert len({pod.name for pod in pods}) == 40
    assert len({str(pod.body["spec"]["containers"][0]["resources"]) for pod in pods}) == 16


def test_bound_pods_are_spread_evenly() -> None:
    bodies = [pod.body for pod in bound_pods(Workload(nodes=2, pods=1, bound=4))]
    assert [body["spec"]["nodeName"] for body in bodies].count("node-1") == 2


def test_sockets_are_found_by_the_port_at_the_other_end() -> None:
    assert sockets_to(NET_TCP, 8080) == {"111"}
    assert sockets_to(NET_TCP, 8081) == set()


def test_the_machine_is_busy_with_all_but_idling_and_waiting_for_disks() -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    assert busy_ticks("cpu  1 2 4 1000 1000 8 16 32 500 500\ncpu0 9 9 9 9 9 9 9 9 9 9\n") == 63
