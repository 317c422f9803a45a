"""`simulate` on Reservations: what is reserved, by whom it is used, and what is wasted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koordsched.cli import main
from koordsched.simulate.summary import meaning

CONFIG = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Reservation, weight: 5000}]}}
"""
NODE = "{kind: Node, apiVersion: v1, metadata: {name: n}, status: {allocatable: {cpu: '20', memory: 20Gi}}}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: %s}, annotations: {%s}}, resources: {requests: {cpu: '%s'}}}"
MUST = "scheduling.koordinator.sh/reservation-affinity: '{}'"
RESERVATION = """{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {name: %s, creationTimestamp: %s},
 spec: {owners: [{labelSelector: {matchLabels: {app: %s}}}], allocateOnce: %s, allocatePolicy: Restricted,
 template: {resources: {requests: {cpu: '%s', memory: 1Gi}}}}}"""
NOW = "null"


def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], documents: list[str], *flags: str) -> str:
    (tmp_path / "f.yaml").write_text("\n---\n".join(documents))
    (tmp_path / "config.yaml").write_text(CONFIG)
    assert main(["simulate", str(tmp_path / "f.yaml"), "--config", str(tmp_path / "config.yaml"), *flags]) == 0
    return capsys.readouterr().out


DOCUMENTS = [
    NODE,
    RESERVATION % ("web", NOW, "web", "false", 6),
    RESERVATION % ("idle", NOW, "absent", "false", 3),
    RESERVATION % ("move", NOW, "moved", "true", 2),
    RESERVATION % ("huge", NOW, "huge", "false", 100),
    POD % ("w0", "web", MUST, 2),
    POD % ("w1", "web", MUST, 1),
    POD % ("w2", "web", MUST, 1),
    POD % ("m", "moved", MUST, 1),
    POD % ("other", "none", MUST, 1),
]


def test_reservations_are_summed_up_with_their_owners_and_what_is_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: Any = json.loads(simulated(tmp_path, capsys, DOCUMENTS, "-o", "json"))["summary"]["reservations"]
    assert found["states"] == {"Pending": 1, "Available": 2, "Succeeded": 1}
    # web has 6 CPUs, of which its three owners have 2, 1 and 1; idle has 3 for none; what move was used up by is no reservation any more
    assert (found["reserved"], found["used"]) == ({"cpu": "9", "memory": "2Gi"}, {"cpu": "4"})
    assert found["wasted"] == {"cpu": "5", "memory": "2Gi"}
    assert [(each["name"], each["state"], each["owners"]) for each in found["reservations"]] == [
        ("idle", "Available", []),
        ("web", "Available", ["default/w0", "default/w1", "default/w2"]),
        ("huge", "Pending", []),
        ("move", "Succeeded", ["default/m"]),
    ]


def test_the_table_names_those_first_that_waste_most(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = simulated(tmp_path, capsys, DOCUMENTS, "--show-reservations", "2")
    lines = [line.split() for line in text.partition("reservation  ")[2].splitlines()[1:6]]
    assert lines[0] == ["idle", "Available", "n", "-", "cpu", "3", "0", "3"]
    assert lines[1] == ["memory", "1Gi", "0", "1Gi"]
    assert lines[2] == ["web", "Available", "n", "default/w0,", "default/w1", "and", "1", "more", "cpu", "6", "4", "2"]
    assert "1 Pending, 2 Available, 1 Succeeded" in text
    assert "cpu of those that are Available: 9 reserved, 4 used, 5 wasted (55.6 %)" in text
    assert "2 more Reservations; --show-reservations N lists more." in text
    assert "reservation  " not in simulated(tmp_path, capsys, DOCUMENTS, "--show-reservations", "0")


def test_without_reservations_there_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "reservations" not in json.loads(simulated(tmp_path, capsys, [NODE, POD % ("x", "x", "", 1)], "-o", "json"))["summary"]


def test_reservations_of_a_dump_are_what_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One has expired on its node, one holds 6 of 20 CPUs on its own: of 18 there are 14 left."""
    over = json.dumps({"phase": "Failed", "nodeName": "n", "conditions": [{"type": "Ready", "status": "False", "reason": "Expired"}]})
    held = json.dumps({"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "6", "memory": "1Gi"}})
    old, web = (RESERVATION % (name, NOW, "web", "false", 6) for name in ("old", "web"))
    documents = [NODE, f"{old[:-1]}, status: {over}}}", f"{web[:-1]}, status: {held}}}", POD % ("w", "other", "", 18)]
    found: Any = json.loads(simulated(tmp_path, capsys, documents, "-o", "json"))
    seen = found["summary"]["reservations"]["reservations"]
    assert [(each["name"], each["state"], each["wasted"]) for each in seen] == [
        ("web", "Available", {"cpu": "6", "memory": "1Gi"}),
        ("old", "Expired", {}),
    ]
    assert len(found["pending"]) == 1


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("node(s) no reservations match reservation affinity", "must use a Reservation"),
        ("Reservation(s) Insufficient cpu", "less cpu left"),
        ("Reservation(s) Insufficient cpu, requested: 2000, used: 4000, capacity: 5000", "less cpu left"),
    ],
)
def test_refusals_are_explained(text: str, meant: str) -> None:
    assert meant in meaning(text)
