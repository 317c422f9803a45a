"""What the cluster was used for over virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.builders import pod

from koordsched.cli import main
from koordsched.simulate.pod_history import PodChange, PodHistory
from koordsched.simulate.usage import MOST_SAMPLES, sample_points

NODES = "name,cpu,memory,gpu\nn1,4,8Gi,2\nn2,4,8Gi,\n"
PODS = "name,arrival,duration,cpu,memory,gpu\na,0,100,3,4Gi,1\nb,10,100,3,4Gi,0.5\nc,20,50,3,1Gi,\nlast,200,1,1,1Gi,\n"


def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], pods: str, *arguments: str) -> Any:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(pods)
    files = ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv")]
    assert main(["simulate", "--trace", "csv", *files, "-o", "json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def at(usage: Any, seconds: float) -> int:
    return max(place for place, moment in enumerate(usage["seconds"]) if moment <= seconds)


def test_the_series_say_what_is_allocated_and_who_waits_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Only n1 has GPUs, so that b waits for a to end; c runs on n2.
    usage = simulated(tmp_path, capsys, PODS)["usage"]
    before, between, after = at(usage, 5), at(usage, 25), at(usage, 150)
    assert [usage["running"][place] for place in (before, between, after)] == [1, 2, 1]
    assert [usage["pending"][place] for place in (before, between, after)] == [0, 1, 0]
    assert [usage["allocation"]["cpu"][place] for place in (before, between, after)] == [0.375, 0.75, 0.375]
    gpus = usage["units"]["gpu"]
    assert [gpus["allocation"][place] for place in (before, between, after)] == [0.5, 0.5, 0.25]
    assert [(gpus["idle"][place], gpus["partly"][place], gpus["full"][place]) for place in (before, after)] == [(1, 0, 1), (1, 1, 0)]
    assert usage["running"][-1] == usage["pending"][-1] == 0
    assert usage["changes"][-1] == 8


def test_the_last_sample_equals_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = simulated(tmp_path, capsys, PODS, "--order", "arrival")
    usage, summary = result["usage"], result["summary"]
    assert {name: shares[-1] for name, shares in usage["allocation"].items()} == summary["allocation"]
    assert {name: shares[-1] for name, shares in usage["unusable"].items()} == summary["unusable"]
    assert usage["pending"][-1] == summary["pending"]
    gpus = {name: column[-1] for name, column in usage["units"]["gpu"].items()}
    assert gpus.items() >= {name: summary["gpu"][name] for name in ("idle", "partly", "allocation", "unusable")}.items()


def changes(count: int, step: float) -> list[PodChange]:
    """Return what happens when pods come and are bound, one every so many seconds."""
    now = [0.0]
    history = PodHistory(now=lambda: now[0])
    for number in range(count):
        now[0] = number * step
        history.put(pod(f"p{number}").on("n1").build())
    return history.changes


@pytest.mark.parametrize("timed", [True, False])
def test_the_number_of_samples_is_bounded_and_the_last_one_sees_everything(timed: bool) -> None:
    found = changes(5000, 7.0)
    points = sample_points(found, 0.0, timed=timed)
    assert len(points) <= MOST_SAMPLES + 2
    assert points[-1] == (4999 * 7.0, len(found))
    assert points == sorted(points)


def test_of_a_short_run_every_moment_is_a_sample() -> None:
    assert sample_points(changes(3, 5.0), 0.0, timed=True) == [(0.0, 2), (5.0, 4), (10.0, 6)]


def test_where_all_come_at_once_the_samples_follow_the_decisions() -> None:
    points = sample_points(changes(3, 0.0), 0.0, timed=False)
    assert [count for _, count in points] == [1, 2, 4, 6]


def test_a_run_without_pods_has_no_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulated(tmp_path, capsys, "name\n")["usage"]["seconds"] == []
