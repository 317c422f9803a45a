"""Putting an object in the place of what is there by merge patches, which real and embedded clusters take alike."""

from __future__ import annotations

from koordsched.api.kinds import POD, Kind
from koordsched.cluster.memory.schemas import has_status_resource
from support.differential.choosing import Json

METADATA = ("labels", "annotations")


def patches(kind: Kind, present: Json, wanted: Json) -> list[tuple[str, Json]]:
    """Return the patches, each with its subresource, that make one into the other; what a cluster itself sets is left alone.

    Of a pod only the status is written: its spec stays, and so do the conditions' owners.
    """
    subresource = "status" if has_status_resource(kind) else ""
    if kind == POD:
        return [(subresource, {"status": wanted.get("status", {})})]
    metadata = {key: merge(present["metadata"].get(key, {}), wanted["metadata"].get(key, {})) for key in METADATA}
    spec = merge(present.get("spec", {}), wanted.get("spec", {}))
    status = merge(present.get("status", {}), wanted.get("status", {}))
    return [("", {"metadata": metadata, "spec": spec}), (subresource, {"status": status})]


def merge(present: Json, wanted: Json) -> Json:
    """Return the merge patch (RFC 7386) that makes one into the other."""
    removed = dict.fromkeys(present.keys() - wanted.keys())
    changed = {}
    for key, value in wanted.items():
        before = present.get(key)
        changed[key] = merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return {**changed, **removed}
