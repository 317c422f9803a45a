"""/apis/v1/nodes/NAME: what the scheduler believes of a node, with the field names of Koordinator's answer (frameworkext.md §9).

Amounts have the names of kube-scheduler's Resource: cpu in milli-cores, all others in whole units. Node and pods are shown as far as
scheduling reads them, and after transformers: their resources have the names that the scheduler uses.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo

NATIVE = {"cpu": "MilliCPU", "memory": "Memory", "ephemeral-storage": "EphemeralStorage", "pods": "AllowedPodNumber"}

Amounts = dict[str, Any]


def node_info(node: NodeInfo, cache: Cache) -> dict[str, Any]:
    """Return the answer about a node; what is empty is left out."""
    names, pods = list(cache.columns.resources), list(node.pods.values())
    allocatable = {name: amount for name in names if (amount := node.allocatable(name))}
    requested = {name: amount for name in names if name != "pods" and (amount := node.requested(name))}
    cpu, memory = cache.table.nonzero_of(node.row)
    remaining = {name: allocatable.get(name, 0) - requested.get(name, 0) for name in (allocatable | requested)}
    images = () if node.node is None else [name for image in node.node.status.images for name in image.names]
    body = {
        "node": node.node,
        "pods": [_pod(pod) for pod in pods],
        "podsWithAffinity": [_pod(pod) for pod in pods if _has_affinity(pod.pod)],
        "podsWithRequiredAntiAffinity": [_pod(pod) for pod in pods if _keeps_others_away(pod.pod)],
        "usedPorts": _ports(pods),
        "requested": _resource(requested),
        "nonZeroRequested": _resource({"cpu": cpu, "memory": memory}),
        "remaining": _resource(remaining),
        "allocatable": _resource(allocatable),
        "imageStates": {
            name: {"Size": known.size, "NumNodes": cache.table.count_bits(known.bit)}
            for name in images
            if (known := cache.columns.images.get(name)) is not None
        },
        "pvcRefCounts": Counter(claim.key for pod in pods if pod.volumes is not None for claim in pod.volumes.claims),
    }
    return {key: value for key, value in body.items() if value}


def _resource(amounts: Mapping[str, int]) -> Amounts:
    """Return amounts as kube-scheduler's Resource: its own fields, always, and all other resources by name, null for none."""
    scalars = {name: amount for name, amount in amounts.items() if name not in NATIVE}
    return {field: amounts.get(name, 0) for name, field in NATIVE.items()} | {"ScalarResources": scalars or None}


def _pod(pod: PodInfo) -> dict[str, Pod]:
    return {"Pod": pod.pod}


def _has_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def _keeps_others_away(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    avoided = None if affinity is None else affinity.pod_anti_affinity
    return avoided is not None and bool(avoided.required_during_scheduling_ignored_during_execution)


def _ports(pods: Iterable[PodInfo]) -> dict[str, list[dict[str, object]]]:
    """Return the host ports in use by address."""
    found: dict[str, list[dict[str, object]]] = {}
    for pod in pods:
        for port in pod.ports:
            found.setdefault(port.ip, []).append({"Protocol": port.protocol, "Port": port.port})
    return found
