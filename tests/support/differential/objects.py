"""Where the generated objects are served, for a blocking client of the API server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from koordsched.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NAMESPACE,
    NODE,
    NODE_METRIC,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    REPLICA_SET,
    SERVICE,
    STORAGE_CLASS,
    Kind,
    kind_of,
)
from support.controlplane.rest import Refused, Rest
from support.differential.choosing import Json

LASTING = (
    NAMESPACE,
    PRIORITY_CLASS,
    SERVICE,
    REPLICA_SET,
    POD_DISRUPTION_BUDGET,
    NODE,
    NODE_METRIC,
    STORAGE_CLASS,
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
)
"""Kinds that a scheduler reads and that stay as they are while pods are scheduled."""
CHANGING = (PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD)
"""Kinds that change meanwhile."""
PLURALS = {"RuntimeClass": "runtimeclasses"}
STATUS_APART = frozenset({"NodeMetric", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget"})
"""Kinds whose status the API server does not take with the object."""
CONFLICT = 409


class Address(NamedTuple):
    """Where objects of one kind are, in one namespace or without any."""

    collection: str

    def of(self, name: str) -> str:
        return f"{self.collection}/{name}"


def address(body: Json) -> Address:
    version, name = body["apiVersion"], body["kind"]
    kind = kind_of(version, name)
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind is None:
        return Address(f"{root}/{PLURALS[name]}")
    space = f"/namespaces/{body['metadata'].get('namespace', 'default')}" if kind.namespaced else ""
    return Address(f"{root}{space}/{kind.plural}")


def create(rest: Rest, body: Json) -> Json:
    """Create the object, with its status, and return what became of it. One that is there already stays."""
    where = address(body)
    try:
        made: Json = rest.create(where.collection, body)
    except Refused as refused:
        if refused.status == CONFLICT:
            return body
        raise
    if body["kind"] in STATUS_APART and "status" in body:
        made = rest.patch(f"{where.of(body['metadata']['name'])}/status", {"status": body["status"]})
    return made


def everything(rest: Rest, kinds: Sequence[Kind]) -> list[Json]:
    """List all objects of these kinds, as full manifests."""
    found: list[Json] = []
    for kind in kinds:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        found += [{**head, **item} for item in rest.get(f"{root}/{kind.plural}")["items"] or ()]
    return found
