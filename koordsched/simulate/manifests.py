"""Manifests in files -> a workload: lists are opened, short objects completed, and what is no object is rejected without stopping.

Takes what people have: hand-written YAML, `kubectl get -o yaml` and `-o json` lists of a live cluster, several documents in a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from koordsched.api.kinds import (
    NAMESPACE,
    NODE,
    NODE_RESOURCE_TOPOLOGY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    Kind,
    kind_of,
    meant_by,
)
from koordsched.clock import parse_rfc3339
from koordsched.manifests.completion import complete_claim, complete_node, complete_pod, complete_volume, mapping
from koordsched.manifests.documents import read_documents
from koordsched.plugins import tooling
from koordsched.simulate.workload import Manifest, PodArrival, Rejection, Workload
from koordsched.yamltext.documents import shown

DEFAULT_SCHEDULER = "default-scheduler"
FINISHED = ("Succeeded", "Failed")
GATE_KINDS = (NAMESPACE, PRIORITY_CLASS, STORAGE_CLASS, PERSISTENT_VOLUME)
"""Kinds that others need to be there when they are created."""

ELSEWHERE = frozenset({"uid", "resourceVersion", "generation", "managedFields", "selfLink"})
"""Metadata of a dump that means nothing in another cluster."""

SAME_FIELDS = {("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"): NODE_RESOURCE_TOPOLOGY}
"""Newer versions of kinds, which `kubectl get` prefers, that are read as the version that the scheduler reads."""

COMPLETIONS: dict[Kind, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    NODE: complete_node,
    PERSISTENT_VOLUME: complete_volume,
    PERSISTENT_VOLUME_CLAIM: complete_claim,
    **{form.kind: form.complete for each in tooling() for form in each.short_forms},
}


def load_manifests(files: Iterable[str], profiles: list[str]) -> Workload:
    """Read the files into a workload whose pods are for the profiles of these names. InputError: a file cannot be read."""
    workload = Workload()
    unknown: Counter[str] = Counter()
    bound: list[Manifest] = []
    for file in files:
        for document in read_documents(file):
            for origin, body in _flatten(document.origin, document.value):
                manifest = _manifest(origin, body, unknown)
                if isinstance(manifest, Manifest) and manifest.kind in COMPLETIONS:
                    manifest = _completed(manifest)
                if isinstance(manifest, Rejection):
                    workload.rejected.append(manifest)
                elif manifest is None or _is_finished(manifest):
                    continue
                elif manifest.kind is not POD:
                    workload.existing.append(manifest)
                elif mapping(manifest.body.get("spec")).get("nodeName"):
                    bound.append(_pod(manifest, profiles))
                else:
                    workload.arrivals.append(PodArrival(_pod(manifest, profiles)))
    workload.existing.sort(key=lambda manifest: manifest.kind not in GATE_KINDS)
    workload.existing += bound
    workload.arrivals.sort(key=_created)
    workload.notes += [f"note: left out: {count} {kind}" for kind, count in unknown.items()]
    workload.notes += _homeless(workload.existing)
    return workload


def _homeless(existing: list[Manifest]) -> Iterator[str]:
    """Say that pods run on nodes that the input has not: a file of nodes was probably forgotten."""
    nodes = {manifest.key for manifest in existing if manifest.kind is NODE}
    node_of = {manifest.key: manifest.body["spec"]["nodeName"] for manifest in existing if manifest.kind is POD}
    homeless = [(pod, node) for pod, node in node_of.items() if isinstance(node, str) and node not in nodes]
    if homeless:
        pod, node = homeless[0]
        yield f"note: {len(homeless)} of the pods run on nodes that the input does not have, {pod} on {node} for example"


def _flatten(origin: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a document: itself, or those of a List's items (which of a PodList may leave kind and apiVersion out)."""
    if not isinstance(value, dict) or not str(value.get("kind", "")).endswith("List") or not isinstance(value.get("items"), list):
        yield origin, value
        return
    kind = str(value["kind"]).removesuffix("List")
    typed = {"apiVersion": value.get("apiVersion", "v1"), "kind": kind} if kind else {}
    for index, item in enumerate(value["items"]):
        yield from _flatten(f"{origin}: items[{index}]", {**typed, **item} if isinstance(item, dict) else item)


