"""What owns, selects and protects pods: Services and ReplicaSets, which make the system's default spreading, and disruption budgets."""

from __future__ import annotations

from random import Random

from support.differential.choosing import Json
from support.differential.vocabulary import APPS, NAMESPACES

OWNED = "replicas"


def services(random: Random) -> list[Json]:
    """Return some Services, and one ReplicaSet for each app, all in the default namespace or the next."""
    made = []
    for app in APPS:
        if random.random() < 0.5:
            spec: Json = {"selector": {"app": app}, "ports": [{"port": 80}]}
            made.append(
                {"apiVersion": "v1", "kind": "Service", "metadata": {"name": app, "namespace": random.choice(NAMESPACES[:2])}, "spec": spec}
            )
        container = {"name": "main", "image": "none"}
        template = {"metadata": {"labels": {"app": app, "owned": OWNED}}, "spec": {"containers": [container]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": app, "owned": OWNED}}, "template": template}
        metadata = {"name": f"{OWNED}-{app}", "namespace": "default"}
        made.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
    return made


def owned(random: Random) -> Json:
    """Return what a pod of a ReplicaSet has."""
    app = random.choice(APPS)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{OWNED}-{app}", "uid": f"uid-of-{app}", "controller": True}
    return {"metadata": {"namespace": "default", "labels": {"app": app, "owned": OWNED}, "ownerReferences": [owner]}}


def budgets(random: Random) -> list[Json]:
    """Return disruption budgets that let one pod go, or none."""
    made = []
    for app in APPS:
        if random.random() < 0.4:
            metadata = {"name": f"protect-{app}", "namespace": random.choice(NAMESPACES)}
            spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1}
            allowed = {"disruptionsAllowed": random.choice([0, 0, 1]), "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
            body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
            made.append({**body, "status": allowed})
    return made
