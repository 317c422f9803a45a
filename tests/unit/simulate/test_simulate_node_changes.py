"""`simulate --add-nodes` and `--drain`: the same workload on more nodes, or without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordsched.cli import main

RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
OWNED: dict[str, Any] = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}]}
OF_DAEMON_SET: dict[str, Any] = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]
}


def node(name: str, cpu: str = "4", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi"}},
        **fields,
    }


def pod(name: str, cpu: str = "2", on: str = "", **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}
    placed = {**spec, "nodeName": on} if on else spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": placed}


class Run:
    """Runs of the command on one file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys
        self.notes = ""

    def code(self, objects: list[dict[str, Any]], *flags: str) -> tuple[int, str]:
        file = self._folder / "f.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        code = main(["simulate", str(file), "-o", "json", *flags])
        out, self.notes = self._capsys.readouterr()
        return code, out

    def __call__(self, objects: list[dict[str, Any]], *flags: str) -> Any:
        code, out = self.code(objects, *flags)
        assert code == 0, self.notes
        return json.loads(out)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capsys)


def where(result: Any) -> dict[str, str]:
    placed = {each["pod"].removeprefix("default/"): each["node"] for each in result["placements"]}
    return {**placed, **{each["pod"].removeprefix("default/"): "" for each in result["pending"]}}


# More nodes


def test_added_nodes_are_like_the_template_and_take_what_was_pending(run: Run) -> None:
    gpus = {"metadata": {"name": "n1"}, "kind": "Device", "apiVersion": "scheduling.koordinator.sh/v1alpha1", "gpus": "2"}
    there = node("n1", metadata={"name": "n1", "labels": {"pool": "a"}}, spec={"unschedulable": True})
    there["status"]["allocatable"]["koordinator.sh/gpu"] = "200"
    wants = pod("wants")
    wants["spec"] |= {"nodeSelector": {"pool": "a"}}
    wants["spec"]["containers"][0]["resources"]["requests"]["koordinator.sh/gpu"] = "200"
    same = {**wants, "metadata": {"name": "same"}}
    objects = [there, gpus, wants, same]
    assert where(run(objects)) == {"wants": "", "same": ""}  # the node is cordoned
    assert where(run(objects, "--add-nodes", "n1=1")) == {"wants": "n1-added-1", "same": ""}
    found = run(objects, "--add-nodes", "n1=2")
    assert where(found) == {"wants": "n1-added-1", "same": "n1-added-2"} or where(found) == {"wants": "n1-added-2", "same": "n1-added-1"}
    assert found["summary"]["nodes"] == 3


def test_added_nodes_have_none_of_the_pods_and_may_be_asked_for_twice(run: Run) -> None:
    objects = [node("n1"), pod("there", "4", on="n1"), node("n1-added-1", "1"), *(pod(f"p{i}", "4") for i in range(3))]
    found = run(objects, "--add-nodes", "n1=2", "--add-nodes", "n1=1")
    assert found["summary"]["nodes"] == 5
    placed = where(found)
    assert placed.pop("there") == "n1"
    assert sorted(placed.values()) == ["n1-added-2", "n1-added-3", "n1-added-4"]  # n1-added-1 was there already, and is small


def test_options_that_describe_nodes_describe_added_ones_too(run: Run) -> None:
    own = pod("own", "4", labels={"koordinator.sh/qosClass": "LSR"})
    objects = [node("n1", "8"), pod("there", "8", on="n1"), own]
    (placement,) = [each for each in run(objects, "--add-nodes", "n1=1", "--cpu-topology", "1x2x2x2")["placements"] if "own" in each["pod"]]
    assert placement["node"] == "n1-added-1"
    assert json.loads(placement["annotations"][RESOURCE_STATUS]) == {"cpuset": "0-3"}


def test_a_template_that_is_not_there_is_named(run: Run) -> None:
    assert run.code([node(f"n{i}") for i in range(5)], "--add-nodes", "x=1")[0] == 1
    assert run.notes == "--add-nodes: the input has no node x; it has n0, n1, n2 and 2 more\n"


