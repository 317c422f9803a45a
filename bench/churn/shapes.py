"""The pods that come and go: plain ones, and some that spread, repel each other, need a port, a label or a volume; some are important."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

SCHEDULER_NAME = "default-scheduler"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = tuple(f"app-{i}" for i in range(6))
PRIORITIES = {"churn-low": -10, "churn-high": 100}
CLASS = "churn-volumes"
PLAIN = "plain"
EXCLUSIVE = "exclusive"
SHAPES = {
    PLAIN: 50,
    "spread": 12,
    EXCLUSIVE: 8,
    "repelled": 6,
    "near": 6,
    "port": 5,
    "selecting": 5,
    "tolerant": 5,
    "large": 2,
    "volume": 1,
}

Json = dict[str, Any]


class Made(NamedTuple):
    """A pod, and the name of the claim that has to be there first, "" for none."""

    pod: Json
    claim: str


def pod(random: Random, number: int) -> Made:
    """Return a pod of a random shape; its label `shape` says which."""
    shape = random.choices(list(SHAPES), list(SHAPES.values()))[0]
    app = random.choice(APPS)
    cpu = f"{random.choice([50, 100, 100, 200, 400, 800])}m"
    container: Json = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    spec: Json = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container]}
    if random.random() < 0.2:
        spec["priorityClassName"] = random.choice(list(PRIORITIES))
    metadata: Json = {"name": f"p{number}", "labels": {"app": app, "shape": shape}}
    claim = f"c{number}" if shape == "volume" else ""
    match shape:
        case "spread":
            spec["topologySpreadConstraints"] = [spread(random, app)]
        case "exclusive":
            group = f"group-{random.randrange(5)}"
            metadata["labels"]["group"] = group
            spec["affinity"] = {"podAntiAffinity": required({"matchLabels": {"group": group}}, HOSTNAME)}
        case "repelled":
            term = {"weight": 50, "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}}
            spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        case "near":
            spec["affinity"] = {"podAffinity": required({"matchLabels": {"app": app}}, ZONE)}
        case "port":
            container["ports"] = [{"containerPort": 80, "hostPort": random.choice([80, 8080])}]
        case "selecting":
            spec["nodeSelector"] = {"disk": random.choice(["ssd", "hdd"])}
        case "tolerant":
            spec["tolerations"] = [{"operator": "Exists"}]
        case "large":
            container["resources"]["requests"]["cpu"] = random.choice(["6", "64"])
        case "volume":
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return Made({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, claim)


def spread(random: Random, app: str) -> Json:
    action = random.choice(["DoNotSchedule", "ScheduleAnyway"])
    selector = {"matchLabels": {"app": app}}
    return {"maxSkew": random.choice([1, 5]), "topologyKey": ZONE, "whenUnsatisfiable": action, "labelSelector": selector}


def required(selector: Json, key: str) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, "topologyKey": key}]}


def claim(name: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def storage_class() -> Json:
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS}}
    return {**head, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}


def priority_classes() -> list[Json]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**head, "metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()]
