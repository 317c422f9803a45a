"""Fill in what an API server, a kubelet or a cloud would add to a Node or a Pod that a person wrote by hand, and leave out what a dump of
another cluster says that cannot hold in this one.

Shared by `simulate` and `test` (scenarios.md "Objects"), so that both read the same short manifests. Inputs are never changed: a document
may share parts with others through YAML aliases. What has the wrong type is left alone, for the API's validation to name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koordsched.api.names import is_extended_resource_name

HOSTNAME_LABEL = "kubernetes.io/hostname"
MAX_PODS = "110"
"""The kubelet's default for the number of pods on a node."""

Json = dict[str, Any]


def complete_node(body: Mapping[str, Any]) -> Json:
    """Add apiVersion, the hostname label, the Ready condition, `pods` and whichever of capacity and allocatable is missing."""
    made = {"apiVersion": "v1", **body}
    metadata = mapping(made.get("metadata"))
    labels = metadata.get("labels") or {}
    if isinstance(labels, dict):
        made["metadata"] = {**metadata, "labels": {HOSTNAME_LABEL: metadata.get("name"), **labels}}
    status = mapping(made.get("status"))
    allocatable = _with_pods(status.get("allocatable") or status.get("capacity") or {})
    capacity = _with_pods(status.get("capacity") or allocatable)
    made["status"] = {**status, "allocatable": allocatable, "capacity": capacity, "conditions": _with_ready(status.get("conditions") or [])}
    return made


def complete_pod(body: Mapping[str, Any], scheduler_name: str) -> Json:
    """Add apiVersion, the container `main` made of top-level `resources`, the scheduler's name, grace period 0 and the phase."""
    made = {"apiVersion": "v1", **body}
    resources = made.pop("resources", None)
    spec = dict(mapping(made.get("spec")))
    if not spec.get("containers"):
        spec["containers"] = [_main_container(resources)]
    spec["schedulerName"] = spec.get("schedulerName") or scheduler_name
    spec.setdefault("terminationGracePeriodSeconds", 0)
    status = mapping(made.get("status"))
    made["spec"] = spec
    made["status"] = {"phase": "Running" if spec.get("nodeName") else "Pending", **status}
    return made


def complete_reservation(body: Mapping[str, Any], scheduler_name: str) -> Json:
    """Complete a Reservation's template as far as that says what is reserved, and which scheduler does: as a pod's is."""
    spec = mapping(body.get("spec"))
    template = spec.get("template")
    if not isinstance(template, dict):
        return dict(body)
    made = dict(template)
    resources = made.pop("resources", None)
    inner = dict(mapping(made.get("spec")))
    if not inner.get("containers") and resources is not None:
        inner["containers"] = [_main_container(resources)]
    inner["schedulerName"] = inner.get("schedulerName") or scheduler_name
    return {**body, "spec": {**spec, "template": {**made, "spec": inner}}}


def complete_volume(body: Mapping[str, Any]) -> Json:
    """Let a persistent volume name its claim by name alone: uids are another cluster's."""
    spec = mapping(body.get("spec"))
    if not isinstance(spec.get("claimRef"), dict):
        return dict(body)
    ref = {key: value for key, value in spec["claimRef"].items() if key not in {"uid", "resourceVersion"}}
    return {**body, "spec": {**spec, "claimRef": ref}}


def complete_claim(body: Mapping[str, Any]) -> Json:
    """Let a claim name its owner (the pod of an ephemeral volume) by name alone."""
    metadata = mapping(body.get("metadata"))
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list) or not all(isinstance(owner, dict) for owner in owners):
        return dict(body)
    named = [{key: value for key, value in owner.items() if key != "uid"} for owner in owners]
    return {**body, "metadata": {**metadata, "ownerReferences": named}}


def mapping(value: Any) -> Json:
    """Return the value where it is a map, else an empty one."""
    return value if isinstance(value, dict) else {}


def _main_container(resources: Any) -> Json:
    container: Json = {"name": "main", "image": "pause"}
    if resources is not None:
        container["resources"] = _with_limits(resources)
    return container


def _with_limits(resources: Any) -> Any:
    """Make limits equal to requests where overcommitting is not allowed (extended resources, huge pages) and only requests are given."""
    requests = mapping(resources).get("requests")
    if not isinstance(requests, dict) or "limits" in resources:
        return resources
    limits = {name: amount for name, amount in requests.items() if is_extended_resource_name(name) or name.startswith("hugepages-")}
    return {**resources, "limits": limits} if limits else resources


def _with_pods(amounts: Any) -> Any:
    return {**amounts, "pods": amounts.get("pods", MAX_PODS)} if isinstance(amounts, dict) else amounts


def _with_ready(conditions: Any) -> Any:
    if not isinstance(conditions, list) or any(mapping(condition).get("type") == "Ready" for condition in conditions):
        return conditions
    return [*conditions, {"type": "Ready", "status": "True"}]