@pytest.mark.parametrize("text", ["n1", "n1=0", "n1=x", "=3", "n1=-1"])
def test_a_number_of_nodes_that_is_none_is_a_mistake_of_the_command_line(run: Run, text: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run([node("n1")], "--add-nodes", text)
    assert ended.value.code == 2


def test_a_template_with_malformed_is_refused_as_the_node_itself_is(run: Run) -> None:
    malformed = [node("a", spec=["x"]), node("b", spec={"taints": ["x"]}), node("c", spec={"taints": {"x": 1}})]
    found = run([*malformed, node("d")], *(f"--add-nodes={name}=1" for name in "abc"))
    assert found["summary"]["nodes"] == 1
    for name in "abc":
        assert f"Node {name}: spec" in run.notes
        assert f"Node {name}-added-1: spec" in run.notes


# Drained nodes


def test_pods_of_a_drained_node_go_elsewhere_or_wait(run: Run) -> None:
    objects = [node("n1"), node("n2"), pod("a", on="n1", **OWNED), pod("b", on="n1", **OWNED), pod("c", on="n2"), pod("new", "1")]
    assert where(run(objects))["new"] == "n2"
    found = where(run(objects, "--drain", "n1"))
    assert found == {"a": "n2", "b": "", "c": "n2", "new": ""}  # drained pods come before new ones
    assert run.notes == ""


def test_pods_of_daemon_sets_and_mirror_pods_stay(run: Run) -> None:
    static = pod("static", "1", on="n1", annotations={"kubernetes.io/config.mirror": "x"})
    objects = [node("n1"), node("n2"), pod("agent", "1", on="n1", **OF_DAEMON_SET), static, pod("a", "1", on="n1", **OWNED)]
    assert where(run(objects, "--drain", "n1")) == {"agent": "n1", "static": "n1", "a": "n2"}


def test_what_the_scheduler_had_given_a_pod_is_given_anew(run: Run) -> None:
    held = {"annotations": {RESOURCE_STATUS: '{"cpuset": "4-7"}', "mine": "x"}, "labels": {"koordinator.sh/qosClass": "LSR"}, **OWNED}
    taken = {"annotations": {RESOURCE_STATUS: '{"cpuset": "4-7"}'}, "labels": {"koordinator.sh/qosClass": "LSR"}}
    objects = [node("n1", "8"), node("n2", "8"), pod("own", "4", on="n1", **held), pod("other", "4", on="n2", **taken)]
    found = run(objects, "--drain", "n1", "--cpu-topology", "1x2x2x2")
    (placement,) = [each for each in found["placements"] if each["pod"] == "default/own"]
    assert placement["node"] == "n2"
    assert json.loads(placement["annotations"][RESOURCE_STATUS]) == {"cpuset": "0-3"}
    assert "mine" not in placement["annotations"]  # it was there before


def test_a_pod_that_is_being_deleted_does_not_come_again(run: Run) -> None:
    objects = [node("n1"), node("n2"), pod("gone", on="n1", deletionTimestamp="2026-11-01T00:00:00Z", **OWNED)]
    assert where(run(objects, "--drain", "n1")) == {}


def test_several_nodes_can_be_drained_while_others_are_added(run: Run) -> None:
    objects = [node("n1"), node("n2"), pod("a", "4", on="n1", **OWNED), pod("b", "4", on="n2", **OWNED)]
    found = where(run(objects, "--drain", "n1", "--drain", "n2", "--add-nodes", "n1=1"))
    assert sorted(found.values()) == ["", "n1-added-1"]


def test_what_a_real_drain_would_stumble_over_is_noted(run: Run) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    pods = [pod(f"p{i}", "1", on="n1", labels={"app": "x"}, **OWNED) for i in range(2)] + [pod("bare", "1", on="n1")]
    run([node("n1"), node("n2"), budget | {"status": {"disruptionsAllowed": 1}}, *pods], "--drain", "n1")
    assert run.notes.splitlines() == [
        "note: --drain: 1 of the pods have no controller that makes them again, default/bare for example",
        "note: --drain: PodDisruptionBudget default/pdb allows 1 of 2 evictions; a drain would wait",
    ]
    run([node("n1"), node("n2"), budget | {"status": {"disruptionsAllowed": 2}}, *pods[:2]], "--drain", "n1")
    assert run.notes == ""
    run([node("n1"), node("n2"), budget, *pods[:2]], "--drain", "n1")  # nothing counted how many may go
    assert run.notes == ""


def test_a_node_that_cannot_be_drained_is_named(run: Run) -> None:
    assert run.code([node("n1")], "--drain", "x")[0] == 1
    assert run.notes == "--drain: the input has no node x; it has n1\n"
    assert run.code([pod("a")], "--drain", "x")[0] == 1
    assert run.notes == "--drain: the input has no node x; it has none\n"
