"""Departures: when a pod that was evicted leaves, as the cache sees it.

The API server answers a deletion before the watch tells of it, by milliseconds, or by seconds when the watch was just ended. Who tried the
preemptor in between would find the victims still there and evict more pods. Deletions are seen in the order in which they were made, so
that who waits for the last victim need not wait for the others.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache


class Departures:
    """A PodFollower."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._awaited: dict[str, asyncio.Event] = {}  # by uid: set when anything happened to the pod
        cache.follow(self)

    def seen(self, uid: str) -> bool:
        """Answer whether the pod is gone, or terminating for some time; one without grace is gone a moment later, and is waited for."""
        state = self._cache.pods.get(uid)
        if state is None:
            return True
        meta, spec = state.info.pod.metadata, state.info.pod.spec
        return meta.deletion_timestamp is not None and (spec.termination_grace_period_seconds != 0 or bool(meta.finalizers))

    async def see(self, uid: str) -> None:
        """Return when `seen` holds."""
        while not self.seen(uid):
            await self._awaited.setdefault(uid, asyncio.Event()).wait()

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        """Nobody waits for a pod to come."""

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if self._awaited and not self._cache.simulating:
            self._tell(pod.uid)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """Nobody waits for a pod to move."""

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if self._awaited:
            self._tell(new.uid)

    def _tell(self, uid: str) -> None:
        awaited = self._awaited.pop(uid, None)
        if awaited is not None:
            awaited.set()
