"""examples/coscheduling: where the jobs of the usual operators go (docs/plugins/coscheduling.md)."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from koordsched.cli import main

EXAMPLE = Path(__file__).parents[3] / "examples" / "coscheduling"


def test_each_job_is_placed_as_its_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(EXAMPLE), "-o", "json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    nodes: dict[str, dict[str, str]] = defaultdict(dict)
    for placed in outcome["placements"]:
        name = placed["pod"].removeprefix("default/")
        nodes[name.split("-")[0]][name] = placed["node"]
    blocks = {job: {node.split("-")[0] for node in found.values()} for job, found in nodes.items()}
    assert {job: len(found) for job, found in nodes.items()} == {"bert": 8, "mpi": 4, "ray": 3, "etl": 3, "llm": 4}
    assert len(blocks["bert"]) == len(blocks["llm"]) == 1, "MustGather Block"
    assert len(blocks["mpi"]) == 1, "the smallest domain that takes all of them is a block"
    mpi = nodes["mpi"]
    assert mpi["mpi-0"] == mpi["mpi-1"] != mpi["mpi-2"] == mpi["mpi-3"], "ranks that follow each other share nodes"
    assert {pending["pod"] for pending in outcome["pending"]} == {
        "default/rl-driver-0-0",
        "default/rl-workers-0-0",
        "default/rl-workers-0-1",
    }


def test_only_the_operators_own_objects_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(EXAMPLE)]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert {line.split()[4] for line in notes} == {"JobSet", "RayCluster", "LeaderWorkerSet", "Job", "PyTorchJob"}
    assert all("left out: 1 " in line for line in notes)
