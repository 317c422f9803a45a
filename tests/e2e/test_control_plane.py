"""The control plane that other e2e tests rely on: it is real, it keeps its data, it can be emptied, and it leaves nothing behind."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kubernetes_asyncio import client as kubernetes
from kubernetes_asyncio import config as kubernetes_config
from support.controlplane.authority import Authority
from support.controlplane.binaries import Binaries
from support.controlplane.commands import Options
from support.controlplane.credentials import ADMIN, SCHEDULER, STRANGER, by_certificate, by_exec_plugin, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.processes import StartFailed
from support.controlplane.rest import Refused, Rest

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    },
}


def node(name: str) -> dict[str, Any]:
    status = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


def binding(pod_name: str, node_name: str) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod_name}, "target": target}


def names(rest: Rest, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in rest.get(path)["items"]]


def test_pod_is_pending_until_a_binding_names_a_node(plane: ControlPlane) -> None:
    rest = plane.rest()
    assert "taints" not in rest.create(NODES, node("n1"))["spec"]
    created = rest.create(PODS, pod("web"))
    assert created["status"]["phase"] == "Pending"
    assert "nodeName" not in created["spec"]
    rest.create(f"{PODS}/web/binding", binding("web", "n1"))
    bound = rest.get(f"{PODS}/web")
    assert bound["spec"]["nodeName"] == "n1"
    assert [(each["type"], each["status"]) for each in bound["status"]["conditions"]] == [("PodScheduled", "True")]


def test_second_binding_of_a_pod_is_refused(plane: ControlPlane) -> None:
    rest = plane.rest()
    rest.create(PODS, pod("web"))
    rest.create(f"{PODS}/web/binding", binding("web", "n1"))
    with pytest.raises(Refused, match=r'409: .*pod web is already assigned to node "n1"'):
        rest.create(f"{PODS}/web/binding", binding("web", "n2"))


def test_version_is_a_release_of_kubernetes(plane: ControlPlane) -> None:
    assert re.fullmatch(r"v1\.\d+\.\d+", plane.rest().get("/version")["gitVersion"])


@pytest.mark.parametrize("end", [ControlPlane.stop_api_server, ControlPlane.kill_api_server])
def test_restarted_api_server_has_its_address_and_its_data(plane: ControlPlane, end: Any) -> None:
    rest = plane.rest()
    uid = rest.create(NODES, node("n1"))["metadata"]["uid"]
    address, before = plane.url, plane.usage()
    end(plane)
    assert set(plane.usage()) == {"etcd"}
    with pytest.raises(aiohttp.ClientConnectorError, match="Cannot connect to host"):
        rest.get(NODES)
    plane.start_api_server()
    assert plane.url == address
    assert rest.get(f"{NODES}/n1")["metadata"]["uid"] == uid
    assert plane.usage()["etcd"].cpu_seconds >= before["etcd"].cpu_seconds


def test_users_may_do_what_their_roles_say(plane: ControlPlane) -> None:
    plane.rest(ADMIN).create(PODS, pod("web"))
    assert names(plane.rest(SCHEDULER), PODS) == ["web"]
    with pytest.raises(Refused, match="403: ") as stranger:
        plane.rest(STRANGER).get(PODS)
    assert stranger.value.status == 403
    with pytest.raises(Refused, match=r"403: .*cannot create resource \"nodes\""):
        plane.rest(SCHEDULER).create(NODES, node("n1"))


def kubeconfig_users(plane: ControlPlane) -> dict[str, Any]:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": plane.tokens[SCHEDULER]}}
    return {
        "token": by_token(plane.tokens[SCHEDULER]),
        "certificate": by_certificate(plane.authority.client("system:kube-scheduler")),
        "exec plugin": by_exec_plugin(
            sys.executable, "-c", "import os; print(os.environ['ANSWER'])", env={"ANSWER": json.dumps(credential)}
        ),
    }


@pytest.mark.parametrize("way", ["token", "certificate", "exec plugin"])
async def test_kubeconfig_lets_its_user_in(plane: ControlPlane, tmp_path: Path, way: str) -> None:
    file = plane.kubeconfig(kubeconfig_users(plane)[way]).write(tmp_path / "kubeconfig")
    loaded = kubernetes.Configuration()
    await kubernetes_config.load_kube_config(str(file), client_configuration=loaded)
    async with kubernetes.ApiClient(loaded) as connection:
        whoami = await kubernetes.AuthenticationV1Api(connection).create_self_subject_review(kubernetes.V1SelfSubjectReview())
    assert whoami.status.user_info.username == "system:kube-scheduler"


async def test_kubeconfig_with_another_authority_does_not_trust_the_server(plane: ControlPlane, tmp_path: Path) -> None:
    file = plane.kubeconfig()._replace(authority=Authority().certificate).write(tmp_path / "kubeconfig")
    loaded = kubernetes.Configuration()
    await kubernetes_config.load_kube_config(str(file), client_configuration=loaded)
    async with kubernetes.ApiClient(loaded) as connection:
        with pytest.raises(OSError, match="certificate verify failed"):
            await kubernetes.VersionApi(connection).get_code()


def test_restored_plane_has_only_what_the_api_server_made(plane: ControlPlane) -> None:
    rest = plane.rest()
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    namespaces, classes, leases = "/api/v1/namespaces", "/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/coordination.k8s.io/v1/leases"
    before = {path: names(rest, path) for path in (namespaces, classes, "/api/v1/services")}
    assert all(before.values())
    rest.create(namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    rest.create("/api/v1/namespaces/team/pods", pod("other"))
    rest.create(PODS, pod("held", finalizers=["example.com/held"]))
    rest.create(PODS, pod("running"))
    rest.create(NODES, node("n1"))
    rest.create(f"{PODS}/running/binding", binding("running", "n1"))
    rest.create(classes, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10})
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kube-scheduler"}}
    rest.create("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease)
    rest.create(definitions, WIDGETS)
    wait_for_widgets(plane)
    rest.create(
        "/apis/example.com/v1/namespaces/default/widgets", {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    )

    plane.restore()

    for path in ("/api/v1/pods", NODES, "/apis/example.com/v1/widgets"):
        assert names(rest, path) == [], path
    assert [name for name in names(rest, leases) if not name.startswith("apiserver-")] == []
    assert {path: names(rest, path) for path in before} == before
    rest.delete(f"{definitions}/widgets.example.com")


def wait_for_widgets(plane: ControlPlane) -> None:
    """Wait until the API server serves the new resource, which it does a moment after it has the definition."""
    rest = plane.rest()

    def served() -> bool:
        try:
            rest.get("/apis/example.com/v1/widgets")
        except Refused:
            return False
        return True

    plane.process("kube-apiserver").wait_until(served, 10.0)


def test_usage_is_that_of_each_program(plane: ControlPlane) -> None:
    usage = plane.usage()
    assert set(usage) == {"etcd", "kube-apiserver"}
    for used in usage.values():
        assert used.cpu_seconds > 0
        assert used.peak_resident_bytes >= used.resident_bytes > 1 << 20


def test_nothing_is_left_after_close(binaries: Binaries) -> None:
    with ControlPlane(binaries, Options(authorization="AlwaysAllow")) as plane:
        assert plane.rest(STRANGER).get(NODES)["items"] == []
        sleeper = plane.spawn("sleeper", ["sleep", "600"])
        pids = [plane.process(name).pid for name in ("etcd", "kube-apiserver", "sleeper")]
        folder, port = plane.folder, int(plane.url.rpartition(":")[2])
        assert sleeper.running
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert not folder.exists()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))


def test_failed_start_shows_the_log_and_leaves_nothing(binaries: Binaries) -> None:
    plane = ControlPlane(binaries, Options(api_server_args=("--no-such-flag",)))
    with pytest.raises(StartFailed, match=r"(?s)kube-apiserver ended with exit code 1:.*unknown flag: --no-such-flag"):
        plane.__enter__()
    assert not plane.folder.exists()
    assert plane.usage() == {}
