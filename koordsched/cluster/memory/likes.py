"""Objects that are created alike: what admission and validation made of the first holds for the others.

Thousands of pods share everything but their names, and so do thousands of nodes but for the label that repeats it. They then share what is
stored of them and the Structs of it too, so that creating one costs little more than its name. What depends on the time (a pod created with
a node starts at once) is not remembered, and a write to a PriorityClass makes all of it doubtful.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.api.names import is_dns_subdomain, is_label_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.meta import Object
    from koordsched.cluster.memory.store import Raw

MAX_LIKES = 4096
HOSTNAME = "kubernetes.io/hostname"

_write = msgspec.json.Encoder().encode


class Like(msgspec.Struct, frozen=True, gc=False):
    """An admitted object as it is stored, and its Struct: their parts are to be shared and never changed.

    labelled: whether its hostname label repeats its name.
    """

    raw: Raw
    made: Object
    labelled: bool

    def takes(self, name: object) -> bool:
        """Say whether its like may have this name: a pod's and a node's are DNS subdomains."""
        return type(name) is str and is_dns_subdomain(name) and (not self.labelled or is_label_value(name))

    def again(self, name: str, uid: str, version: str, now: str) -> tuple[Raw, Object]:
        """Return the like of this name that is created now."""
        raw = {**self.raw["metadata"], "name": name, "uid": uid, "resourceVersion": version, "creationTimestamp": now}
        known = self.made.metadata
        own = replace(known, name=name, uid=uid, resource_version=version, creation_timestamp=now)
        if self.labelled:
            raw["labels"] = {**raw["labels"], HOSTNAME: name}
            own = replace(own, labels={**known.labels, HOSTNAME: name})
        return {**self.raw, "metadata": raw}, replace(self.made, metadata=own)


class Likes:
    """Admitted objects of one kind by what clients sent: all but the name, and all but metadata."""

    def __init__(self) -> None:
        self._by_all: dict[bytes, Like] = {}
        self._by_rest: dict[bytes, Like] = {}
        self._writes = 0  # to priority classes, when the two were begun

    def like(self, shape: bytes, class_writes: int) -> Like | None:
        """Return what differs in nothing but its name. class_writes: how many writes to priority classes there were."""
        if class_writes != self._writes:
            self._writes = class_writes
            self._by_all.clear()
            self._by_rest.clear()
        return self._by_all.get(shape)

    def with_other_metadata(self, body: Mapping[str, Any]) -> Like | None:
        """Return what differs in nothing but its metadata. To be asked after `like`, of a body that has a shape."""
        return self._by_rest.get(_all_but_metadata(body))

    def remember(self, shape: bytes, body: Mapping[str, Any], raw: Raw, made: Object) -> None:
        """Take note of what was made of a body of this shape."""
        if not shape or (raw.get("spec") or {}).get("nodeName"):
            return
        like = Like(raw, made, _is_labelled(body["metadata"]))
        for known, key in ((self._by_all, shape), (self._by_rest, _all_but_metadata(body))):
            if len(known) >= MAX_LIKES:
                known.clear()
            known[key] = like


def shape_of(body: Mapping[str, Any]) -> bytes:
    """Write all of an object but its name, which its like are known by; b"": it cannot have any."""
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
    """Write what an object's like with other metadata are known by. The body has a shape."""
    return _write({**body, "metadata": None})


def _is_labelled(metadata: Raw) -> bool:
    """Say whether the hostname label repeats the name, as a node's does."""
    labels = metadata.get("labels")
    return isinstance(labels, dict) and HOSTNAME in labels and labels[HOSTNAME] == metadata.get("name")
