"""Validation of what is written to the embedded cluster.

Pods come in few shapes: thousands of them share a spec, and most share labels and annotations too. What was found right about one pod is
not looked at again for the next, and the Structs of its like are shared; without that, validating would be three quarters of the cost of
creating a pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

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

MAX_SHAPES = 4096


class Checker:
    """Decodes and validates objects; remembers what valid pods looked like."""

    def __init__(self) -> None:
        self._pods: dict[bytes, Object] = {}  # a pod by its spec and status
        self._metadata: set[bytes] = set()  # a pod's namespace, labels and annotations

    def checked(self, kind: Kind, raw: Raw) -> Object:
        """Return the object that the raw state describes. Invalid: all that an API server would refuse, each with path and value."""
        try:
            return self._checked_pod(raw) if kind == POD else validated(kind, raw)
        except InvalidObject as refused:
            raise answers.invalid(kind, raw["metadata"]["name"], refused.errors) from refused

    def checked_like(self, kind: Kind, known: Object, raw: Raw) -> Object:
        """Return the object that differs from a known one in its metadata only. Invalid."""
        try:
            made = _like(kind, known, raw)
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
        shape = _shape((raw.get("spec"), raw.get("status")))
        known = self._pods.get(shape)
        if known is None:
            pod = validated(POD, raw)
            _make_room(self._pods)
            self._pods[shape] = pod
        else:
            pod = _like(POD, known, raw)
            self._check_metadata(POD, pod.metadata)
        return pod

    def _check_metadata(self, kind: Kind, metadata: ObjectMeta) -> None:
        """Check the name and, unless the like was found right before, the rest of what a client writes. The times are the server's own."""
        errors = Errors()
        shape = _shape((metadata.namespace, metadata.labels, metadata.annotations))
        if shape in self._metadata:
            check_object_name(errors, kind, metadata.name)
        else:
            check_metadata(errors, kind, metadata, generated=False)
        if errors.found:
            raise InvalidObject(errors.found)
        _make_room(self._metadata)
        self._metadata.add(shape)


_shape = msgspec.json.Encoder().encode
"""Write a thing as JSON, by which its like are known."""


def _like(kind: Kind, known: Object, raw: Raw) -> Object:
    """Decode an object that differs from a known one in its metadata only; spec and status are shared with it."""
    try:
        metadata = msgspec.convert(raw["metadata"], ObjectMeta)
    except (msgspec.ValidationError, RecursionError):
        return decode(kind, raw)  # which says what is wrong, if anything is
    return msgspec.structs.replace(known, metadata=metadata)


def _make_room(known: dict[bytes, Object] | set[bytes]) -> None:
    """Forget what is known when it has grown too large."""
    if len(known) >= MAX_SHAPES:
        known.clear()
