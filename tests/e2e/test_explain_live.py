"""`explain` and `simulate` of a real control plane, with the rights of config/reader.yaml: what they say is what the running scheduler
says, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import yaml
from support.controlplane.accounts import service_account
from support.controlplane.credentials import STRANGER, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import PODS, Launch, create_node, message, reason, until
from support.proxy import Proxy, Weather

from koordsched.cli import main

ROOT = Path(__file__).parents[2]
ROLE = ROOT / "config" / "reader.yaml"
PROFILES = yaml.safe_load((ROOT / "config" / "koord-scheduler-config.yaml").read_text())["profiles"]
ACCOUNT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: koord-scheduler-reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
"""
GANG = "pod-group.scheduling.sigs.k8s.io"
QUOTA = "quota.scheduling.koordinator.sh/name"
SCHEDULING = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default"


class Reading(NamedTuple):
    """Who may only read, through a proxy that counts requests."""

    kubeconfig: Path
    weather: Weather

    def verbs(self) -> set[str]:
        return {verb for verb, _ in self.weather.seen}


@pytest.fixture
def reading(plane: ControlPlane, tmp_path: Path) -> Iterator[Reading]:
    (tmp_path / "account.yaml").write_text(ACCOUNT)
    weather = Weather(Random(1))
    with service_account(plane.rest(), ROLE, tmp_path / "account.yaml") as token, Proxy(plane, weather, tmp_path) as proxy:
        yield Reading(proxy.kubeconfig(by_token(token)).write(tmp_path / "reader"), weather)


def create(rest: Rest, name: str, cpu: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    body = {"schedulerName": "koord-scheduler", "containers": [container], **spec}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": body})


def create_pending_pods(rest: Rest) -> None:
    """Create pods that wait for six different reasons, on two nodes of which one is tainted."""
    create_node(rest, "n1", "2", zone="a")
    create_node(rest, "n2", "8", zone="b")
    rest.patch("/api/v1/nodes/n2", {"spec": {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]}})
    group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 3}}
    rest.create(f"{SCHEDULING}/podgroups", group)
    amounts = {"max": {"cpu": "1"}, "min": {"cpu": "1"}}
    quota = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "team"}, "spec": amounts}
    rest.create(f"{SCHEDULING}/elasticquotas", quota)
    create(rest, "large", "3")
    create(rest, "elsewhere", "1", nodeSelector={"zone": "c"})
    create(rest, "tolerant", "9", tolerations=[{"key": "gpu", "operator": "Exists"}])
    create(rest, "claiming", "1", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}])
    create(rest, "member", "1", {GANG: "g"})
    create(rest, "over-quota", "1500m", {QUOTA: "team"})


def explain(capsys: pytest.CaptureFixture[str], reading: Reading, *arguments: str) -> tuple[dict[str, Any], str]:
    assert main(["explain", *arguments, "--kubeconfig", str(reading.kubeconfig), "-o", "json"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


def versions(rest: Rest) -> dict[str, str]:
    """Return the resource version of each object that might have been written."""
    lists = ("/api/v1/pods", "/api/v1/nodes", f"{SCHEDULING}/podgroups", f"{SCHEDULING}/elasticquotas", "/apis/events.k8s.io/v1/events")
    objects = [(path, each["metadata"]) for path in lists for each in rest.get(path)["items"]]
    return {f"{path} {metadata['name']}": metadata["resourceVersion"] for path, metadata in objects}


def test_explain_says_what_the_running_scheduler_says_with_a_role_that_may_only_read(
    plane: ControlPlane, tmp_path: Path, reading: Reading, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = plane.rest()
    create_pending_pods(rest)
    running = Launch(plane, tmp_path, plane.kubeconfig(), config={"profiles": PROFILES}).start()
    names = ["large", "elsewhere", "tolerant", "claiming", "member", "over-quota"]
    until(lambda: all(reason(rest, name) for name in names))
    conditions = {name: message(rest, name) for name in names}
    running.stop()

    before = versions(rest)
    monkeypatch.setattr("koordsched.apiclient.snapshot.PAGE_SIZE", 4)
    found = {name: explain(capsys, reading, name, "--no-changes") for name in names}
    assert {name: said["message"] for name, (said, _) in found.items()} == conditions
    assert len(set(conditions.values())) == len(names)
    assert {err for _, err in found.values()} == {""}  # nothing could not be read
    assert reading.weather.seen["list", "pods"] == 2 * len(names)  # six pods in pages of four
    changes = explain(capsys, reading, "large")[0]["changes"]
    assert {"request 2 of cpu instead of 3", "tolerate the taint gpu=true:NoSchedule"} <= {each["text"] for each in changes}
    assert reading.verbs() == {"list"}
    assert versions(rest) == before


def test_a_dry_run_and_a_simulation_leave_the_cluster_as_it_is(
    plane: ControlPlane, tmp_path: Path, reading: Reading, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "2")
    create(rest, "waiting", "1")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}}
    spec = {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]}
    (tmp_path / "new.json").write_text(json.dumps({**body, "spec": spec}))
    before = versions(rest)
    said, err = explain(capsys, reading, "-f", str(tmp_path / "new.json"))
    assert (said["state"], said["node"], err) == ("would be placed", "n1", "")
    assert main(["simulate", str(tmp_path / "new.json"), "--kubeconfig", str(reading.kubeconfig), "-o", "json"]) == 0
    placed = json.loads(capsys.readouterr().out)["placements"]
    assert sorted(each["pod"] for each in placed) == ["default/new", "default/waiting"]
    assert reading.verbs() == {"list"}
    assert versions(rest) == before


def test_who_may_read_nothing_learns_which_role_is_missing(plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = plane.kubeconfig(by_token(plane.tokens[STRANGER])).write(tmp_path / "kubeconfig")
    assert main(["simulate", "--kubeconfig", str(kubeconfig)]) == 1
    assert capsys.readouterr().err == (
        f'{kubeconfig}: nodes is forbidden: User "stranger" cannot list resource "nodes" in API group "" at the cluster scope; '
        "config/reader.yaml is a role that may read all that is needed\n"
    )
