"""Validation of what is written to the embedded cluster.

Pods come in few shapes: thousands of them share a spec, and most share labels and annotations too. What was found right about one pod is
not looked at again for the next; without that, validating would be three quarters of the cost of creating a pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import POD, Kind
from koordsched.api.validation import InvalidObject, decode, validated
from koordsched.api.validation.errors import Errors
from koordsched.api.validation.metadata import check_metadata, check_object_name
from koordsched.cluster.memory import answers

if TYPE_CHECKING:
    from koordsched.api.meta import Object, ObjectMeta
    from koordsched.cluster.memory.store import Raw

MAX_SHAPES = 4096


class Checker:
    """Decodes and validates objects; remembers what valid pods looked like."""

    def __init__(self) -> None:
        self._pods = _Known()  # all of a pod but its metadata
        self._metadata = _Known()  # a pod's namespace, labels and annotations

    def checked(self, kind: Kind, raw: Raw) -> Object:
        """Return the object that the raw state describes. Invalid: all that an API server would refuse, each with path and value."""
        try:
            return self._checked_pod(raw) if kind == POD else validated(kind, raw)
        except InvalidObject as refused:
            raise answers.invalid(kind, raw["metadata"]["name"], refused.errors) from refused

    def _checked_pod(self, raw: Raw) -> Object:
        shape = self._pods.key({key: value for key, value in raw.items() if key != "metadata"})
        if shape in self._pods:
            pod = decode(POD, raw)
            self._check_metadata(pod.metadata)
        else:
            pod = validated(POD, raw)
            self._pods.add(shape)
        return pod

    def _check_metadata(self, metadata: ObjectMeta) -> None:
        """Check the name and, unless the like was found right before, the rest of what a client writes. The times are the server's own."""
        errors = Errors()
        shape = self._metadata.key((metadata.namespace, metadata.labels, metadata.annotations))
        if shape in self._metadata:
            check_object_name(errors, POD, metadata.name)
        else:
            check_metadata(errors, POD, metadata, generated=False)
        if errors.found:
            raise InvalidObject(errors.found)
        self._metadata.add(shape)


class _Known(set[bytes]):
    """Things that were found right, as JSON; emptied when there are too many."""

    encoder = msgspec.json.Encoder()

    def key(self, thing: Any) -> bytes:
        return self.encoder.encode(thing)

    def add(self, shape: bytes) -> None:
        if len(self) >= MAX_SHAPES:
            self.clear()
        super().add(shape)
