"""The annotation that says which reservation a pod was given: taken off a pod that was not bound after all (reservation.md §5, Unreserve),
or the pod would count as an owner wherever it goes next. Pods that run get it here when a Reservation takes them over (§13).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast
from weakref import WeakValueDictionary

from koordsched.api.kinds import POD
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_reservation, allocated_text
from koordsched.backoff import Backoff
from koordsched.cluster.port import ClusterError, Conflict, NotFound, OutcomeUnknown, Patch, PatchType, Ref, ServerError, TooManyRequests
from koordsched.log import get_logger
from koordsched.plugins.reservation.reasons import UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koordsched.api.core import Pod
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

TRIES = 5
FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between two requests
MAY_PASS = (Conflict, OutcomeUnknown, ServerError, TooManyRequests)


class ReservationLinks:
    """Writes and removes links."""

    def __init__(self, handle: Handle) -> None:
        self._cluster = handle.cluster
        self._random = handle.random
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by uid of a reservation that takes over pods

    def lock(self, uid: str) -> asyncio.Lock:
        """Return what is held while links to a reservation that takes over pods are written or removed.

        So that what a failed attempt takes back is gone before the next one writes it anew.
        """
        found = self._locks.get(uid)
        if found is None:
            found = self._locks[uid] = asyncio.Lock()
        return found

    async def remove(self, pod: Pod, uid: str) -> None:
        """Remove the annotation that names this reservation, unless the pod is on a node or another pod by now."""
        await self._change(pod, lambda stored: not stored.spec.node_name and _link_of(stored) == uid, None)

    async def take_back(self, pods: Iterable[Pod], uid: str) -> None:
        """Remove the annotation that names this reservation from pods that an attempt would have taken over."""
        async with self.lock(uid):
            await self.remove_all(pods, uid)

    async def remove_all(self, pods: Iterable[Pod], uid: str) -> str:
        """Remove the annotation that names this reservation from pods that run; why that failed, "" if it did not."""
        problems = [await self._change(pod, lambda stored: _link_of(stored) == uid, None) for pod in pods]
        return "; ".join(problem for problem in problems if problem)

    async def write(self, pod: Pod, name: str, uid: str, node_name: str, is_given: Callable[[str], bool]) -> str:
        """Let a running pod say that it has a part of this reservation; why that is not possible, "" if it is done.

        is_given: answers whether a reservation of that uid is on a node, so that the pod cannot have part of another one.
        """
        refused = ""

        def may_be(stored: Pod) -> bool:
            nonlocal refused
            linked = _link_of(stored)
            fits = stored.metadata.uid == pod.metadata.uid and stored.spec.node_name == node_name
            refused = "" if fits and not (linked != uid and is_given(linked)) else UNSUPPORTED.message
            return not refused and linked != uid

        problem = await self._change(pod, may_be, allocated_text(name, uid))
        return refused or problem

    async def _change(self, pod: Pod, wanted: Callable[[Pod], bool], text: str | None) -> str:
        """Write or remove the annotation where that is wanted for the pod as it is stored; what went wrong, "" for nothing.

        A pod that has gone needs no removal.
        """
        meta, backoff = pod.metadata, Backoff(self._random, first=FIRST_DELAY, cap=LONGEST_DELAY)
        ref = Ref(POD, meta.namespace, meta.name)
        patch = Patch({"metadata": {"uid": meta.uid, "annotations": {RESERVATION_ALLOCATED: text}}}, PatchType.STRATEGIC)
        problem = ""
        for _ in range(TRIES):
            try:
                stored = cast("Pod", await self._cluster.get(ref))
                if (stored.metadata.uid == meta.uid or text is not None) and wanted(stored):
                    await self._cluster.patch(ref, patch)
                return ""
            except NotFound as gone:
                return "" if text is None else gone.message
            except MAY_PASS as passing:
                problem, wait = passing.message, max(backoff.delay(), getattr(passing, "retry_after", 0.0))
            except ClusterError as final:
                problem = final.message  # no request will do it
                break
            await asyncio.sleep(wait)
        doing = "keeps the annotation of a reservation that it was not given" if text is None else "could not be given a reservation"
        log.info(f"a pod {doing}", pod=f"{meta.namespace}/{meta.name}", err=problem)
        return problem


def _link_of(pod: Pod) -> str:
    return allocated_reservation(pod.metadata.annotations)
