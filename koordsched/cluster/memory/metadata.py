"""The metadata of the embedded cluster's objects: the server's fields, those that clients may write, and a request's preconditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import NAMESPACE, Kind
from koordsched.cluster.memory import answers
from koordsched.cluster.memory.schemas import has_status_resource
from koordsched.cluster.port import Invalid, Ref

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from koordsched.cluster.memory.store import Raw, Stored

_SYSTEM_FIELDS = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}
)
"""What only the API server writes; a client's values are dropped."""


class Identities:
    """Hands out uids: those of one seed are the same in every run, in the order of creation."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._prefix = f"{random.getrandbits(32):08x}-0000-4000-8000"
        self._count = 0

    def uid(self) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count:012x}"

    def suffix(self) -> str:
        """Return five characters for a name made from metadata.generateName."""
        return f"{self._random.getrandbits(20):05x}"


def client_fields(metadata: Raw) -> Raw:
    """Return the part of metadata that a client may write."""
    if _SYSTEM_FIELDS.isdisjoint(metadata):
        return metadata
    return {key: value for key, value in metadata.items() if key not in _SYSTEM_FIELDS}


def identify(kind: Kind, raw: Raw, identities: Identities, now: str) -> Ref:
    """Give a new object its type and its metadata, in place, and return its reference.

    Invalid: it names another kind, or has no usable name.
    """
    check_type(kind, raw)
    raw["apiVersion"], raw["kind"] = kind.api_version, kind.kind
    metadata = raw["metadata"] = client_fields(object_field(kind, raw, "metadata"))
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{identities.suffix()}"
    name = metadata.get("name")
    if not name or not isinstance(name, str):
        raise answers.invalid_text(kind, str(name or ""), "metadata.name: Required value: name or generateName is required")
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    else:
        metadata.pop("namespace", None)
    if kind == NAMESPACE and isinstance(labels := metadata.get("labels") or {}, dict):  # else validation names it
        metadata["labels"] = {**labels, "kubernetes.io/metadata.name": name}
    metadata["uid"] = identities.uid()
    metadata["creationTimestamp"] = now
    metadata["generation"] = 1
    return Ref(kind, metadata.get("namespace", ""), name)


def check_type(kind: Kind, raw: Raw) -> None:
    """Check that an object or a patch names no other kind than the one that it was sent to. Invalid."""
    expected = kind.api_version
    api_version, name = raw.get("apiVersion") or expected, raw.get("kind") or kind.kind
    if api_version != expected or name != kind.kind:
        raise Invalid(f"the object is a {api_version} {name}, but it was sent to {expected} {kind.plural}")


def with_server_fields(kind: Kind, patched: Raw, old: Raw) -> Raw:
    """Return a patched object with the old values of what a patch cannot change: identity, type, and status if that is a subresource."""
    metadata = patched.get("metadata") or {}
    kept = {key: value for key, value in old["metadata"].items() if key in _SYSTEM_FIELDS or key in {"name", "namespace"}}
    apart = ("apiVersion", "kind", "status") if has_status_resource(kind) else ("apiVersion", "kind")
    fixed: Raw = {key: old[key] for key in apart if key in old}
    wanted = {key: value for key, value in patched.items() if key not in apart}
    return {**wanted, **fixed, "metadata": {**client_fields(metadata), **kept}}


def object_field(kind: Kind, raw: Raw, field: str) -> Raw:
    """Return a field that must be an object; an absent one is empty. Invalid: it is something else."""
    value = raw.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise answers.invalid_text(kind, "", f"{field}: Invalid value: {value!r}: must be an object")
    return value


def check_preconditions(stored: Stored, ref: Ref, metadata: Mapping[str, Any]) -> None:
    """Check a patch's metadata against the stored object. Conflict: another uid or resourceVersion. Invalid: another name."""
    found = stored.raw["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != found["uid"]:
        raise answers.other_uid(ref.kind.plural_group, ref.name, uid, found["uid"])
    if version and version != found["resourceVersion"]:
        raise answers.modified(ref)
    for field, value in (("name", ref.name), ("namespace", ref.namespace)):
        if metadata.get(field, value) != value:
            raise Invalid(f"the {field} of the object ({metadata[field]}) does not match the {field} on the URL ({value})")
