"""Empties a cluster between tests.

Deletes what tests create and spares what the API server made for itself. There is no kubelet and no controller to finish a deletion, so
pods go with a grace period of zero, finalizers are taken off, and namespaces are finalized here. Custom resources are emptied,
their definitions stay. What is left in a deleted namespace of kinds that are not listed here stays in etcd, unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from support.controlplane.rest import Refused, Rest

NOT_FOUND = 404
NAMESPACES = "/api/v1/namespaces"
SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
COLLECTIONS = {
    "/api/v1": ("pods", "nodes", "persistentvolumeclaims", "persistentvolumes", "services", "replicationcontrollers", "configmaps"),
    "/apis/apps/v1": ("replicasets", "statefulsets"),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/scheduling.k8s.io/v1": ("priorityclasses",),
    "/apis/storage.k8s.io/v1": ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
    "/apis/node.k8s.io/v1": ("runtimeclasses",),
    "/apis/resource.k8s.io/v1": ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/events.k8s.io/v1": ("events",),
}
# A selector that leaves out what is the API server's own.
SPARED = {
    "services": "fieldSelector=" + quote("metadata.name!=kubernetes"),
    "priorityclasses": "fieldSelector=" + quote("metadata.name!=system-node-critical,metadata.name!=system-cluster-critical"),
    "configmaps": "fieldSelector=" + quote("metadata.name!=extension-apiserver-authentication,metadata.name!=kube-root-ca.crt"),
    "leases": "labelSelector=" + quote("!apiserver.kubernetes.io/identity"),
}


class Collection(NamedTuple):
    """All objects of one resource, over all namespaces."""

    group_version: str
    resource: str

    def path(self, namespace: str | None = None) -> str:
        """Return the path of the whole collection or of its part in a namespace, with the selector that spares."""
        return f"{self._base(namespace)}?{SPARED.get(self.resource, '')}"

    def object_path(self, metadata: dict[str, Any]) -> str:
        return f"{self._base(metadata.get('namespace'))}/{metadata['name']}"

    def _base(self, namespace: str | None) -> str:
        return f"{self.group_version}/{f'namespaces/{namespace}/' if namespace else ''}{self.resource}"


def clean(rest: Rest) -> None:
    """Delete everything tests create. O(what is there); an empty cluster costs a list for each of some thirty resources."""
    for collection in [*built_in(), *custom(rest)]:
        empty(rest, collection)
    for namespace in rest.get(NAMESPACES)["items"]:
        if namespace["metadata"]["name"] not in SYSTEM_NAMESPACES:
            remove_namespace(rest, namespace)


def built_in() -> Iterator[Collection]:
    for group_version, resources in COLLECTIONS.items():
        for resource in resources:
            yield Collection(group_version, resource)


def custom(rest: Rest) -> Iterator[Collection]:
    """Name the custom resources that are served."""
    for definition in rest.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
        spec = definition["spec"]
        served = [version["name"] for version in spec["versions"] if version["served"]]
        yield from (Collection(f"/apis/{spec['group']}/{version}", spec["names"]["plural"]) for version in served[:1])


def empty(rest: Rest, collection: Collection) -> None:
    """Delete the objects of one resource; those that finalizers hold go when these are taken off."""
    found = listed(rest, collection)
    for namespace in {metadata.get("namespace") for metadata in found}:
        rest.delete(f"{collection.path(namespace)}&gracePeriodSeconds=0")
    for metadata in listed(rest, collection) if found else ():
        if metadata.get("finalizers"):
            take_off_finalizers(rest, collection.object_path(metadata))


def listed(rest: Rest, collection: Collection) -> list[dict[str, Any]]:
    """Return the metadata of each object; nothing for a resource that this API server does not have."""
    try:
        items = rest.get_metadata(collection.path())["items"] or ()  # null when empty
        return [item["metadata"] for item in items]
    except Refused as refused:
        if refused.status == NOT_FOUND:
            return []
        raise


def take_off_finalizers(rest: Rest, path: str) -> None:
    try:
        rest.patch(path, {"metadata": {"finalizers": None}})
    except Refused as refused:
        if refused.status != NOT_FOUND:  # gone by itself
            raise


def remove_namespace(rest: Rest, namespace: dict[str, Any]) -> None:
    """Delete a namespace and do what the namespace controller would do at the end."""
    path = f"{NAMESPACES}/{namespace['metadata']['name']}"
    if "deletionTimestamp" not in namespace["metadata"]:
        rest.delete(path)
    rest.replace(f"{path}/finalize", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace["metadata"]["name"]}})
