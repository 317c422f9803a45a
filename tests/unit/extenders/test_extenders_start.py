"""Settings of an extender that cannot work are reported in one line, whichever way the scheduler is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from koordsched.cli import main

SAID = "extenders[0].tlsConfig.caFile: /nowhere/ca: No such file or directory"
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
EXTENDER = {"urlPrefix": "https://e", "filterVerb": "filter", "tlsConfig": {"caFile": "/nowhere/ca"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1"}}}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**HEADER, "extenders": [EXTENDER]}), encoding="utf-8")
    return str(path)


def test_a_simulation_ends_with_the_line(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps(NODE), encoding="utf-8")
    assert main(["simulate", "--config", config, str(nodes)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == SAID


def test_scenarios_end_with_the_line(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"name": "s", "why": "w", "given": [NODE], "steps": [{"wait": "1s"}]}), encoding="utf-8")
    assert main(["test", "--config", config, str(scenario)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == SAID
