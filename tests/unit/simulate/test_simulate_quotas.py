"""`simulate` on ElasticQuotas: the tree of quotas, and what each has at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koordsched.cli import main
from koordsched.plugins.elasticquota import reasons
from koordsched.simulate.summary import meaning

TREE = Path(__file__).parents[3] / "examples" / "quota-manifests" / "tree" / "cluster.yaml"
PREFIX = "quota.scheduling.koordinator.sh/"
NODE = "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '10', memory: 10Gi}}}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {" + PREFIX + "name: %s}}, resources: {requests: {cpu: '%s'}}}"
BY_MAX = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {preFilter: {enabled: [{name: ElasticQuota}]}, reserve: {enabled: [{name: ElasticQuota}]}}
  pluginConfig: [{name: ElasticQuota, args: {enableRuntimeQuota: false}}]
"""


def quota(name: str, parent: str = "", **most: str) -> str:
    labels = f"{PREFIX}parent: {parent}" if parent else ""
    amounts = ", ".join(f"{resource}: {amount}" for resource, amount in most.items())
    return (
        "{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, "
        f"metadata: {{name: {name}, labels: {{{labels}}}}}, spec: {{max: {{{amounts}}}}}}}"
    )


def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], documents: list[str], *flags: str) -> str:
    (tmp_path / "f.yaml").write_text("\n---\n".join(documents))
    assert main(["simulate", str(tmp_path / "f.yaml"), *flags]) == 0
    return capsys.readouterr().out


def table(text: str) -> list[list[str]]:
    """Return the cells of the table of quotas."""
    lines = text.partition("quota  ")[2].partition("\nrequested: ")[0].splitlines()[1:]
    return [line.split() for line in lines]


def used(text: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(text)["summary"]["elasticQuota"]["quotas"]}


def test_each_quota_is_shown_with_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    # of 40 CPUs the default quota's pod has 1; web asks for 10; research has the other 29, of which speech asks for 4
    assert main(["simulate", "-o", "json", str(TREE)]) == 0
    found = used(capsys.readouterr().out)
    assert list(found) == ["koordinator-root-quota", "research", "speech", "vision", "web", "koordinator-default-quota"]
    assert found["vision"] == {
        "name": "vision",
        "parent": "research",
        "tree": "",
        "min": {"cpu": "12"},
        "max": {"cpu": "30"},
        "runtime": {"cpu": "25"},
        "used": {"cpu": "20"},
        "requested": {"cpu": "28"},
        "waiting": {"cpu": "8"},
    }
    assert (found["research"]["runtime"], found["research"]["waiting"]) == ({"cpu": "29"}, {"cpu": "8"})
    assert found["koordinator-default-quota"]["max"] == {}


def test_the_table_has_the_quotas_first_under_which_pods_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [NODE, quota("a", cpu="4"), quota("b", cpu="4", memory="1Gi"), quota("c", cpu="4")]
    documents += [POD % ("x", "c", 5), POD % ("y", "b", 1)]
    text = simulated(tmp_path, capsys, documents, "--show-quotas", "3")
    assert table(text) == [
        ["koordinator-root-quota", "cpu", "-", "-", "10", "1", "5", "5"],
        ["memory", "-", "-", "10Gi", "0", "0", "0"],
        ["b", "cpu", "-", "4", "1", "1", "1", "0"],
        ["memory", "-", "1Gi", "0", "0", "0", "0"],
        ["c", "cpu", "-", "4", "4", "0", "5", "5"],
    ]
    assert "1 more quotas; --show-quotas N lists more." in text
    assert "quota  " not in simulated(tmp_path, capsys, documents, "--show-quotas", "0")


def test_without_quotas_there_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "elasticQuota" not in simulated(tmp_path, capsys, [NODE, POD % ("x", "gone", 1)], "-o", "json")


def test_quotas_without_a_known_parent_come_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [NODE, quota("a", "gone", cpu="4"), quota("child", "a", cpu="4"), quota("b", cpu="4")]
    assert [cells[0] for cells in table(simulated(tmp_path, capsys, documents))] == ["koordinator-root-quota", "b", "a", "child"]


def test_where_max_is_the_limit_there_are_no_runtimes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(BY_MAX)
    text = simulated(tmp_path, capsys, [NODE, quota("a", cpu="4"), POD % ("x", "a", 3)], "--config", str(tmp_path / "config.yaml"))
    assert ["a", "cpu", "-", "4", "-", "3", "3", "0"] in table(text)


@pytest.mark.parametrize("text", [reasons.OVER_LIMIT_TEXT, reasons.OVER_ANCESTORS_LIMIT_TEXT, reasons.OVER_MIN_TEXT])
def test_refusals_are_explained(text: str) -> None:
    refused = text.format(name="[p q]" if "Topo" in text else "q", limit="cpu:1", used="cpu:1", request="cpu:1", over="[cpu]")
    assert ("the quota p" if "Topo" in text else " q") in meaning(refused)
