"""What comes and goes: pods of many kinds, gangs, quotas and Reservations, as users write them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from side_by_side import gangs, gpus

from koordsched.api.kinds import ELASTIC_QUOTA, POD_GROUP, RESERVATION
from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.network_topology import TOPOLOGY_SPEC
from koordsched.api.koordinator.quota_definitions import IS_PARENT, PARENT, QUOTA_NAME, TRUE

SCHEDULER_NAME = "default-scheduler"
QUOTA_NAMESPACE = "koordinator-system"
POD_GROUPS = f"/apis/{POD_GROUP.api_version}/namespaces/default/podgroups"
QUOTAS = f"/apis/{ELASTIC_QUOTA.api_version}/namespaces/{QUOTA_NAMESPACE}/elasticquotas"
RESERVATIONS = f"/apis/{RESERVATION.api_version}/reservations"
NETWORK = "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies"
KIND = "soak-kind"
PLAIN, OF_QUOTA, OWNER, OWN_CPUS, GPU_SHARE, GPUS, JOINT, IMPORTANT, GANG = (
    "plain",
    "quota",
    "owner",
    "cpus",
    "gpu-share",
    "gpus",
    "joint",
    "important",
    "gang",
)
WEIGHTS = {PLAIN: 30, OF_QUOTA: 22, OWNER: 14, OWN_CPUS: 14, GPU_SHARE: 8, GPUS: 4, JOINT: 4, IMPORTANT: 4}
OWNER_LABEL, OWNERS = "soak-owner", 8
TEAMS = {f"team-{team}": [f"team-{team}-{leaf}" for leaf in range(4)] for team in range(3)}
TEAM_MOST, LEAF_MOST = 60, 20  # CPUs
MEMORY_OF_A_CPU = 4  # Gi, of what quotas allow
PRIORITIES = {"koord-prod": 9000, "soak-important": 9500}
RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
BIND_POLICIES = (
    {"preferredCPUBindPolicy": "FullPCPUs"},
    {"preferredCPUBindPolicy": "SpreadByPCPUs"},
    {"requiredCPUBindPolicy": "FullPCPUs"},
    {"requiredCPUBindPolicy": "SpreadByPCPUs"},
)

Json = dict[str, Any]


def pod(random: Random, number: int, quotas: list[str]) -> Json:
    """Return a pod of a random kind; its label KIND says which. quotas: those that take pods."""
    kind = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    requests = {"cpu": random.choice(["250m", "500m", "1", "2"]), "memory": "512Mi"}
    labels, annotations, spec = {KIND: kind}, {}, {}
    match kind:
        case "quota":
            labels[QUOTA_NAME] = random.choice(quotas)
        case "owner":
            labels[OWNER_LABEL] = f"o{random.randrange(OWNERS)}"
        case "cpus":
            requests["cpu"] = random.choice(["2", "4"])
            labels["koordinator.sh/qosClass"] = "LSR"
            spec["priorityClassName"] = "koord-prod"
            annotations[RESOURCE_SPEC] = json.dumps(random.choice(BIND_POLICIES))
        case "gpu-share":
            requests |= {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}
        case "gpus":
            requests |= {"nvidia.com/gpu": random.choice(["1", "2"])}
        case "joint":
            requests |= {"nvidia.com/gpu": "2", "koordinator.sh/rdma": "1"}
            annotations |= gpus.TOGETHER
        case "important":
            requests["cpu"] = "4"
            spec["priorityClassName"] = "soak-important"
    return pod_of(f"p{number}", requests, labels, annotations, spec)


def pod_of(name: str, requests: Json, labels: Json, annotations: Json | None = None, spec: Json | None = None) -> Json:
    extended = {resource: amount for resource, amount in requests.items() if "/" in resource}  # no request without a limit
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": extended}}
    whole = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container], **(spec or {})}
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def pod_group(name: str, members: int, *, gathered: bool) -> Json:
    """Return a PodGroup; gathered: its members have to be in one block of the network."""
    spec = '{"gatherStrategy":[{"layer":"Block","strategy":"MustGather"}]}'
    metadata = {"name": name, "annotations": {TOPOLOGY_SPEC: spec} if gathered else {}}
    return {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind, "metadata": metadata, "spec": {"minMember": members}}


def member(gang: str, number: int) -> Json:
    return pod_of(f"{gang}-{number}", {"cpu": "1", "memory": "512Mi"}, {KIND: GANG, POD_GROUP_LABEL: gang})


def network() -> Json:
    layers: list[Json] = [
        {"topologyLayer": "Block", "labelKey": ["block"]},
        {"topologyLayer": "Rack", "parentTopologyLayer": "Block", "labelKey": ["rack"]},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Rack"},
    ]
    body = gangs.topology()[1]
    return {**body, "spec": {"networkTopologySpec": layers}}


def quota(name: str, most: int, parent: str = "") -> Json:
    """Return a quota; one without a parent is the parent of others."""
    labels = {PARENT: parent} if parent else {IS_PARENT: TRUE}
    spec = {"max": {"cpu": str(most), "memory": f"{MEMORY_OF_A_CPU * most}Gi"}, "min": {"cpu": str(most // 4)}}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": ELASTIC_QUOTA.api_version, "kind": ELASTIC_QUOTA.kind, "metadata": metadata, "spec": spec}


def reservation(random: Random, name: str) -> Json:
    """Return a Reservation for one kind of owners: some for the first owner alone, some that expire."""
    requests = {"cpu": str(random.choice([2, 4, 6])), "memory": "4Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    spec = {
        "owners": [{"labelSelector": {"matchLabels": {OWNER_LABEL: f"o{random.randrange(OWNERS)}"}}}],
        "ttl": random.choice(["0s", "0s", "90s"]),
        "allocateOnce": random.random() < 0.3,
        "allocatePolicy": "Restricted",
        "template": {"spec": {"schedulerName": SCHEDULER_NAME, "containers": [container]}},
    }
    return {"apiVersion": RESERVATION.api_version, "kind": RESERVATION.kind, "metadata": {"name": name}, "spec": spec}


def priority_classes() -> list[Json]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**head, "metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()]
