"""A scheduler with the rights of config/rbac.yaml and no others does all its work: bind, write events and conditions, evict, bind volumes,
lead, and ask who asks on its secure port."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.controlplane.accounts import service_account
from support.controlplane.credentials import ADMIN, STRANGER, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Refused, Rest
from support.custom_resources import EXAMPLES, example
from support.live import EVENTS, PODS, create_node, create_pod, reason, until
from support.secure import Asked, Door
from support.served import TIMEOUT, command, ended, write_config

from koordsched.api.kinds import CLUSTER_NETWORK_TOPOLOGY, DEVICE, ELASTIC_QUOTA, NODE_METRIC, POD_GROUP, RESERVATION, SCHEDULE_EXPLANATION
from koordsched.scenario.live.process import free_port

MANIFESTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/koordinator-system/leases"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
ELECTION = {"leaderElect": True, "resourceNamespace": "koordinator-system", "resourceName": "koord-scheduler"}


READ = {CLUSTER_NETWORK_TOPOLOGY, DEVICE, ELASTIC_QUOTA, NODE_METRIC, POD_GROUP, RESERVATION, SCHEDULE_EXPLANATION}
"""Koordinator's kinds that plugins of a scheduler read."""


def allowed(request: Callable[[], Any]) -> bool:
    """Make a request, and return whether it may be made."""
    try:
        request()
    except Refused as refused:
        if refused.status != http.client.FORBIDDEN:
            raise
        return False
    return True


def node_of(rest: Rest, pod: str) -> str:
    return str(rest.get(f"{PODS}/{pod}")["spec"].get("nodeName", ""))


def create_priority_class(rest: Rest, name: str, value: int) -> None:
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    rest.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)


