"""The themes `reservation` and `reservation-strangers`: two Available Reservations on each node, of 100 kinds of owners, and pods that are
owners, or none.

A Reservation has room for eight owners, and each kind for far more than there are. Also what that needs: who schedules may read and patch
Reservations, and patch pods; and the annotation that a binder writes which does not choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from support.controlplane.credentials import SCHEDULER

from koordsched.api.kinds import RESERVATION
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_text

OWNERS, STRANGERS = "reservation", "reservation-strangers"
PLUGIN = "Reservation"
KINDS, OF_A_NODE = 100, 2
OWNER_LABEL = "owner"
HELD = {"cpu": "4", "memory": "4Gi"}
REQUESTS = {"cpu": "500m", "memory": "512Mi"}
CREATED = "2026-01-01T00:00:00Z"
PATH = f"/apis/{RESERVATION.api_version}/reservations"
RIGHTS = "side-by-side-reservations"
RBAC = "rbac.authorization.k8s.io"

Created = tuple[str, dict[str, Any]]  # the collection's path, and the object


def reservations(nodes: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the Reservations of these nodes, Available."""
    for number, node in enumerate(node for node in nodes for _ in range(OF_A_NODE)):
        container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": HELD}}
        spec = {
            "owners": [{"labelSelector": {"matchLabels": labels(number)}}],
            "ttl": "0s",
            "allocateOnce": False,
            "allocatePolicy": "Restricted",
            "template": {"spec": {"schedulerName": "default-scheduler", "containers": [container]}},
        }
        times = {"lastProbeTime": CREATED, "lastTransitionTime": CREATED}
        conditions = [
            {"type": "Scheduled", "status": "True", "reason": "Scheduled", **times},
            {"type": "Ready", "status": "True", "reason": "Available", **times},
        ]
        status = {"phase": "Available", "nodeName": node, "allocatable": HELD, "conditions": conditions}
        metadata = {"name": name_of(node, number % OF_A_NODE)}
        yield {"apiVersion": RESERVATION.api_version, "kind": RESERVATION.kind, "metadata": metadata, "spec": spec, "status": status}


def name_of(node: str, place: int) -> str:
    return f"{node}-reservation-{place}"


def labels(number: int) -> dict[str, str]:
    """Return what the owners of the Reservation, or the pod, of this number have."""
    return {OWNER_LABEL: f"kind-{number % KINDS}"}


def link(node: str, number: int) -> dict[str, str]:
    """Return what says which Reservation the pod of this number on a node was given."""
    uid = f"00000000-0000-4000-8000-{int(node.rpartition('-')[2]):012x}"
    return {RESERVATION_ALLOCATED: allocated_text(name_of(node, number % OF_A_NODE), uid)}


def rights() -> Iterator[Created]:
    """Yield the role, and who has it."""
    group = "scheduling.koordinator.sh"
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
        {"apiGroups": [group], "resources": ["reservations"], "verbs": ["get", "list", "watch", "patch", "delete"]},
        {"apiGroups": [group], "resources": ["reservations/status"], "verbs": ["patch"]},
    ]
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": RIGHTS}}
    yield f"/apis/{RBAC}/v1/clusterroles", {**common, "kind": "ClusterRole", "rules": rules}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": RIGHTS}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": SCHEDULER.user}]
    yield f"/apis/{RBAC}/v1/clusterrolebindings", {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}