def _manifest(origin: str, body: Any, unknown: Counter[str]) -> Manifest | Rejection | None:
    """Recognise an object; None: of a kind that scheduling does not know, counted in `unknown`."""
    if not isinstance(body, dict):
        return Rejection(origin, "", f"(root): {_shown(body)}: expected an object")
    for field in ("apiVersion", "kind"):
        if not _is_name(body.get(field)):
            return Rejection(origin, "", f"{field}: {_shown(body.get(field))}: expected a text")
    kind = kind_of(body["apiVersion"], body["kind"]) or SAME_FIELDS.get((body["apiVersion"], body["kind"]))
    if kind is None:
        meant = meant_by(body["apiVersion"], body["kind"])
        why = f"; what is read is {meant.kind} ({meant.api_version})" if meant else ", which scheduling does not look at"
        unknown[f"{body['kind']} ({body['apiVersion']}){why}"] += 1
        return None
    metadata = _metadata(kind, body.get("metadata"))
    if isinstance(metadata, str):
        return Rejection(origin, kind.kind, metadata)
    return Manifest(origin, kind, {**body, "apiVersion": kind.api_version, "metadata": metadata})


def _metadata(kind: Kind, metadata: Any) -> dict[str, Any] | str:
    """Fill in the namespace and leave out what is another API server's own; a text says why there is nothing to call the object by."""
    if not isinstance(metadata, dict):
        return f"metadata: {_shown(metadata)}: expected an object"
    if not _is_name(metadata.get("name")):
        return f"metadata.name: {_shown(metadata.get('name'))}: expected a text"
    kept = {key: value for key, value in metadata.items() if key not in ELSEWHERE}
    if not kind.namespaced:
        return kept
    namespace = metadata.get("namespace") or "default"
    if not isinstance(namespace, str):
        return f"metadata.namespace: {_shown(namespace)}: expected a text"
    return {**kept, "namespace": namespace}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_finished(manifest: Manifest) -> bool:
    """Return whether this is a pod that has ended, or that is deleted before it began: it takes no room and is not scheduled."""
    if manifest.kind is not POD:
        return False
    gone = "deletionTimestamp" in manifest.body["metadata"] and not mapping(manifest.body.get("spec")).get("nodeName")
    return gone or mapping(manifest.body.get("status")).get("phase") in FINISHED


def _completed(manifest: Manifest) -> Manifest | Rejection:
    try:
        return Manifest(manifest.origin, manifest.kind, COMPLETIONS[manifest.kind](manifest.body))
    except ValueError as mistake:
        return Rejection(manifest.origin, f"{manifest.kind.kind} {manifest.key}", str(mistake))


def _pod(manifest: Manifest, profiles: list[str]) -> Manifest:
    """Complete a pod for this scheduler: one that names no scheduler, or only the API server's default, is for the first profile.

    Its status is that of a new pod (a dump has the conditions and the nomination of another scheduler), and it ends at once when deleted:
    there is no kubelet.
    """
    body = complete_pod(manifest.body, profiles[0])
    spec = body["spec"]
    if spec["schedulerName"] == DEFAULT_SCHEDULER and DEFAULT_SCHEDULER not in profiles:
        spec["schedulerName"] = profiles[0]
    spec["terminationGracePeriodSeconds"] = 0
    if not spec.get("nodeName"):
        body["status"] = {"phase": "Pending"}
    return Manifest(manifest.origin, POD, body)


def _created(arrival: PodArrival) -> float:
    """Return when the pod was created, for sorting; those that do not say so come last, as they stand."""
    stamp = arrival.manifest.body["metadata"].get("creationTimestamp")
    try:
        return parse_rfc3339(stamp) if isinstance(stamp, str) else float("inf")
    except (ValueError, OverflowError):
        return float("inf")


def _shown(value: Any) -> str:
    return "missing" if value is None else shown(value)
