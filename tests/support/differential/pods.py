"""Random pods. Each is a bare one with parts added by chance, so that most ask for little and some for much that excludes each other."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from support.differential.affinity import node_affinity, pod_affinity
from support.differential.choosing import Json, Part, by_chance, merged, some
from support.differential.features import Feature
from support.differential.owners import owned
from support.differential.spreading import spreading
from support.differential.storage import volumes
from support.differential.vocabulary import APPS, ASKED_IMAGES, DISKS, GPU, HUGE, NAMESPACES, TOLERATIONS, ZONES

OVERHEAD = "heavy"
RUNTIME_CLASS: Json = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": OVERHEAD},
    "handler": OVERHEAD,
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
}
PRIORITIES = {"low": 5, "high": 10, "top": 100}
PRIORITY_CLASSES: list[Json] = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in PRIORITIES.items()
]
Parts = tuple[tuple[Feature | None, float, Part], ...]
GRACE_SECONDS = 3600


class Circumstances(NamedTuple):
    """What a pod may make use of."""

    features: frozenset[Feature]
    claims: list[str]


def pending_pod(random: Random, name: str, circumstances: Circumstances) -> Json:
    """Return a pod to schedule."""
    body = _pod(random, name, PARTS, circumstances)
    return with_pod_level(random, body) if random.random() < 0.08 else body


def bound_pod(random: Random, name: str, node: str, circumstances: Circumstances) -> Json:
    """Return a pod that runs on the node already, with whatever others look at in it."""
    there: Json = {"spec": {"nodeName": node}}
    if random.random() < 0.1:  # to be deleted; and important, since a victim that is leaving anyway would keep the test waiting
        there["spec"] |= {"terminationGracePeriodSeconds": GRACE_SECONDS, "priorityClassName": "top"}
    return merged([_pod(random, name, BOUND_PARTS, circumstances), there])


def _pod(random: Random, name: str, parts: Parts, circumstances: Circumstances) -> Json:
    chosen = [(chance, part) for feature, chance, part in parts if feature is None or feature in circumstances.features]
    body = merged([bare(random, name), by_chance(random, chosen)])
    if circumstances.claims and random.random() < 0.3:
        body = merged([body, volumes(random, circumstances.claims)])
        body["metadata"]["namespace"] = "default"  # where the claims are
    return body


def bare(random: Random, name: str) -> Json:
    labels = {"app": random.choice(APPS)} | ({"version": random.choice("12")} if random.random() < 0.5 else {})
    metadata = {"name": name, "namespace": random.choice((NAMESPACES[0], *NAMESPACES)), "labels": labels}
    container = {"name": "main", "image": random.choice(ASKED_IMAGES), **requests(random)}
    spec = {"schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def requests(random: Random) -> Json:
    """Return the resources of a container: none, zeros, usual ones, or more than most nodes have."""
    asked: Json = {}
    if random.random() < 0.75:
        asked["cpu"] = random.choice(["0", "50m", "100m", "250m", "250m", "500m", "1", "333m", "3"])
    if random.random() < 0.75:
        asked["memory"] = random.choice(["0", "64Mi", "100M", "128Mi", "256Mi", "1Gi", "3Gi"])
    if random.random() < 0.1:
        asked["ephemeral-storage"] = random.choice(["0", "100Mi", "5Gi"])
    return {"resources": {"requests": asked}} if asked else {}


def equal_limits(amounts: Json) -> Json:
    return {"requests": amounts, "limits": amounts}


def device(random: Random) -> Json:
    return _another("device", {"resources": equal_limits({GPU: random.choice(["1", "2"])})})


def huge_pages(random: Random) -> Json:
    return _another("huge", {"resources": equal_limits({HUGE: random.choice(["2Mi", "256Mi"]), "memory": "64Mi", "cpu": "10m"})})


def second(random: Random) -> Json:
    return _another("second", {"image": random.choice(ASKED_IMAGES), **requests(random)})


def init_containers(random: Random) -> Json:
    """Return one to three init containers, of which some are sidecars."""
    made = []
    for i in range(random.randint(1, 3)):
        container = {"name": f"init-{i}", "image": random.choice(ASKED_IMAGES), **requests(random)}
        made.append(container | ({"restartPolicy": "Always"} if random.random() < 0.5 else {}))
    return {"spec": {"initContainers": made}}


def overhead(_random: Random) -> Json:
    return {"spec": {"runtimeClassName": OVERHEAD}}


def with_pod_level(random: Random, body: Json) -> Json:
    """Let the pod as a whole request more than its containers do together, as the API demands."""
    level = {"cpu": random.choice(["200m", "500m", "2"])} | ({"memory": random.choice(["200Mi", "1Gi"])} if random.random() < 0.5 else {})
    for container in body["spec"]["containers"] + body["spec"].get("initContainers", []):
        asked = container.get("resources", {}).get("requests", {})
        for resource in asked.keys() & level.keys():
            asked[resource] = "10m" if resource == "cpu" else "10Mi"
    return merged([body, {"spec": {"resources": {"requests": level}}}])


def host_port(random: Random) -> Json:
    port: Json = {"containerPort": 80, "hostPort": random.choice([80, 80, 8080])}
    port |= random.choice([{}, {}, {"hostIP": "10.1.2.3"}, {"hostIP": "127.0.0.1"}, {"hostIP": "0.0.0.0"}])
    port |= random.choice([{}, {}, {"protocol": "UDP"}])
    return _another("server", {"ports": [port]})


def tolerations(random: Random) -> Json:
    return {"spec": {"tolerations": some(random, TOLERATIONS, 3)}}


def node_selector(random: Random) -> Json:
    labels = [("disk", random.choice(DISKS)), ("topology.kubernetes.io/zone", random.choice(ZONES)), ("no-node", "has-it")]
    return {"spec": {"nodeSelector": dict(random.sample(labels[:2] if random.random() < 0.9 else labels, 1))}}


def priority(random: Random) -> Json:
    return {"spec": {"priorityClassName": random.choice(["low", "high"])}}


def _another(name: str, container: Json) -> Json:
    return {"spec": {"containers": [{"name": name, "image": "registry.example/app:1", **container}]}}


PARTS: Parts = (
    (None, 0.12, device),
    (None, 0.04, huge_pages),
    (None, 0.15, second),
    (None, 0.2, init_containers),
    (None, 0.08, overhead),
    (None, 0.15, host_port),
    (None, 0.5, tolerations),
    (None, 0.1, node_selector),
    (None, 0.4, node_affinity),
    (Feature.SPREADING, 0.35, spreading),
    (Feature.SPREADING, 0.25, owned),
    (Feature.POD_AFFINITY, 0.35, pod_affinity),
    (Feature.PREEMPTION, 0.4, priority),
)
BOUND_PARTS: Parts = (
    (None, 0.1, device),
    (None, 0.2, init_containers),
    (None, 0.25, host_port),
    (Feature.SPREADING, 0.3, owned),
    (Feature.POD_AFFINITY, 0.35, pod_affinity),
    (Feature.PREEMPTION, 0.5, priority),
)
