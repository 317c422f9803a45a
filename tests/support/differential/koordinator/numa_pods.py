"""Random pods that want CPUs of their own, or what they ask for from as few NUMA nodes as a policy says (nodenumaresource.md §1, §4)."""

from __future__ import annotations

import json
from random import Random

from support.differential.choosing import Json, by_chance, merged
from support.differential.koordinator.generated import SCHEDULER_NAME
from support.differential.koordinator.vocabulary import PRIORITIES

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"
BIND_POLICIES = ("Default", "FullPCPUs", "FullPCPUs", "SpreadByPCPUs", "ConstrainedBurst", "")
EXCLUSIVE_POLICIES = ("None", "PCPULevel", "NUMANodeLevel")
QOS_CLASSES = ("LSR", "LSR", "LSR", "LSR", "LSE", "LSE", "LS", "BE", "")
CPUS = ("1", "2", "2", "2", "3", "4", "4", "4", "6", "8", "8", "12", "16", "0", "500m", "1500m", "2500m")
MEMORIES = ("1Gi", "1Gi", "4Gi", "16Gi", "24Gi", "40Gi", "0")


def pending_pod(random: Random, name: str) -> Json:
    """Return a pod to schedule."""
    amounts = {"cpu": random.choice(CPUS), "memory": random.choice(MEMORIES)}
    qos = random.choice(QOS_CLASSES)
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    parts = by_chance(random, ((0.5, binding), (0.25, numa), (0.2, priority), (0.1, sidecar), (0.08, class_label)))
    return merged(
        [asking(name, {key: amount for key, amount in amounts.items() if amount != "0"}), {"metadata": {"labels": labels}}, parts]
    )


def asking(name: str, amounts: dict[str, str]) -> Json:
    """Return a pod of one container."""
    container: Json = {"name": "main", "image": "registry.example/app:1"}
    if amounts:
        container["resources"] = {"requests": amounts, "limits": amounts}
    spec = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def binding(random: Random) -> Json:
    """Return what a pod says of its CPUs."""
    spec: Json = {}
    if random.random() < 0.5:
        spec["preferredCPUBindPolicy"] = random.choice(BIND_POLICIES)
    if random.random() < 0.5:
        spec["requiredCPUBindPolicy"] = random.choice(BIND_POLICIES)
    if random.random() < 0.5:
        spec["preferredCPUExclusivePolicy"] = random.choice(EXCLUSIVE_POLICIES)
    return {"metadata": {"annotations": {RESOURCE_SPEC: json.dumps(spec)}}}


def numa(random: Random) -> Json:
    """Return what a pod says of NUMA nodes."""
    spec: Json = {}
    if random.random() < 0.85:
        spec["numaTopologyPolicy"] = random.choice(["BestEffort", "Restricted", "SingleNUMANode", "SingleNUMANode", ""])
    if random.random() < 0.5:
        spec["singleNUMANodeExclusive"] = random.choice(["Required", "Preferred"])
    return {"metadata": {"annotations": {NUMA_SPEC: json.dumps(spec)}}}


def priority(random: Random) -> Json:
    name = random.choice(["prod", "prod", "mid", "batch"])
    return {"spec": {"priorityClassName": name, "priority": PRIORITIES[name]}}


def class_label(random: Random) -> Json:
    return {"metadata": {"labels": {"koordinator.sh/priority-class": random.choice(["koord-prod", "koord-batch", "gold"])}}}


def sidecar(random: Random) -> Json:
    """Return a second container, or one that runs first."""
    amounts = {"cpu": random.choice(["1", "2", "500m"])}
    made = {"name": "second", "image": "registry.example/app:1", "resources": {"requests": amounts, "limits": amounts}}
    return {"spec": {random.choice(["containers", "initContainers"]): [made]}}
