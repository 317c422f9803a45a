"""`simulate --compare`: one input under two configurations."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from koordsched.cli import main
from koordsched.simulate.fairness import NamespaceCount, jain_index
from koordsched.simulate.fragmentation import unusable


def config(strategy: str, *profiles: str) -> dict[str, Any]:
    """Return a configuration that has one scorer, NodeResourcesFit, and looks at CPUs only."""
    fit = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    names = {
        "queueSort": "PrioritySort",
        "preFilter": "NodeResourcesFit",
        "filter": "NodeResourcesFit",
        "score": "NodeResourcesFit",
        "bind": "DefaultBinder",
    }
    points = {point: {"enabled": [{"name": name}]} for point, name in names.items()}
    plugins = {"multiPoint": {"disabled": [{"name": "*"}]}, **points}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": name, "plugins": plugins, "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}]}
            for name in profiles or ("koord-scheduler",)
        ],
    }


def node(name: str, cpu: str = "4", memory: str = "8Gi") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": memory}}}


def pod(name: str, cpu: str, namespace: str = "default") -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]},
    }


INPUT = [node("n1"), node("n2"), pod("a", "2"), pod("b", "2"), pod("c", "4", "tenant")]
"""Packed, the two small pods leave a node to the large one; spread, they do not."""


class Run:
    """Runs of the command on one file, with configurations `spread` and `pack`."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys
        self.notes = ""
        for name, strategy in {"spread": "LeastAllocated", "pack": "MostAllocated"}.items():
            self.write(name, config(strategy))

    def write(self, name: str, *documents: dict[str, Any]) -> str:
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        return str(file)

    def path(self, name: str) -> str:
        return str(self._folder / f"{name}.yaml")

    def text(self, objects: list[dict[str, Any]], *flags: str, base: str = "spread", other: str = "pack") -> str:
        inputs = self.write("input", *objects)
        code = main(["simulate", inputs, "--config", self.path(base), "--compare", self.path(other), *flags])
        out, self.notes = self._capsys.readouterr()
        assert code == 0, self.notes
        return out

    def json(self, objects: list[dict[str, Any]], *flags: str, other: str = "pack") -> Any:
        return json.loads(self.text(objects, "-o", "json", *flags, other=other))


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capsys)


