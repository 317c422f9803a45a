"""Random clusters: nodes, namespaces, and pods that run there already.

Small on purpose: with few nodes, few labels and few sizes many pods are refused for several reasons at once, and many nodes tie.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from support.differential.choosing import Json, Part, by_chance, merged, some
from support.differential.features import Feature
from support.differential.owners import budgets, services
from support.differential.pods import PRIORITY_CLASSES, RUNTIME_CLASS, Circumstances, bound_pod
from support.differential.storage import NONE, claims_of, storage
from support.differential.vocabulary import DISKS, GPU, HUGE, IMAGES, NAMESPACES, TAINTS, TEAMS, TIERS, ZONES


class GeneratedCluster(NamedTuple):
    """The objects to create, in this order; then the pods to delete, which stay, terminating. `claims`: what pending pods may name."""

    objects: list[Json]
    terminating: list[Json]
    claims: list[str]


def cluster(random: Random, features: frozenset[Feature]) -> GeneratedCluster:
    nodes = [node(random, f"n{i}") for i in range(random.randint(3, 10))]
    names = [made["metadata"]["name"] for made in nodes]
    namespaces = [namespace(random, name) for name in NAMESPACES[1:]]
    stored = storage(random, names) if Feature.VOLUMES in features else NONE
    pods = []
    claims = stored.bound
    for i in range(random.randint(0, 2 * len(names))):
        pods.append(bound_pod(random, f"r{i}", random.choice(names), Circumstances(features, claims)))
        claims = [name for name in claims if name not in stored.exclusive or name not in claims_of(pods[-1])]
    terminating = [pod for pod in pods if pod["spec"]["terminationGracePeriodSeconds"]]
    around = [*(services(random) if Feature.SPREADING in features else []), *(budgets(random) if Feature.PREEMPTION in features else [])]
    return GeneratedCluster(
        [*namespaces, *around, *PRIORITY_CLASSES, RUNTIME_CLASS, *nodes, *stored.objects, *pods], terminating, stored.claims
    )


def namespace(random: Random, name: str) -> Json:
    labels = {"team": random.choice(TEAMS)} if random.random() < 0.7 else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def node(random: Random, name: str) -> Json:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
    return merged([body, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, room(random), by_chance(random, PARTS)])


def room(random: Random) -> Json:
    amounts = {
        "cpu": random.choice(["2", "4", "4", "8", "3500m"]),
        "memory": random.choice(["4Gi", "8Gi", "8Gi", "16Gi", "6000M"]),
        "pods": random.choice(["110", "110", "110", "110", "8", "3", "0"]),
    }
    if random.random() < 0.3:
        amounts["ephemeral-storage"] = random.choice(["1Gi", "10Gi"])
    if random.random() < 0.3:
        amounts[GPU] = random.choice(["0", "1", "4"])
    if random.random() < 0.1:
        amounts[HUGE] = "512Mi"
    if random.random() < 0.05:
        del amounts["memory"]
    return {"status": {"allocatable": amounts, "capacity": amounts}}


def zone(random: Random) -> Json:
    labels = {"topology.kubernetes.io/zone": random.choice(ZONES)}
    if random.random() < 0.3:
        labels["topology.kubernetes.io/region"] = "r1"
    return _labels(labels)


def disk(random: Random) -> Json:
    return _labels({"disk": random.choice(DISKS)})


def tier(random: Random) -> Json:
    return _labels({"tier": random.choice(TIERS)})


def taints(random: Random) -> Json:
    chosen = {(taint["key"], taint["effect"]): taint for taint in some(random, TAINTS, 2)}
    return {"spec": {"taints": list(chosen.values())}}


def cordon(_random: Random) -> Json:
    return {"spec": {"unschedulable": True}}


def images(random: Random) -> Json:
    return {"status": {"images": some(random, IMAGES, 3)}}


def _labels(labels: Json) -> Json:
    return {"metadata": {"labels": labels}}


PARTS: tuple[tuple[float, Part], ...] = ((0.8, zone), (0.6, disk), (0.6, tier), (0.35, taints), (0.12, cordon), (0.5, images))
