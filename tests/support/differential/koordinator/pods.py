"""Random pods of all of Koordinator's classes, with what estimates of their usage depend on."""

from __future__ import annotations

import json
from random import Random

from support.differential.choosing import Json, Part, by_chance, merged, some
from support.differential.koordinator.generated import SCHEDULER_NAME
from support.differential.koordinator.moments import moment
from support.differential.koordinator.vocabulary import BATCH, DEPRECATED_BATCH_CPU, GPU, MID, PRIORITIES, PRIORITY_CLASS_LABELS, QOS_LABELS
from support.differential.pods import with_pod_level

SCALING_FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
SECONDS_AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
SECONDS_AFTER_INITIALIZED = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
ODD_FACTORS = (
    "{",
    "[]",
    "null",
    "{}",
    '{"cpu": "80"}',
    '{"cpu": 80.5}',
    '{"cpu": 0}',
    '{"cpu": 250, "memory": 130}',
    '{"cpu": null}',
    '{"CPU": 10}',
)
ODD_SECONDS = ("-5", "abc", "", "1.5", "+30", " 30", "1_0", "99999999999999999999", "0", "30", "300", "100000")
SCHEDULED = (-5, -15, -21, -60, -80, -90, -200, -290, -310, -600, -3600, -9000)
"""Seconds: on either side of the times at which usage was reported, with or without its interval."""
OVERHEAD = "heavy"
RUNTIME_CLASS: Json = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": OVERHEAD},
    "handler": OVERHEAD,
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
}


def pending_pod(random: Random, name: str) -> Json:
    body = merged([bare(random, name), by_chance(random, PARTS)])
    return with_pod_level(random, without_limits(body)) if random.random() < 0.06 else body


def bound_pod(random: Random, name: str, node: str) -> Json:
    """Return a pod that is on the node already; what it has been through is in its conditions."""
    return merged([pending_pod(random, name), {"spec": {"nodeName": node}}, {"status": progress(random)}])


def progress(random: Random) -> Json:
    """Return the status of a bound pod: it may be scheduled, initialized, or over."""
    conditions = []
    if random.random() < 0.85:
        conditions.append(condition(random, "PodScheduled", 0.95))
    if random.random() < 0.6:
        conditions.append(condition(random, "Initialized", 0.8))
    phase = random.choices(["Running", "Pending", "Succeeded", "Failed"], [70, 20, 5, 5])[0]
    return {"phase": phase, "conditions": conditions}


def condition(random: Random, kind: str, holds: float) -> Json:
    return {
        "type": kind,
        "status": "True" if random.random() < holds else "False",
        "lastTransitionTime": moment(random.choice(SCHEDULED)),
    }


def bare(random: Random, name: str) -> Json:
    metadata = {"name": name, "namespace": "default"}
    container = {"name": "main", "image": "registry.example/app:1", **resources(random)}
    spec = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def resources(random: Random) -> Json:
    """Return what a container asks for and may use: none, zeros, usual amounts, or more than most nodes have."""
    requests: Json = {}
    limits: Json = {}
    for resource, chance, amounts in AMOUNTS:
        if random.random() >= chance:
            continue
        asked = random.randrange(len(amounts))
        shape = random.choice(["request", "request", "limit", "both", "both"])
        if shape != "limit":
            requests[resource] = amounts[asked]
        if shape == "both":
            limits[resource] = amounts[random.randrange(asked, len(amounts))]
        if shape == "limit" or resource in (GPU, DEPRECATED_BATCH_CPU):
            limits[resource] = requests[resource] = amounts[asked]  # as the API server would write it
    found = {name: chosen for name, chosen in (("requests", requests), ("limits", limits)) if chosen}
    return {"resources": found} if found else {}


AMOUNTS: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("cpu", 0.7, ("0", "20m", "100m", "200m", "200m", "333m", "500m", "1", "2", "5")),
    ("memory", 0.7, ("0", "64Mi", "100M", "256Mi", "256Mi", "1Gi", "3Gi", "9Gi")),
    ("ephemeral-storage", 0.1, ("0", "100Mi", "5Gi")),
    (GPU, 0.06, ("0", "1", "2")),
    (BATCH[0], 0.12, ("0", "100", "777", "2500")),
    (BATCH[1], 0.12, ("0", "100Mi", "2Gi")),
    (MID[0], 0.06, ("0", "150", "1000")),
    (MID[1], 0.06, ("64Mi", "1Gi")),
    (DEPRECATED_BATCH_CPU, 0.03, ("100", "1500")),
)
"""In ascending order, as limits must not be less than requests."""


def without_limits(body: Json) -> Json:
    """Leave only requests, and of those none that need limits: with limits the API server would want more of a pod-level request."""
    for container in body["spec"]["containers"] + body["spec"].get("initContainers", []):
        requests = container.get("resources", {}).get("requests", {})
        container["resources"] = {
            "requests": {name: amount for name, amount in requests.items() if name not in (GPU, DEPRECATED_BATCH_CPU)}
        }
    return body


def second(random: Random) -> Json:
    return {"spec": {"containers": [{"name": "second", "image": "registry.example/app:1", **resources(random)}]}}


def init_containers(random: Random) -> Json:
    """Return one or two init containers, of which some are sidecars."""
    made = []
    for i in range(random.randint(1, 2)):
        container = {"name": f"init-{i}", "image": "registry.example/app:1", **resources(random)}
        made.append(container | ({"restartPolicy": "Always"} if random.random() < 0.5 else {}))
    return {"spec": {"initContainers": made}}


def overhead(_random: Random) -> Json:
    return {"spec": {"runtimeClassName": OVERHEAD, "overhead": RUNTIME_CLASS["overhead"]["podFixed"]}}


def priority(random: Random) -> Json:
    name = random.choice(list(PRIORITIES))
    return {"spec": {"priorityClassName": name, "priority": PRIORITIES[name]}}


def class_label(random: Random) -> Json:
    return {"metadata": {"labels": {"koordinator.sh/priority-class": random.choice(PRIORITY_CLASS_LABELS)}}}


def qos_label(random: Random) -> Json:
    return {"metadata": {"labels": {"koordinator.sh/qosClass": random.choice(QOS_LABELS)}}}


def own_factors(random: Random) -> Json:
    usual = json.dumps({name: random.choice([10, 60, 100]) for name in some(random, ("cpu", "memory", GPU), 2)})
    return {"metadata": {"annotations": {SCALING_FACTORS: random.choice([usual, usual, *ODD_FACTORS])}}}


def own_seconds(random: Random) -> Json:
    keys = some(random, (SECONDS_AFTER_SCHEDULED, SECONDS_AFTER_INITIALIZED), 2)
    return {"metadata": {"annotations": {key: random.choice(ODD_SECONDS) for key in keys}}}


def of_daemon_set(_random: Random) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d-1", "controller": True}
    return {"metadata": {"ownerReferences": [owner]}}


PARTS: tuple[tuple[float, Part], ...] = (
    (0.2, second),
    (0.15, init_containers),
    (0.55, priority),
    (0.3, class_label),
    (0.25, qos_label),
    (0.25, own_factors),
    (0.25, own_seconds),
    (0.06, of_daemon_set),
)
