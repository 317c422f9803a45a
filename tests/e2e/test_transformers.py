"""What the scheduler reads otherwise than it is written, and what it writes, on a real API server (frameworkext.md §3, §4, §7)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.cpu_recount import QOS_CLASS, RESOURCE_STATUS, TOPOLOGIES
from support.live import PODS, Launch, Running, create_pod, nodes_of_pods, reason, until

from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest

RIGHTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
PLAIN_PODS, CPU_PODS = 40, 10
LAYOUT = CpuLayout.parse("2x2x4x2")
PROFILES = [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}}]
RESERVATION = "node.koordinator.sh/reservation"
SCHEDULER_LABEL = "scheduling.koordinator.sh/scheduler-name"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SAMPLE = re.compile(r"^rest_client_requests_total\{(?P<labels>[^}]*)\} (?P<count>[0-9.e+]+)$", re.MULTILINE)


@pytest.fixture
def token(plane: ControlPlane) -> Iterator[str]:
    """Return the token of an account with the rights of config/rbac.yaml."""
    with service_account(plane.rest(), RIGHTS) as made:
        yield made


def start(plane: ControlPlane, token: str, folder: Path, **config: Any) -> Running:
    running = Launch(plane, folder, plane.kubeconfig(by_token(token)), config=config).start()
    running.await_readiness()
    return running


def writes(running: Running) -> Counter[str]:
    """Count the requests that were sent so far, by method; what only reads is left out."""
    found: Counter[str] = Counter()
    for sample in SAMPLE.finditer(running.served.get("/metrics")[1]):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', sample["labels"]))
        if labels["method"] != "GET":
            found[labels["method"]] += int(float(sample["count"]))
    return found


def create_node(rest: Rest, name: str, annotations: dict[str, str], **room: str) -> None:
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", **room}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}, "status": status}
    rest.create("/api/v1/nodes", body)


def scheduled(rest: Rest) -> int:
    return sum(event["reason"] == "Scheduled" for event in rest.get(EVENTS)["items"])


def is_decided(rest: Rest, name: str) -> bool:
    return nodes_of_pods(rest)[name] != "" or reason(rest, name) == "Unschedulable"


def allocatable(running: Running) -> dict[str, dict[str, int]]:
    code, text = running.debug("/debug/cache")
    assert code == 200, text
    return {node["name"]: node["allocatable"] for node in json.loads(text)["nodes"]}


def test_a_pod_costs_two_requests_also_where_it_gets_cpus_of_its_own(plane: ControlPlane, token: str, tmp_path: Path) -> None:
    """Its binding, which says which CPUs it was given, and its event."""
    rest = plane.rest()
    for number in range(4):
        create_node(rest, f"n{number}", {}, cpu=str(LAYOUT.cpus))
        rest.create(TOPOLOGIES, topology_manifest(f"n{number}", LAYOUT, 64 << 30))
    running = start(plane, token, tmp_path, profiles=PROFILES)
    before = writes(running)
    for number in range(PLAIN_PODS):
        create_pod(rest, f"plain-{number}", "100m")
    until(lambda: scheduled(rest) == PLAIN_PODS)
    plain = Counter(POST=2 * PLAIN_PODS)
    until(lambda: writes(running) - before == plain)  # the page may be some seconds old

    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}
    for number in range(CPU_PODS):
        meta = {"name": f"cpus-{number}", "labels": {QOS_CLASS: "LSR"}}
        spec = {"schedulerName": "default-scheduler", "priorityClassName": "", "containers": [container]}
        rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    until(lambda: scheduled(rest) == PLAIN_PODS + CPU_PODS)
    until(lambda: writes(running) - before == plain + Counter(POST=2 * CPU_PODS))
    annotated = [pod for pod in rest.get(PODS)["items"] if RESOURCE_STATUS in pod["metadata"].get("annotations", {})]
    assert len(annotated) == CPU_PODS
    assert running.stop().of("error") == []


@pytest.mark.parametrize("streamed", [False, True])
def test_nodes_are_read_as_the_transformers_make_them_and_stay_as_they_are(
    plane: ControlPlane, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, streamed: bool
) -> None:
    """Nodes that were there at the start, and one that came later: the reservation is taken off once, whichever way lists are read."""
    monkeypatch.setenv("KUBE_FEATURE_WatchListClient", str(streamed).lower())
    rest = plane.rest()
    reserved = {RESERVATION: '{"resources":{"cpu":"1500m"}}'}
    create_node(rest, "first", reserved, **{"koordinator.sh/batch-memory": "2Gi"})
    create_node(rest, "broken", {RESERVATION: "{"})
    running = start(plane, token, tmp_path)
    create_node(rest, "later", {RESERVATION: '{"reservedCPUs":"0-1,8"}'}, **{"kubernetes.io/gpu-core": "100"})
    until(lambda: "later" in allocatable(running))
    found = allocatable(running)
    assert {name: amounts["cpu"] for name, amounts in found.items()} == {"first": 14_500, "broken": 16_000, "later": 13_000}
    assert found["first"]["kubernetes.io/batch-memory"] == 2 << 30
    assert found["later"]["koordinator.sh/gpu-core"] == 100

    resources = {"requests": {"koordinator.sh/batch-memory": "1Gi"}, "limits": {"koordinator.sh/batch-memory": "1Gi"}}
    for name in ("batch", "batch-2", "batch-3"):
        spec = {"schedulerName": "default-scheduler", "containers": [{"name": "main", "image": "none", "resources": resources}]}
        rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        until(partial(is_decided, rest, name))
    assert nodes_of_pods(rest) == {"batch": "first", "batch-2": "first", "batch-3": ""}

    until(lambda: [event for event in rest.get(EVENTS)["items"] if event["reason"] == "InvalidAnnotation"])
    (event,) = [event for event in rest.get(EVENTS)["items"] if event["reason"] == "InvalidAnnotation"]
    assert event["regarding"]["name"] == "broken"
    assert event["note"].startswith(f"nothing is taken off its allocatable: {RESERVATION}: ")
    assert rest.get("/api/v1/nodes/first")["status"]["allocatable"]["cpu"] == "16", "nothing is written back"
    code, text = running.debug("/debug/compare")
    assert code == 200, text
    assert json.loads(text)["wrong_nodes"] == []
    assert running.stop().of("error") == []


def test_the_scheduler_name_label_hands_waiting_pods_over(plane: ControlPlane, token: str, tmp_path: Path) -> None:
    rest = plane.rest()
    create_node(rest, "n1", {})
    running = start(plane, token, tmp_path)
    create_pod(rest, "away", "17")
    until(lambda: reason(rest, "away") == "Unschedulable")
    container = {"name": "main", "image": "none"}
    spec = {"schedulerName": "other", "containers": [container]}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "here"}, "spec": spec})
    rest.patch(f"{PODS}/away", {"metadata": {"labels": {SCHEDULER_LABEL: "other"}}})
    rest.patch(f"{PODS}/here", {"metadata": {"labels": {SCHEDULER_LABEL: "default-scheduler"}}})
    until(lambda: nodes_of_pods(rest)["here"] == "n1")
    bound = rest.get(f"{PODS}/here")
    assert bound["spec"]["schedulerName"] == "other", "nothing is written back"
    assert "annotations" not in bound["metadata"]
    rest.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"changed": "1"}}})
    create_node(rest, "n2", {}, cpu="32")
    create_pod(rest, "last", "18")
    until(lambda: nodes_of_pods(rest)["last"] == "n2")
    assert nodes_of_pods(rest)["away"] == ""
    assert 'scheduler_pending_pods{queue="unschedulable"} 0' in running.served.get("/metrics")[1]
    assert running.stop().of("error") == []
