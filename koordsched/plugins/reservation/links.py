"""The annotation that says which reservation a pod was given: taken off a pod that was not bound after all (reservation.md §5, Unreserve).

Else the pod would count as an owner wherever it goes next.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from koordsched.api.kinds import POD
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_reservation
from koordsched.backoff import Backoff
from koordsched.cluster.port import ClusterError, Conflict, OutcomeUnknown, Patch, PatchType, Ref, ServerError, TooManyRequests
from koordsched.log import get_logger

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

TRIES = 5
FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between two requests
MAY_PASS = (Conflict, OutcomeUnknown, ServerError, TooManyRequests)


class ReservationLinks:
    """Takes links off pods."""

    def __init__(self, handle: Handle) -> None:
        self._cluster = handle.cluster
        self._random = handle.random

    async def remove(self, pod: Pod, uid: str) -> None:
        """Remove the annotation that names this reservation, unless the pod is on a node or another pod by now."""
        meta, backoff = pod.metadata, Backoff(self._random, first=FIRST_DELAY, cap=LONGEST_DELAY)
        ref = Ref(POD, meta.namespace, meta.name)
        patch = Patch({"metadata": {"uid": meta.uid, "annotations": {RESERVATION_ALLOCATED: None}}}, PatchType.STRATEGIC)
        problem = ""
        for _ in range(TRIES):
            try:
                stored = cast("Pod", await self._cluster.get(ref))
                is_same = stored.metadata.uid == meta.uid and not stored.spec.node_name
                if is_same and allocated_reservation(stored.metadata.annotations) == uid:
                    await self._cluster.patch(ref, patch)
                return
            except MAY_PASS as passing:
                problem, wait = passing.message, max(backoff.delay(), getattr(passing, "retry_after", 0.0))
            except ClusterError as final:
                problem = final.message  # the pod has gone, or no request will do it
                break
            await asyncio.sleep(wait)
        log.info("a pod keeps the annotation of a reservation that it was not given", pod=f"{meta.namespace}/{meta.name}", err=problem)
