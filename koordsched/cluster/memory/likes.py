"""Pods that are created alike: what admission and validation made of the first holds for the others.

Thousands of pods share everything but their metadata. They then share their stored spec and status and the Structs of these too, so that
creating one costs little more than its metadata. What depends on the time (a pod created with a node starts at once) is not remembered, and
a write to a PriorityClass makes all of it doubtful.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.meta import Object
    from koordsched.cluster.memory.store import Raw

MAX_LIKES = 4096

_write = msgspec.json.Encoder().encode


class Like(msgspec.Struct, frozen=True, gc=False):
    """An admitted pod: all of it but metadata, which is to be shared and never changed, and its Struct."""

    rest: Raw
    pod: Object


class Likes:
    """Admitted pods by what the client sent, metadata aside."""

    def __init__(self) -> None:
        self._known: dict[bytes, Like] = {}
        self._writes = 0  # to priority classes, when `_known` was begun

    def shape(self, body: Mapping[str, Any]) -> bytes | None:
        """Return what a pod's like are known by; None when it cannot have any."""
        if not isinstance(body.get("metadata"), dict):
            return None
        try:
            return _write({key: value for key, value in body.items() if key != "metadata"})
        except (TypeError, ValueError, RecursionError):  # not JSON
            return None

    def find(self, shape: bytes | None, class_writes: int) -> Like | None:
        """Return the like. class_writes: how many writes to priority classes there were."""
        if class_writes != self._writes:
            self._writes = class_writes
            self._known.clear()
        return self._known.get(shape) if shape is not None else None

    def remember(self, shape: bytes | None, raw: Raw, pod: Object) -> None:
        """Take note of what was made of a pod of this shape."""
        if shape is None or raw["spec"].get("nodeName"):
            return
        if len(self._known) >= MAX_LIKES:
            self._known.clear()
        self._known[shape] = Like({key: value for key, value in raw.items() if key != "metadata"}, pod)
