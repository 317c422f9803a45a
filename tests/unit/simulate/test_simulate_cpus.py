"""`simulate --cpu-topology`: nodes that are only thought of have CPUs, and pods get them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koordsched.cli import main

NODE = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '8', memory: 8Gi}}}"
POD = (
    "{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {koordinator.sh/qosClass: %s}}, "
    "spec: {containers: [{name: m, resources: {requests: {cpu: '%d'}}}]}}"
)


def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    documents = [NODE, POD % ("own", "LSR", 4), POD % ("shared", "LS", 1), POD % ("large", "LSR", 4)]
    (tmp_path / "f.yaml").write_text("\n---\n".join(documents))
    assert main(["simulate", str(tmp_path / "f.yaml"), *flags]) == 0
    return capsys.readouterr().out


def test_pods_get_cpus_of_the_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result: Any = json.loads(simulated(tmp_path, capsys, "--cpu-topology", "1x2x2x2", "-o", "json"))
    own = next(placement for placement in result["placements"] if placement["pod"] == "default/own")
    assert json.loads(own["annotations"]["scheduling.koordinator.sh/resource-status"]) == {"cpuset": "0-3"}
    assert [pending["pod"] for pending in result["pending"]] == ["default/large"]
    numa_nodes = [{"node": 0, "cpus": 4, "bound": 4}, {"node": 1, "cpus": 4, "bound": 0}]
    assert result["summary"]["cpus"] == {"total": 8, "bound": 4, "pods": 1, "podsOnOneNumaNode": 1, "numaNodes": numa_nodes}


def test_the_table_names_their_holders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "default/own  n1    0-3   0\n" in simulated(tmp_path, capsys, "--cpu-topology", "1x2x2x2")


def test_without_a_layout_no_pod_can_bind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result: Any = json.loads(simulated(tmp_path, capsys, "-o", "json"))
    assert [placement["pod"] for placement in result["placements"]] == ["default/shared"]
    assert "node(s) invalid CPU Topology" in result["pending"][0]["reason"]
    assert "cpus" not in result["summary"]


def test_a_layout_that_is_none_is_a_mistake_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "f.yaml", "--cpu-topology", "2x2"])
    assert ended.value.code == 2
    assert "argument --cpu-topology: '2x2': expected SOCKETSxNUMAxCORESxTHREADS" in capsys.readouterr().err
