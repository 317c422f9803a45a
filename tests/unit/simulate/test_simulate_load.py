"""`simulate` on nodes with NodeMetrics: it begins at their time, and shows use beside requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koordsched.cli import main
from koordsched.plugins.loadaware.plugin import EXPIRED, OVER_AGGREGATED_THRESHOLD, OVER_THRESHOLD
from koordsched.simulate.summary import meaning

NOW = "2026-11-23T09:00:00Z"
NODE = "{apiVersion: v1, kind: Node, metadata: {name: %s, annotations: {%s}}, status: {allocatable: {cpu: '%d', memory: %dGi}}}"
METRIC = (
    "{apiVersion: slo.koordinator.sh/v1alpha1, kind: NodeMetric, metadata: {name: %s}, "
    "status: {updateTime: '%s', nodeMetric: {nodeUsage: {resources: {cpu: '%d', memory: %dGi}}}}}"
)
POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: m, resources: {requests: {cpu: '%d', memory: %dGi}}}]}}"
RAW = 'node.koordinator.sh/raw-allocatable: \'{"cpu":"10"}\''
WITHOUT_PLUGIN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], documents: list[str], *flags: str) -> str:
    (tmp_path / "f.yaml").write_text("\n---\n".join(documents))
    assert main(["simulate", str(tmp_path / "f.yaml"), *flags]) == 0
    return capsys.readouterr().out


def summary_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)["summary"]
    return found


HOT_AND_COOL = [
    NODE % ("hot", "", 10, 40),
    NODE % ("cool", "", 10, 40),
    NODE % ("unknown", "", 1, 1),
    METRIC % ("hot", NOW, 8, 10),
    METRIC % ("cool", NOW, 1, 2),
    METRIC % ("gone", NOW, 1, 1),
    POD % ("a", 4, 10),
]


def test_requests_use_and_what_is_expected_are_shares_of_the_measured_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # a goes to cool and counts there with 85 % of 4 CPUs and 70 % of 10Gi: 9 + 3.4 of 20 CPUs, 12 + 7 of 80Gi
    load = summary_of(simulated(tmp_path, capsys, HOT_AND_COOL, "-o", "json"))["load"]
    assert load == {
        "nodes": 3,
        "measured": 2,
        "resources": [
            {"resource": "cpu", "requested": 0.2, "used": 0.45, "expected": 0.62},
            {"resource": "memory", "requested": 0.125, "used": 0.15, "expected": 0.2375},
        ],
    }


def test_the_hottest_nodes_are_listed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = simulated(tmp_path, capsys, HOT_AND_COOL, "--show-load", "1").splitlines()
    assert "cpu          20.0 %  45.0 %    62.0 %  ###################..........." in lines
    at = lines.index("Use of the hottest nodes")
    assert [line.split() for line in lines[at + 3 : at + 5]] == [
        ["hot", "0.0", "%", "80.0", "%", "80.0", "%", "0.0", "%", "25.0", "%", "25.0", "%"],
        ["1", "more", "nodes;", "--show-load", "N", "lists", "more."],
    ]
    assert "Use of the hottest nodes" not in simulated(tmp_path, capsys, HOT_AND_COOL, "--show-load", "0")


def test_use_is_compared_with_what_a_node_had_before_it_was_amplified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [NODE % ("n", RAW, 20, 40), METRIC % ("n", NOW, 5, 10), POD % ("a", 1, 4)]
    cpu = summary_of(simulated(tmp_path, capsys, documents, "-o", "json"))["load"]["resources"][0]
    assert cpu == {"resource": "cpu", "requested": 0.05, "used": 0.5, "expected": 0.585}


def test_without_the_plugin_nothing_is_expected_and_without_metrics_nothing_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text(WITHOUT_PLUGIN)
    flags = ("--config", str(tmp_path / "config"))
    load = summary_of(simulated(tmp_path, capsys, HOT_AND_COOL, *flags, "-o", "json"))["load"]
    assert [resource["expected"] for resource in load["resources"]] == [None, None]
    assert "45.0 %         -" in simulated(tmp_path, capsys, HOT_AND_COOL, *flags)
    assert "load" not in summary_of(simulated(tmp_path, capsys, [NODE % ("n", "", 10, 40), POD % ("a", 1, 1)], "-o", "json"))


def test_it_begins_at_the_time_of_the_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else all metrics of a dump would be expired, or from the future; a node whose clock is years ahead does not count."""
    documents = [
        *(NODE % (name, "", 10, 40) for name in ("hot", "cool", "ahead", "stale", "broken")),
        METRIC % ("hot", NOW, 6, 10),
        METRIC % ("cool", "2026-11-23T09:00:20Z", 1, 10),
        METRIC % ("ahead", "2036-11-23T09:00:20Z", 9, 10),
        METRIC % ("stale", "2026-11-23T08:00:00Z", 0, 0),
        (METRIC % ("broken", NOW, 9, 10)).replace(f"updateTime: '{NOW}', ", ""),
        POD % ("a", 1, 1),
    ]
    placements = json.loads(simulated(tmp_path, capsys, documents, "-o", "json"))["placements"]
    assert [placement["node"] for placement in placements] == ["cool"], "a stale metric scores 0, a fresh one what would be left"


def test_every_refusal_is_explained_and_stands_on_the_plugins_page() -> None:
    page = (Path(__file__).parents[3] / "docs/plugins/loadaware.md").read_text(encoding="utf-8")
    for text in (*EXPIRED.reasons, *(text.format(resource="cpu") for text in (OVER_THRESHOLD, OVER_AGGREGATED_THRESHOLD))):
        assert meaning(text), text
        assert f"| `{text}`" in page