def test_pods_that_only_one_configuration_places_or_that_move_are_listed(run: Run) -> None:
    found = run.json(INPUT)
    assert found["base"]["config"] == run.path("spread")
    assert found["other"]["config"] == run.path("pack")
    assert [found[key]["summary"]["bound"] for key in ("base", "other")] == [2, 3]
    (moved,) = [each for each in found["differences"] if each["pod"] == "tenant/c"]
    assert moved["base"].keys() == {"reason"}
    assert moved["base"]["reason"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert moved["other"]["node"] in {"n1", "n2"}
    counts = found["placements"]
    assert (counts["onlyBase"], counts["onlyOther"], counts["neither"]) == (0, 1, 0)
    assert counts["sameNode"] + counts["otherNode"] == 2
    assert len(found["differences"]) == 1 + counts["otherNode"]


def test_the_table_has_both_runs_and_their_difference(run: Run) -> None:
    lines = [line.split("  ") for line in run.text(INPUT).splitlines()]
    rows = {cells[0]: [cell.strip() for cell in cells[1:] if cell.strip()] for cells in lines}
    assert rows["pods bound"] == ["2", "3", "+1"]
    assert rows["cpu allocated"] == ["50.00 %", "100.00 %", "+50.00"]
    assert rows["cpu free, but unusable"] == ["16.67 %", "0.00 %", "-16.67"], "a third of the pods asks for a whole node"
    assert rows["fairness between namespaces"] == ["50.00 %", "100.00 %", "+50.00"]
    assert rows["placed by other only"] == ["1", "33.3 %"]
    assert rows["Insufficient cpu"] == ["1", "0"]
    assert rows["tenant"] == ["cpu", "0.0 %", "100.0 %"]


def test_a_configuration_compared_with_itself_differs_in_nothing(run: Run) -> None:
    found = run.json(INPUT, other="spread")
    assert found["differences"] == []
    assert found["placements"] == {"sameNode": 2, "otherNode": 0, "onlyBase": 0, "onlyOther": 0, "neither": 1}
    for key in ("seconds", "decisionMeanMicros"):
        del found["base"]["summary"][key], found["other"]["summary"][key]
    assert found["base"] == found["other"]


def test_standard_input_is_read_once(run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump_all(INPUT).encode())))
    assert main(["simulate", "-", "--config", run.path("spread"), "--compare", run.path("pack"), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[key]["summary"]["pods"] for key in ("base", "other")] == [3, 3]


def test_pods_that_name_no_scheduler_are_for_the_first_profile_of_each_configuration(run: Run) -> None:
    run.write("named", config("MostAllocated", "mine"))
    assert run.json(INPUT, other="named")["placements"]["onlyOther"] == 1


def test_what_is_wrong_with_the_input_is_said_once(run: Run) -> None:
    run.json([*INPUT, pod("bad", "x")])
    assert run.notes.count("Pod default/bad") == 1


def test_a_mistake_in_the_second_configuration_ends_the_command(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = run.write("wrong", {**config("MostAllocated"), "kind": "Nothing"})
    assert main(["simulate", run.write("input", *INPUT), "--compare", wrong]) == 1
    assert "Nothing" in capsys.readouterr().err


def test_lists_are_as_long_as_the_options_say(run: Run) -> None:
    assert "Pods placed differently" not in run.text(INPUT, "--show-differences", "0")
    large = [node("n3", "8"), pod("d", "8", "tenant"), pod("e", "100")]
    short = run.text([*INPUT, *large], "--show-differences", "1", "--show-pending", "1")
    assert "1 more namespaces; --show-pending N lists more." in short
    assert "Namespaces" not in run.text(INPUT, "--show-pending", "0")


@pytest.mark.parametrize(("shares", "index"), [([1.0, 1.0], 1.0), ([1.0, 0.0], 0.5), ([0.5, 0.25], 0.9), ([0.0, 0.0], 1.0)])
def test_jains_index(shares: list[float], index: float) -> None:
    assert jain_index(shares) == pytest.approx(index)


def test_a_namespace_is_judged_by_the_resource_of_which_it_asks_for_the_largest_share() -> None:
    count = NamespaceCount()
    count.add("a", {"cpu": 1000, "memory": 900}, bound=True)
    count.add("a", {"cpu": 5000}, bound=False)
    count.add("b", {"memory": 100}, bound=True)
    found = count.fairness({"cpu": 100_000, "memory": 1000, "pods": 110})
    assert found is not None
    assert [(each.namespace, each.resource, each.served, each.pods, each.pending) for each in found.namespaces] == [
        ("a", "memory", 1.0, 2, 1),
        ("b", "memory", 1.0, 1, 0),
    ]


class Free:
    """A node of which so much is free."""

    node = object()

    def __init__(self, cpu: int, memory: int, pods: int) -> None:
        self._amounts = {"cpu": cpu, "memory": memory, "pods": pods}

    def allocatable(self, name: str) -> int:
        return self._amounts[name] + 7

    def requested(self, _name: str) -> int:
        return 7


AMOUNT = st.integers(-2, 6)


@pytest.mark.hypothesis
@given(
    nodes=st.lists(st.tuples(AMOUNT, AMOUNT, st.integers(0, 2)), max_size=5),
    asked=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6),
)
def test_unusable_is_the_mean_of_what_is_free_where_a_pod_does_not_fit(
    nodes: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    found = unusable([Free(*node) for node in nodes], Counter(asked), {"cpu": 50, "memory": 40})  # type: ignore[misc]
    for index, (name, offered) in enumerate({"cpu": 50, "memory": 40}.items()):
        asking = [request for request in asked if request[index]]
        wasted = [
            max(node[index], 0)
            for request in asking
            for node in nodes
            if not (max(node[0], 0) >= request[0] and max(node[1], 0) >= request[1] and node[2] >= 1)
        ]
        if asking and nodes:
            assert found[name] == pytest.approx(sum(wasted) / len(asking) / offered, abs=1e-6)
        else:
            assert name not in found
