"""What only a real API server shows of Reservations: a bind that admission refuses, and a scheduler that does not lead
(reservation.md §19, 23 and 38).
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Refused, Rest
from support.live import PODS, Launch, create_node, message, nodes_of_pods, until

RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
ROUTE = "/apis/v1/plugins/Reservation/nodeReservations/n1"
LINK, AFFINITY = "scheduling.koordinator.sh/reservation-allocated", "scheduling.koordinator.sh/reservation-affinity"
PROFILE = {"plugins": {"multiPoint": {"enabled": [{"name": "Reservation"}]}}}
REFUSAL = "bindings are closed for today"


def create_reservation(rest: Rest) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    owners = [{"labelSelector": {"matchLabels": {"app": "x"}}}]
    spec = {"owners": owners, "allocateOnce": False, "allocatePolicy": "Restricted", "template": {"spec": {"containers": [container]}}}
    body = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "r"}, "spec": spec}
    rest.create(RESERVATIONS, body)
    until(lambda: rest.get(f"{RESERVATIONS}/r").get("status", {}).get("phase") == "Available")


def create_owner(rest: Rest) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": "owner", "labels": {"app": "x"}, "annotations": {AFFINITY: "{}"}}
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@contextmanager
def bindings_refused(rest: Rest) -> Iterator[None]:
    """Let admission refuse what posts a binding, from the beginning of the block to its end."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"], "operations": ["CREATE"]}]
    policy = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false", "message": REFUSAL}]}
    closed = {"metadata": {"name": "closed"}}
    rest.create(f"{ADMISSION}/validatingadmissionpolicies", {**closed, "spec": policy})
    binding = {"policyName": "closed", "validationActions": ["Deny"]}
    rest.create(f"{ADMISSION}/validatingadmissionpolicybindings", {**closed, "spec": binding})
    try:
        until(lambda: refuses_bindings(rest))
        yield
    finally:
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            rest.delete(f"{ADMISSION}/{plural}/closed")


def refuses_bindings(rest: Rest) -> bool:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    try:
        rest.create(f"{PODS}/absent/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "absent"}, "target": target})
    except Refused as refused:
        return REFUSAL in str(refused)
    return False


def owners_annotations(rest: Rest) -> dict[str, str]:
    found: dict[str, str] = rest.get(f"{PODS}/owner")["metadata"]["annotations"]
    return found


def given(answer: tuple[int, str]) -> dict[str, Any]:
    """Read what the endpoint says is given of the Reservation."""
    status, text = answer
    assert status == http.client.OK, text
    [item] = json.loads(text)["items"]
    return {key: item[key] for key in ("allocated", "assignedPods") if item.get(key)}


def test_the_link_to_a_reservation_is_taken_off_when_the_api_server_refuses_the_bind(plane: ControlPlane, tmp_path: Path) -> None:
    """Line 23. Once binds are allowed again the pod is given the same."""
    rest = plane.rest()
    running = Launch(plane, tmp_path, plane.kubeconfig(), config={"profiles": [PROFILE]}).start()
    running.await_readiness()
    create_node(rest, "n1", "10")
    create_reservation(rest)
    with bindings_refused(rest):
        create_owner(rest)
        until(lambda: REFUSAL in message(rest, "owner"))
        until(lambda: LINK not in owners_annotations(rest) and given(running.debug(ROUTE)) == {})
        status = rest.get(f"{RESERVATIONS}/r")["status"]
        assert (status["phase"], status.get("currentOwners", [])) == ("Available", [])
    until(lambda: nodes_of_pods(rest) == {"owner": "n1"})
    assert json.loads(owners_annotations(rest)[LINK])["name"] == "r"
    assert given(running.debug(ROUTE))["allocated"] == {"cpu": "1"}
    assert running.stop().of("error") == []


def test_a_scheduler_that_does_not_lead_answers_503_for_reservations(plane: ControlPlane, tmp_path: Path) -> None:
    """Line 38. Another one holds the lease; when that is gone, this one leads and answers."""
    rest = plane.rest()
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    metadata = {"name": "kube-scheduler", "namespace": "kube-system"}
    rest.create(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    election = {"leaderElect": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "1s"}
    running = Launch(plane, tmp_path, plane.kubeconfig(), config={"profiles": [PROFILE], "leaderElection": election}).start()
    running.await_readiness()
    assert running.debug(ROUTE) == (http.client.SERVICE_UNAVAILABLE, '{"message":"the instance is not leader"}')
    rest.delete(f"{LEASES}/kube-scheduler")
    until(lambda: running.debug(ROUTE)[0] == http.client.OK)
    assert running.debug(ROUTE) == (http.client.OK, "{}")
    assert running.stop().of("error") == []
