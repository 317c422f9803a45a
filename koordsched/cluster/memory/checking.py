"""Validation of what is written to the embedded cluster.

Thousands of pods have equal specs, and most have equal labels and annotations too. What was found valid once is not validated again for the
next pod, and the pods share its Structs. Without that, validation would be three quarters of the cost of creating a pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from cachetools import LRUCache

from koordsched.api.kinds import POD, Kind
from koordsched.api.meta import ObjectMeta
from koordsched.api.validation import InvalidObject, decode, validated
from koordsched.api.validation.errors import Errors
from koordsched.api.validation.metadata import check_metadata, check_object_name
from koordsched.api.validation.pods import check_status
from koordsched.cluster.memory import answers
from koordsched.cluster.memory.lifecycle import restated

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.api.meta import Object
    from koordsched.cluster.memory.store import Raw

MAX_KEPT = 4096


class Checker:
    """Decodes and validates objects; keeps which specs and metadata of pods were found valid."""

    def __init__(self) -> None:
        self._pods: LRUCache[bytes, Object] = LRUCache(MAX_KEPT)  # a pod by its spec and status
        self._metadata: LRUCache[bytes, None] = LRUCache(MAX_KEPT)  # keys: an object's namespace, labels and annotations

    def checked(self, kind: Kind, raw: Raw) -> Object:
        """Return the object that the raw state describes. Invalid: all that an API server would refuse, each with path and value."""
        try:
            return self._checked_pod(raw) if kind == POD else validated(kind, raw)
        except InvalidObject as refused:
            raise answers.invalid(kind, raw["metadata"]["name"], refused.errors) from refused

    def checked_metadata(self, kind: Kind, known: Object, raw: Raw) -> Object:
        """Return the object that differs from a known one in its metadata only. Invalid."""
        try:
            made = _with_metadata(kind, known, raw)
            self._check_metadata(kind, made.metadata)
        except InvalidObject as refused:
            raise answers.invalid(kind, raw["metadata"]["name"], refused.errors) from refused
        return made

    def checked_status(self, known: Pod, raw: Raw) -> Object:
        """Return the pod that differs from a known one in its status and version only. Invalid."""
        pod = restated(known, raw)
        if pod is None:
            return self.checked(POD, raw)
        errors = Errors()
        check_status(errors, pod.status)
        if errors.found:
            raise answers.invalid(POD, raw["metadata"]["name"], errors.found)
        return pod

    def _checked_pod(self, raw: Raw) -> Object:
        key = _json((raw.get("spec"), raw.get("status")))
        known = self._pods.get(key)
        if known is None:
            pod = validated(POD, raw)
            self._pods[key] = pod
        else:
            pod = _with_metadata(POD, known, raw)
            self._check_metadata(POD, pod.metadata)
        return pod

    def _check_metadata(self, kind: Kind, metadata: ObjectMeta) -> None:
        """Check the name and, unless equal metadata was found valid before, the other fields that clients write. InvalidObject."""
        errors = Errors()
        key = _json((metadata.namespace, metadata.labels, metadata.annotations))
        if key in self._metadata:
            check_object_name(errors, kind, metadata.name)
        else:
            check_metadata(errors, kind, metadata, generated=False)
        if errors.found:
            raise InvalidObject(errors.found)
        self._metadata[key] = None


_json = msgspec.json.Encoder().encode


def _with_metadata(kind: Kind, known: Object, raw: Raw) -> Object:
    """Decode an object that differs from a known one in its metadata only; spec and status are shared with it."""
    try:
        metadata = msgspec.convert(raw["metadata"], ObjectMeta)
    except (msgspec.ValidationError, RecursionError):
        return decode(kind, raw)  # which raises if the metadata is what cannot be decoded
    return msgspec.structs.replace(known, metadata=metadata)
