"""Layouts in short, and the NodeResourceTopologies that are made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.topology import CPU_TOPOLOGY
from koordsched.manifests.completion import complete_node
from koordsched.manifests.objects import Manifest
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, complete_topology, topology_manifest
from koordsched.plugins.nodenumaresource.tooling import TOOLING
from koordsched.simulate.manifests import load_manifests
from koordsched.simulate.workload import Workload

SHORT = "kind: NodeResourceTopology\napiVersion: topology.node.k8s.io/%s\nmetadata: {name: n1}\ncpuTopology: %s\n"


def places(layout: str) -> list[tuple[int, int, int, int]]:
    return [(cpu["id"], cpu["core"], cpu["node"], cpu["socket"]) for cpu in CpuLayout.parse(layout).details()]


def node(name: str, cpu: str = "4", memory: str = "8Gi") -> Manifest:
    allocatable = {"cpu": cpu, "memory": memory}
    return Manifest("f", NODE, complete_node({"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}))


def amounts(zones: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    return {zone["name"]: {resource["name"]: resource["allocatable"] for resource in zone["resources"]} for zone in zones}


def test_threads_of_a_core_are_neighbours() -> None:
    assert places("2x1x1x2") == [(0, 0, 0, 0), (1, 0, 0, 0), (2, 1, 1, 1), (3, 1, 1, 1)]


def test_linux_numbers_all_first_threads_first() -> None:
    assert places("2x1x1x2,linux") == [(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 0, 0), (3, 1, 1, 1)]


def test_numa_nodes_are_counted_over_the_sockets() -> None:
    assert [(numa, socket) for _, _, numa, socket in places("2x2x1x1")] == [(0, 0), (1, 0), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2x2x26", "expected SOCKETSxNUMAxCORESxTHREADS such as 2x2x26x2, and maybe ,linux after it"),
        ("2x2x26x2,windows", "expected SOCKETSxNUMAxCORESxTHREADS such as 2x2x26x2, and maybe ,linux after it"),
        ("2x2x0x2", "expected at least 1 of each"),
        ("4x4x256x2", "8192 CPUs, expected at most 4096"),
        ("13x5x1x1", "65 NUMA nodes, expected at most 64"),
    ],
)
def test_what_is_no_layout_is_named(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        CpuLayout.parse(text)


def test_memory_is_shared_out_over_the_numa_nodes() -> None:
    made = topology_manifest("n1", CpuLayout.parse("2x2x2x2"), memory=4096)
    assert amounts(made["zones"]) == {f"node-{numa}": {"cpu": "4", "memory": "1024"} for numa in range(4)}


def test_a_short_topology_keeps_what_it_says_itself() -> None:
    zones = [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "allocatable": "3"}]}]
    made = complete_topology({"metadata": {"name": "n1", "annotations": {"a": "b"}}, "cpuTopology": "1x1x1x1", "zones": zones})
    assert made["metadata"]["annotations"] == {CPU_TOPOLOGY: '{"detail":[{"id":0,"core":0,"socket":0,"node":0}]}', "a": "b"}
    assert made["zones"][0]["resources"] == [{"name": "cpu", "capacity": "3", "allocatable": "3", "available": "3"}]
    assert "cpuTopology" not in made


def test_a_full_topology_is_left_as_it_is() -> None:
    body = {"apiVersion": "a/v1", "topologyPolicies": ["x"], "zones": [{"name": "node-0", "resources": "none"}], "metadata": {"name": "n1"}}
    assert complete_topology(body) == body


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_a_topology_of_either_version_is_read(version: str, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(SHORT % (version, "1x2x4x2"))
    (topology,) = load_manifests([str(tmp_path / "f.yaml")], ["koord-scheduler"]).existing
    assert (topology.kind, topology.body["apiVersion"]) == (NODE_RESOURCE_TOPOLOGY, "topology.node.k8s.io/v1alpha1")
    assert len(json.loads(topology.body["metadata"]["annotations"][CPU_TOPOLOGY])["detail"]) == 16


def test_a_layout_that_is_none_costs_its_object_a_line(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(SHORT % ("v1alpha1", "1x2x4"))
    workload = load_manifests([str(tmp_path / "f.yaml")], ["koord-scheduler"])
    assert workload.existing == []
    (rejection,) = workload.rejected
    assert "NodeResourceTopology n1: cpuTopology: '1x2x4': expected SOCKETSxNUMAxCORESxTHREADS" in rejection.line


def test_nodes_that_nothing_is_said_of_get_the_layout_of_the_flag() -> None:
    (option,) = TOOLING.node_options
    own = Manifest("f", NODE_RESOURCE_TOPOLOGY, topology_manifest("described", CpuLayout.parse("1x1x1x1")))
    workload = Workload(existing=[node("described"), node("n1"), node("odd", cpu="abc", memory="-"), own])
    workload.give_nodes(option, option.parse("1x2x1x2"))
    made = {manifest.key: manifest.body for manifest in workload.existing if manifest.kind is NODE_RESOURCE_TOPOLOGY}
    assert list(made) == ["described", "n1", "odd"]
    assert made["described"] is own.body
    assert amounts(made["n1"]["zones"]) == {f"node-{numa}": {"cpu": "2", "memory": str(4 << 30)} for numa in range(2)}
    assert amounts(made["odd"]["zones"]) == {f"node-{numa}": {"cpu": "2"} for numa in range(2)}
    assert workload.notes == ["note: 1 of 2 nodes offer another number of CPUs than the 4 of --cpu-topology, odd for example"]
