"""The table that `simulate` prints."""

from __future__ import annotations

import io
import json

from koordsched.simulate.bands import band_section
from koordsched.simulate.result import BandSummary, Pending, Placement, Result, Summary
from koordsched.simulate.summary import ReportOptions, render, sections
from koordsched.simulate.terminal import ProgressBar, show

RESULT = Result(
    placements=[Placement(pod="default/a", node="n1", annotations={"k": "v"})],
    pending=[
        Pending(pod="default/b", reason="0/1 nodes are available: 1 Insufficient cpu. preemption: no."),
        Pending(pod="default/c", reason="0/1 nodes are available: 1 Insufficient cpu. preemption: no."),
        Pending(pod="default/d", reason="rejected: spec.x: bad"),
    ],
    summary=Summary(
        nodes=1, pods=4, bound=1, pending=3, seconds=0.25, decision_mean_micros=31.4, allocation={"cpu": 0.5, "memory": 0.0, "pods": 1.25}
    ),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def text(shown: int = 10, *, peak: bool = False) -> str:
    return render(sections(RESULT, ReportOptions(peak=peak, shown=shown)))


def test_json_has_the_keys_of_the_specification() -> None:
    assert json.loads(RESULT.json()) == {
        "placements": [{"pod": "default/a", "node": "n1", "annotations": {"k": "v"}}],
        "pending": [{"pod": pod.pod, "reason": pod.reason} for pod in RESULT.pending],
        "summary": {
            "nodes": 1,
            "pods": 4,
            "bound": 1,
            "pending": 3,
            "seconds": 0.25,
            "decisionMeanMicros": 31.4,
            "allocation": {"cpu": 0.5, "memory": 0.0, "pods": 1.25},
        },
    }


def test_plain_text_is_aligned_and_has_no_trailing_blanks() -> None:
    assert text() == (
        "Simulation\n"
        "----------\n"
        "nodes         1\n"
        "pods          4  all pods of the input\n"
        "bound         1  25.0 % of the pods found a node\n"
        "pending       3  75.0 % did not\n"
        "seconds     0.2  real time that the simulation took\n"
        "decision  31 µs  mean real time to choose a node for one pod\n"
        "\n"
        "Allocation\n"
        "----------\n"
        "resource    share  of the cluster\n"
        "cpu        50.0 %  ###############...............\n"
        "memory      0.0 %  ..............................\n"
        "pods      125.0 %  ##############################\n"
        "What the pods on nodes request at the end, as a share of what all nodes together can give (allocatable).\n"
        "\n"
        "Why pods are pending\n"
        "--------------------\n"
        "pods  for example  reasons\n"
        "   2  default/b    Insufficient cpu\n"
        "   1  default/d    rejected\n"
        "Insufficient cpu: these nodes have less free cpu than the pod requests.\n"
        "rejected: the API does not accept these pods as they are written; the lines on stderr say where.\n"
        "In full, for default/b: 0/1 nodes are available: 1 Insufficient cpu. preemption: no.\n"
    )


def test_reasons_beyond_the_limit_are_counted() -> None:
    assert "1 more reasons with 1 pods; --show-pending N lists more, -o json lists every pod." in text(shown=1)


def test_no_reasons_are_listed_when_none_are_asked_for() -> None:
    assert "Why pods are pending" not in text(shown=0)


def test_the_peak_is_called_the_peak() -> None:
    assert "request at the fullest moment" in text(peak=True)


def test_a_terminal_shows_the_same_cells() -> None:
    out = io.StringIO()
    show(sections(RESULT, ReportOptions()), out)
    for cell in ("Allocation", "50.0 %", "Insufficient cpu", "default/b", "rejected"):
        assert cell in out.getvalue()


def test_the_progress_bar_takes_any_count() -> None:
    err = Terminal()
    with ProgressBar(err) as bar:
        bar.update(1, 2)
        bar.update(2, 2)
    assert "2/2" in err.getvalue()


def test_bands_are_a_line_each_with_their_own_resources() -> None:
    bands = [
        BandSummary(band="koord-prod", pods=14, bound=13, pending=1, allocation={"cpu": 0.875, "memory": 0.1}),
        BandSummary(band="none", pods=1, bound=1, pending=0, allocation={}),
    ]
    assert render([band_section(bands)]).splitlines()[:5] == [
        "Priority bands",
        "--------------",
        "class       pods  bound  pending  requests",
        "koord-prod    14     13        1  cpu 87.5 %, memory 10.0 %",
        "none           1      1        0  -",
    ]
