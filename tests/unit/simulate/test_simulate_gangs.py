"""`simulate` on gangs: which are placed, which wait and why, and in how many domains of the network they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koordsched.cli import main

NODE = (
    "{apiVersion: v1, kind: Node, metadata: {name: n%d, labels: {block: b%d, rack: r%d}}, status: {allocatable: {cpu: '2', memory: 8Gi}}}"
)
GROUP = "{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s}, spec: {minMember: %d}}"
POD = (
    "{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {pod-group.scheduling.sigs.k8s.io: %s}}, resources: {requests: {cpu: '%s'}}}"
)
ANNOTATED = (
    "{apiVersion: v1, kind: Pod, metadata: {name: %s, annotations: {gang.scheduling.koordinator.sh/name: %s, "
    "gang.scheduling.koordinator.sh/min-available: '2'}}, resources: {requests: {cpu: '1'}}}"
)
TOPOLOGY = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {name: default}
spec:
  networkTopologySpec:
  - {topologyLayer: Block, labelKey: [block]}
  - {topologyLayer: Rack, parentTopologyLayer: Block, labelKey: [rack]}
  - {topologyLayer: NodeTopologyLayer, parentTopologyLayer: Rack}
"""
NODES = [NODE % (i, i // 4, i // 2) for i in range(8)]  # of 2 CPUs; 2 in each rack, 4 in each block


def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], documents: list[str], *flags: str) -> str:
    (tmp_path / "f.yaml").write_text("\n---\n".join(documents))
    assert main(["simulate", str(tmp_path / "f.yaml"), *flags]) == 0
    return capsys.readouterr().out


def gangs(text: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(text)["summary"]["coscheduling"]["gangs"]}


def two_gangs() -> list[str]:
    """Return a gang of 3 that has room, and one of 4 whose members are too large."""
    fits = [GROUP % ("fits", 3), *(POD % (f"f{i}", "fits", 2) for i in range(3))]
    return [*NODES, *fits, GROUP % ("large", 4), *(POD % (f"l{i}", "large", 9) for i in range(4))]


def test_each_gang_is_shown_with_what_became_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = gangs(simulated(tmp_path, capsys, two_gangs(), "-o", "json"))
    assert list(found) == ["default/fits", "default/large"]
    assert found["default/fits"] == {
        "name": "default/fits",
        "group": [],
        "min": 3,
        "members": 3,
        "placed": 3,
        "waiting": 0,
        "reason": "",
        "domains": {},
    }
    large = found["default/large"]
    assert [large[key] for key in ("min", "members", "placed", "waiting")] == [4, 4, 0, 4]
    assert "Insufficient cpu" in large["reason"]


def test_the_table_has_the_gangs_first_that_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = simulated(tmp_path, capsys, two_gangs(), "--show-gangs", "1")
    (line,) = [line for line in text.splitlines() if line.strip().startswith("default/")]
    assert line.split()[:5] == ["default/large", "4", "4", "0", "4"]
    assert "2 gangs, of which 1 have all their members placed." in text
    assert "1 more gangs; --show-gangs N lists more." in text
    assert "Gangs" not in simulated(tmp_path, capsys, two_gangs(), "--show-gangs", "0")


def test_gangs_of_annotations_and_members_that_are_missing_are_shown_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [*NODES, ANNOTATED % ("a0", "a"), ANNOTATED % ("a1", "a"), ANNOTATED % ("b0", "b")]
    found = gangs(simulated(tmp_path, capsys, documents, "-o", "json"))
    assert [(each["members"], each["placed"], each["waiting"]) for each in found.values()] == [(2, 2, 0), (1, 0, 1)]
    assert "child pod not collect enough" in found["default/b"]["reason"]


def test_domains_of_the_network_are_counted_by_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five members of 2 CPUs fill five nodes: both blocks, and three racks at least."""
    documents = [TOPOLOGY, *NODES, GROUP % ("g", 5), *(POD % (f"p{i}", "g", 2) for i in range(5))]
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}\n"
        "  pluginConfig: [{name: Coscheduling, args: {awareNetworkTopology: true}}]\n"
    )
    flags = ("--config", str(config))
    found = gangs(simulated(tmp_path, capsys, documents, "-o", "json", *flags))
    assert found["default/g"]["domains"]["Block"] == 2
    assert found["default/g"]["domains"]["Rack"] >= 3
    assert "2 Block, " in simulated(tmp_path, capsys, documents, *flags)


def test_without_gangs_there_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = "{apiVersion: v1, kind: Pod, metadata: {name: p}, resources: {requests: {cpu: '1'}}}"
    assert "coscheduling" not in simulated(tmp_path, capsys, [*NODES, plain], "-o", "json")
