"""Templates: the result of admission and validation of one object serves all objects that differ from it in their name only.

Thousands of pods are equal but for their names, and so are thousands of nodes but for the label that repeats the name. They share stored
JSON values and Structs, so creating one more costs little. An object whose admission depends on the time (a pod created with a node starts
at once) is no template, and a write to a PriorityClass invalidates all templates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from cachetools import LRUCache
from msgspec.structs import replace

from koordsched.api.names import is_dns_subdomain, is_label_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.meta import Object
    from koordsched.cluster.memory.store import Raw

MAX_TEMPLATES = 4096
LONG = 16 << 10  # bytes; a longer object is validated each time
HOSTNAME = "kubernetes.io/hostname"

_write = msgspec.json.Encoder().encode


class Template(msgspec.Struct, frozen=True, gc=False):
    """An admitted object as it is stored, and its Struct: their parts are shared and never changed.

    labelled: whether the hostname label repeats the name.
    """

    raw: Raw
    object: Object
    labelled: bool

    def allows(self, name: Any) -> bool:
        """Answer whether an object made from this may have the name: a pod's and a node's are DNS subdomains."""
        return type(name) is str and is_dns_subdomain(name) and (not self.labelled or is_label_value(name))

    def renamed(self, name: str, uid: str, version: str, now: str) -> tuple[Raw, Object]:
        """Return the object of this name, created now."""
        raw = {**self.raw["metadata"], "name": name, "uid": uid, "resourceVersion": version, "creationTimestamp": now}
        known = self.object.metadata
        own = replace(known, name=name, uid=uid, resource_version=version, creation_timestamp=now)
        if self.labelled:
            raw["labels"] = {**raw["labels"], HOSTNAME: name}
            own = replace(own, labels={**known.labels, HOSTNAME: name})
        return {**self.raw, "metadata": raw}, replace(self.object, metadata=own)


class TemplateCache:
    """Templates of one kind by what clients sent: by all but the name, and by all but the metadata."""

    def __init__(self) -> None:
        self._by_all_but_name: LRUCache[bytes, Template] = LRUCache(MAX_TEMPLATES)
        self._by_spec: LRUCache[bytes, Template] = LRUCache(MAX_TEMPLATES)
        self._writes = 0  # to priority classes, when the two were empty

    def get(self, key: bytes, class_writes: int) -> Template | None:
        """Return the template that differs in its name only. class_writes: how many writes to priority classes there were."""
        if class_writes != self._writes:
            self._writes = class_writes
            self._by_all_but_name.clear()
            self._by_spec.clear()
        try:
            return self._by_all_but_name[key]  # half the time of `get`
        except KeyError:
            return None

    def with_other_metadata(self, body: Mapping[str, Any]) -> Template | None:
        """Return a template that differs in its metadata only. Called after `get`, for a body that has a key."""
        return self._by_spec.get(_all_but_metadata(body))

    def put(self, key: bytes, body: Mapping[str, Any], raw: Raw, made: Object) -> None:
        """Keep the stored state and the Struct that a body with this key led to."""
        if not key or len(key) > LONG or (raw.get("spec") or {}).get("nodeName"):
            return
        template = Template(raw, made, _is_labelled(body["metadata"]))
        self._by_all_but_name[key] = template
        self._by_spec[_all_but_metadata(body)] = template


def template_key(body: Mapping[str, Any]) -> bytes:
    """Return all of an object but its name as JSON, the key of its template; b"": it can have none."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return b""
    try:
        if "labels" in metadata and _is_labelled(metadata):
            labels = {**metadata["labels"], HOSTNAME: None}
            return _write((HOSTNAME, {**body, "metadata": {**metadata, "name": None, "labels": labels}}))
        return _write({**body, "metadata": {**metadata, "name": None}})
    except (TypeError, ValueError, RecursionError):  # not JSON
        return b""


def _all_but_metadata(body: Mapping[str, Any]) -> bytes:
    return _write({**body, "metadata": None})


def _is_labelled(metadata: Raw) -> bool:
    """Answer whether the hostname label repeats the name, as a node's does."""
    labels = metadata.get("labels")
    return isinstance(labels, dict) and HOSTNAME in labels and labels[HOSTNAME] == metadata.get("name")
