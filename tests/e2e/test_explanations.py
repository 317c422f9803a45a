"""Why a pod is not scheduled, asked of a serving scheduler with the rights of the manifests: ScheduleExplanations, REST and the log."""

from __future__ import annotations

import json
from pathlib import Path

from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.live import Launch, create_node, create_pod, reason, until

MANIFESTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
API = "scheduling.koordinator.sh/v1alpha1"
QUESTIONS = f"/apis/{API}/namespaces/default/scheduleexplanations"
PROFILE = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]}}}
DETAILS = [{"failedPlugin": "NodeResourcesFit", "reason": "Insufficient cpu", "failedNodes": ["n1", "n2"]}]
"""preemptMightHelp is false, and so left out: no node has that many CPUs at all."""


def test_a_pending_pod_is_explained_in_its_object_at_the_port_and_in_the_log(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    for name in ("n1", "n2"):
        create_node(rest, name, "1")
    with service_account(rest, MANIFESTS) as token:
        running = Launch(plane, tmp_path, plane.kubeconfig(by_token(token)), ("-d",), config={"profiles": [PROFILE]}).start()
        running.await_readiness()
        create_pod(rest, "big", "3")
        until(lambda: reason(rest, "big") == "Unschedulable")
        body = {"apiVersion": API, "kind": "ScheduleExplanation", "metadata": {"name": "why"}, "spec": {"questionObjectKey": "default/big"}}
        rest.create(QUESTIONS, body)
        until(lambda: "lastUpdateTime" in rest.get(f"{QUESTIONS}/why").get("status", {}))
        status = rest.get(f"{QUESTIONS}/why")["status"]
        (explained,) = status["detailedExplanation"]
        assert explained["scheduleExplanation"]["nodeFailedDetails"] == DETAILS
        found = running.debug("/apis/v1/explain/default/big")[1]
        assert json.loads(found) == {key: value for key, value in status.items() if key != "lastUpdateTime"}
        assert json.loads(running.debug("/apis/v1/nodes/n1")[1])["remaining"]["MilliCPU"] == 1000
        rest.delete(f"{QUESTIONS}/why")
        create_node(rest, "n3", "3")
        until(lambda: rest.get("/api/v1/namespaces/default/pods/big")["spec"].get("nodeName") == "n3")
        outcome = running.stop()
    (line,) = [each for each in outcome.of("info") if each.startswith("dump diagnosis for default/big, targetPod: default/big/")]
    assert json.loads(line.partition("$")[2])["scheduleDiagnosis"]["nodeFailedDetails"] == [DETAILS[0] | {"preemptMightHelp": False}]
    assert outcome.of("error") == []


def test_scores_are_logged_when_a_flag_is_put_and_nodes_are_counted(plane: ControlPlane, tmp_path: Path) -> None:
    """frameworkext.md §10, 30, 31 and 33."""
    rest = plane.rest()
    for name in ("n1", "n2", "n3"):
        create_node(rest, name, "2")
    running = Launch(plane, tmp_path, plane.kubeconfig(), config={"profiles": [PROFILE]}).start()
    running.await_readiness()
    assert running.debug("/apis/v1/nodes/nope") == (404, '{"message":"cannot find node nope"}')
    assert running.put("/debug/flags/s", "2") == (200, "successfully set debugTopNScores to 2\n")
    refused = 'failed set debugTopNScores x: strconv.Atoi: parsing "x": invalid syntax\n'
    assert running.put("/debug/flags/s", "x") == (400, refused)
    assert running.debug("/debug/flags/s") == (406, "unsupported http method\n")
    create_pod(rest, "p", "1")
    until(lambda: rest.get("/api/v1/namespaces/default/pods/p")["spec"].get("nodeName"))
    metrics = running.served.get("/metrics")[1].splitlines()
    for what in ("evaluated", "feasible"):
        assert f"scheduler_pod_scheduling_{what}_nodes_count 1.0" in metrics
        assert f"scheduler_pod_scheduling_{what}_nodes_sum 3.0" in metrics
    outcome = running.stop()
    (table,) = [each for each in outcome.of("info") if each.startswith("Top2 scores for Pod: default/p, feasibleNodes: 3")]
    assert [line.split("|")[1].strip() for line in table.splitlines() if "default/p |" in line] == ["0", "1"]