def create_volume(rest: Rest) -> None:
    """Create a volume, a class that waits for the first consumer, and a claim that it fits."""
    scheduling = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    rest.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}, **scheduling},
    )
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    volume = {"capacity": size, "accessModes": modes, "storageClassName": "local", "hostPath": {"path": "/none"}}
    rest.create("/api/v1/persistentvolumes", {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v1"}, "spec": volume})
    rest.patch("/api/v1/persistentvolumes/v1/status", {"status": {"phase": "Available"}})  # as its controller would
    claim = {"accessModes": modes, "storageClassName": "local", "resources": {"requests": size}}
    rest.create(CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c1"}, "spec": claim})


def create_special_pod(rest: Rest, name: str, cpu: str, **spec: Any) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    body = {"schedulerName": "default-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body})


def bind_as_the_controller_does(rest: Rest) -> None:
    """Finish what the scheduler began by writing claimRef: there is no volume controller here."""
    volume = rest.get("/api/v1/persistentvolumes/v1")
    assert volume["spec"]["claimRef"]["name"] == "c1"
    claim = rest.get(f"{CLAIMS}/c1")
    claim["spec"]["volumeName"] = "v1"
    claim["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
    rest.replace(f"{CLAIMS}/c1", claim)
    for path in ("/api/v1/persistentvolumes/v1/status", f"{CLAIMS}/c1/status"):
        rest.patch(path, {"status": {"phase": "Bound"}})


def test_of_koordinators_objects_no_more_is_allowed_than_is_needed(plane: ControlPlane) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "2")
    create_pod(rest, "p", "1")
    rest.create("/apis/scheduling.koordinator.sh/v1alpha1/reservations", example(RESERVATION))
    rest.create("/apis/slo.koordinator.sh/v1alpha1/nodemetrics", example(NODE_METRIC))
    label = {"metadata": {"labels": {"a": "b"}}}
    with service_account(rest, MANIFESTS) as token:
        scheduler = Rest(plane.kubeconfig(by_token(token)))
        for kind in sorted(READ, key=lambda kind: kind.kind):
            until(lambda: allowed(lambda: scheduler.get(f"/apis/{kind.api_version}/{kind.plural}")))  # noqa: B023  # rights take a moment
        refused = {kind for kind in EXAMPLES if not allowed(lambda: scheduler.get(f"/apis/{kind.api_version}/{kind.plural}"))}  # noqa: B023
        assert refused == EXAMPLES.keys() - READ
        scheduler.patch("/api/v1/nodes/n1", label)
        scheduler.patch("/apis/scheduling.koordinator.sh/v1alpha1/reservations/r", label)
        scheduler.patch("/apis/scheduling.koordinator.sh/v1alpha1/reservations/r/status", {"status": {"phase": "Failed"}})
        scheduler.delete("/apis/scheduling.koordinator.sh/v1alpha1/reservations/r")
        explanations = "/apis/scheduling.koordinator.sh/v1alpha1/namespaces/default/scheduleexplanations"
        rest.create(explanations, example(SCHEDULE_EXPLANATION) | {"metadata": {"name": "why"}})
        scheduler.patch(f"{explanations}/why/status", {"status": {"failedMessage": "because"}})
        assert not allowed(lambda: scheduler.patch(f"{explanations}/why", label))
        scheduler.delete(f"{explanations}/why")
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}}
        scheduler.create(f"{PODS}/p/eviction", eviction)
        for forbidden in (
            lambda: scheduler.patch("/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1", label),
            lambda: scheduler.patch("/api/v1/nodes/n1/status", {"status": {"capacity": {"a/b": "1"}}}),
            lambda: scheduler.delete("/apis/scheduling.koordinator.sh/v1alpha1/devices/d"),
            lambda: scheduler.delete("/api/v1/nodes/n1"),
            lambda: scheduler.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
        ):
            assert not allowed(forbidden)
        scheduler.close()


def test_the_rights_of_the_manifests_are_enough_for_everything(plane: ControlPlane, tmp_path: Path) -> None:
    rest, door = plane.rest(), Door(free_port())
    with service_account(rest, MANIFESTS) as token:
        kubeconfig = plane.kubeconfig(by_token(token)).write(tmp_path / "kubeconfig")
        config = write_config(tmp_path, kubeconfig, leaderElection=ELECTION)
        secure = [f"--secure-port={door.port}", "--bind-address=127.0.0.1", "--port=0"]
        _, line = command(
            "--config", config, *secure, f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"
        )
        create_node(rest, "n1", "2")
        create_priority_class(rest, "high", 1000)
        create_volume(rest)
        process = plane.spawn("koord-scheduler-by-rbac", line)  # a log of its own: it is read whole
        process.wait_until(door.ready, TIMEOUT)
        until(lambda: [lease["metadata"]["name"] for lease in rest.get(LEASES)["items"]] == ["koord-scheduler"])

        create_special_pod(rest, "low", "2")
        until(lambda: node_of(rest, "low") == "n1")
        create_pod(rest, "waiting", "1")
        until(lambda: reason(rest, "waiting") == "Unschedulable")
        create_special_pod(rest, "high", "1", priorityClassName="high")
        until(lambda: node_of(rest, "high") == "n1")
        assert "low" not in [pod["metadata"]["name"] for pod in rest.get(PODS)["items"]]

        claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": "c1"}}]
        create_node(rest, "n2", "2")
        create_special_pod(rest, "with-volume", "1", volumes=claimed)
        until(lambda: rest.get("/api/v1/persistentvolumes/v1")["spec"].get("claimRef"))
        bind_as_the_controller_does(rest)
        until(lambda: node_of(rest, "with-volume"))
        until(lambda: {"Scheduled", "FailedScheduling", "Preempted"} <= {event["reason"] for event in rest.get(EVENTS)["items"]})

        assert door.ask(Asked(headers={"Authorization": f"Bearer {plane.tokens[ADMIN]}"})).status == 200
        assert door.ask(Asked(headers={"Authorization": f"Bearer {plane.tokens[STRANGER]}"})).status == 403
        assert door.ask(Asked(path="/configz", pair=plane.authority.client("boss", ("system:masters",)))).status == 200
        code = process.stop(TIMEOUT)
        outcome = ended(code, process.output())
    assert code == 0
    assert "forbidden: User" not in outcome.text
    assert outcome.of("error") == []
