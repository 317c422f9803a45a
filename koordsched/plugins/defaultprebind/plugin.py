"""DefaultPreBind: writes what other plugins have noted of a pod, of Nodes and Reservations, before the pod is bound: one patch an object.

Annotations of the pod it leaves to the binding, with which the API server writes them; the pod is patched where labels change, annotations
are removed, Nodes or Reservations are written too, or an extender binds (docs/decisions/0016-annotations-go-with-the-binding.md).

A patch names the object's uid, so that one created again under the name is left alone. It may be sent again after an answer that got lost:
it says what the annotations are to be, not how they change. Reference: plugins/defaultprebind of Koordinator v1.8.0 (frameworkext.md §6);
5xx answers are retried here as well, because a pod's placement is too dear to be undone for one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import NODE
from koordsched.backoff import Backoff
from koordsched.cluster.port import ClusterError, Conflict, OutcomeUnknown, Patch, PatchType, Ref, ServerError, TooManyRequests
from koordsched.framework.interface import PreBindPatchPlugin
from koordsched.framework.status import Status, error

if TYPE_CHECKING:
    from koordsched.api.meta import Object
    from koordsched.framework.cycle_state import MetadataChanges
    from koordsched.framework.handle import Handle

TRIES = 4
FIRST_DELAY, LONGEST_DELAY = 0.01, 0.25  # seconds before the second try and the last one,
FACTOR, JITTER = 5.0, 0.2  # and how it grows in between, and by what part chance lengthens it
MAY_PASS = (Conflict, TooManyRequests, OutcomeUnknown, ServerError)
BEING_DELETED = error("pod is being deleted")


class DefaultPreBind(PreBindPatchPlugin):
    name = "DefaultPreBind"
    leaves_to_binding = True

    def __init__(self, handle: Handle) -> None:
        self._cluster = handle.cluster
        self._random = handle.random

    async def patch(self, changes: MetadataChanges) -> Status | None:
        """Write what differs from the object as it was last seen; nothing differs: no request."""
        kind, meta = changes.kind, changes.seen.metadata
        annotations = {key: value for key, value in changes.annotations.items() if meta.annotations.get(key) != value}
        labels = {key: value for key, value in changes.labels.items() if meta.labels.get(key) != value}
        if not annotations and not labels:
            return None
        metadata: dict[str, Any] = {"uid": meta.uid}
        if annotations:
            metadata["annotations"] = annotations
        if labels:
            metadata["labels"] = labels
        patch_type = PatchType.MERGE if kind.group else PatchType.STRATEGIC  # custom resources take no strategic patch
        try:
            written = await self._write(Ref(kind, meta.namespace, meta.name), Patch({"metadata": metadata}, patch_type))
        except ClusterError as refusal:
            return error(refusal.message)
        if written.metadata.deletion_timestamp is None:
            return None
        return error(f'node "{meta.name}" is being deleted') if kind == NODE else BEING_DELETED

    async def _write(self, ref: Ref, patch: Patch) -> Object:
        """Send the patch until it is carried out or refused for good; the last refusal is raised."""
        backoff = Backoff(self._random, first=FIRST_DELAY, cap=LONGEST_DELAY, factor=FACTOR, jitter=JITTER)
        for _ in range(TRIES - 1):
            try:
                return await self._cluster.patch(ref, patch)
            except MAY_PASS as refusal:
                wait = max(backoff.delay(), getattr(refusal, "retry_after", 0.0))
            await asyncio.sleep(wait)
        return await self._cluster.patch(ref, patch)
