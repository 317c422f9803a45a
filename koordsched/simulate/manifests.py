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
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    RESERVATION,
    STORAGE_CLASS,
    Kind,
)
from koordsched.clock import parse_rfc3339
from koordsched.manifests.completion import complete_claim, complete_node, complete_pod, complete_reservation, complete_volume, mapping
from koordsched.manifests.documents import InputDocument, read_documents
from koordsched.manifests.objects import Manifest, Rejection, flatten, recognise
from koordsched.plugins import tooling
from koordsched.simulate.workload import PodArrival, Workload

DEFAULT_SCHEDULER = "default-scheduler"
FINISHED = ("Succeeded", "Failed")
GATE_KINDS = (NAMESPACE, PRIORITY_CLASS, STORAGE_CLASS, PERSISTENT_VOLUME)
"""Kinds that others need to be there when they are created."""

COMPLETIONS: dict[Kind, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    NODE: complete_node,
    PERSISTENT_VOLUME: complete_volume,
    PERSISTENT_VOLUME_CLAIM: complete_claim,
    **{form.kind: form.complete for each in tooling() for form in each.short_forms},
}


def load_manifests(files: Iterable[str], profiles: list[str], namespace: str = "default") -> Workload:
    """Read the files into a workload whose pods are for the profiles of these names. InputError: a file cannot be read."""
    return workload_of(read_files(files), profiles, namespace=namespace)


def read_files(files: Iterable[str]) -> list[InputDocument]:
    """Read all documents of the files. InputError."""
    return [document for file in files for document in read_documents(file)]


def workload_of(documents: Iterable[InputDocument], profiles: list[str], notes: Iterable[str] = (), namespace: str = "default") -> Workload:
    """Make a workload of the documents, which are not changed, for the profiles of these names.

    notes: what was said while reading them. namespace: of objects that name none.
    """
    workload = Workload(notes=list(notes))
    unknown: Counter[str] = Counter()
    bound: list[Manifest] = []
    for document in documents:
        for origin, body in flatten(document.origin, document.value):
            manifest = recognise(origin, body, unknown, namespace)
            if isinstance(manifest, Manifest) and manifest.kind in COMPLETIONS:
                manifest = _completed(manifest)
            if isinstance(manifest, Rejection):
                workload.rejected.append(manifest)
            elif manifest is None or _is_finished(manifest):
                continue
            elif manifest.kind is RESERVATION:
                completed = complete_reservation(manifest.body, profiles[0])
                workload.existing.append(Manifest(manifest.origin, RESERVATION, completed))
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
