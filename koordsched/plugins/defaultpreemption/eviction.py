"""Carrying preemption out: evicting the victims, and keeping the preemptor out of the queue meanwhile (framework.md §7.7).

With the gate SchedulerAsyncPreemption, which is on by default, the victims are evicted in the background, all but the last in parallel and
then the last. Until that one is seen terminating or gone the pod is gated, so that it is not tried on a node that is half cleared; one that
was gated is activated then, so that it need hear of no events meanwhile. An eviction is a condition, then a deletion; both are repeated
when the API server was busy or did not answer. When it cannot be done the pod is tried again at once. A scheduler that dies meanwhile
leaves nothing to clear up: the pod is tried again, and terminating victims keep it from evicting more.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import POD
from koordsched.backoff import Backoff
from koordsched.clock import rfc3339
from koordsched.cluster.event_series import EventText
from koordsched.cluster.port import ClusterError, Conflict, NotFound, OutcomeUnknown, Patch, PatchType, Ref, ServerError, TooManyRequests
from koordsched.log import get_logger
from koordsched.plugins.defaultpreemption.departures import Departures
from koordsched.plugins.defaultpreemption.eligibility import BY_SCHEDULER, DISRUPTION_TARGET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

PLUGIN = "DefaultPreemption"
TRIES = 6
FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0  # seconds between two tries
MAY_PASS = (TooManyRequests, ServerError, OutcomeUnknown, Conflict)
"""A conflict passes too: either others wrote at the same time, or the watch will soon tell that the victim is another pod by now."""


class Round:
    """The eviction of one set of victims, until the last of them is seen leaving."""

    __slots__ = ("held", "last")

    def __init__(self) -> None:
        self.last: PodInfo | None = None  # the last victim, once all others are done with
        self.held = False  # the preemptor was kept out of the queue because of it


class Eviction:
    """Evicts for one pod after the other."""

    def __init__(self, handle: Handle, pods: Mapping[str, Pod]) -> None:
        """pods: the watched pods by key, as the cluster has them."""
        self._handle = handle
        self._pods = pods
        self._under_way: dict[str, list[Round]] = {}  # by the preemptor's uid; no empty entries

    def holds(self, preemptor: str) -> bool:
        """Answer whether the pod of this uid is to wait for evictions. Asked for every pod that enters the queue."""
        if not self._under_way:
            return False
        waited_for = [found for found in self._under_way.get(preemptor, ()) if not self._is_over(found)]
        for found in waited_for:
            found.held = True
        return bool(waited_for)

    def _is_over(self, found: Round) -> bool:
        """Answer whether the last victim is seen leaving."""
        return found.last is not None and self._departures.seen(found.last.uid)

    async def carry_out(self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> str:
        """Evict the victims, or begin to; return what went wrong, "" if nothing did."""
        self._handle.preemption_metrics.evicting(len(victims))
        if self._handle.gates["SchedulerAsyncPreemption"]:
            found = Round()
            self._under_way.setdefault(preemptor.uid, []).append(found)
            self._handle.spawn(self._in_background(found, preemptor, node, victims))
            return ""
        errors = await asyncio.gather(*(self._evict(victim, preemptor, node) for victim in victims))
        return next((error for error in errors if error), "")

    async def _in_background(self, found: Round, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        clock = self._handle.clock
        begun = clock.now()
        try:
            error = await self._evict_all(found, preemptor, node, victims)
            self._handle.preemption_metrics.evicted("error" if error else "success", clock.now() - begun)
            if error:
                log.error("a pod could not be evicted; its preemptor is tried again", pod=preemptor.key, node=node, err=error)
            else:
                await self._departures.see(victims[-1].uid)
        finally:
            self._end(preemptor.uid, found)
        if error or found.held:  # held: while it was, no event reached it
            self._handle.activate([preemptor])

    async def _evict_all(self, found: Round, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> str:
        """Evict the last victim after all others; return what went wrong, "" if nothing did."""
        *others, last = victims
        try:
            errors = await asyncio.gather(*(self._evict(victim, preemptor, node) for victim in others))
            error = next((error for error in errors if error), "")
            if error:
                return error
            found.last = last
            return await self._evict(last, preemptor, node)
        except Exception as bug:
            log.exception("evicting pods failed", pod=preemptor.key, node=node)
            return repr(bug)

    @cached_property
    def _departures(self) -> Departures:
        # Made when somebody is evicted for the first time: until then nobody need be followed.
        return Departures(self._handle.cache)

    def _end(self, preemptor: str, found: Round) -> None:
        rounds = self._under_way[preemptor]
        rounds.remove(found)
        if not rounds:
            del self._under_way[preemptor]

    async def _evict(self, victim: PodInfo, preemptor: PodInfo, node: str) -> str:
        """Evict one pod; return what went wrong, "" if nothing did or the pod is gone."""
        waiting = self._handle.waiting_pods.get(victim.uid)
        if waiting is not None:
            waiting.reject(PLUGIN, "preempted")
        else:
            stored = self._pods.get(victim.key)
            if stored is None or stored.metadata.uid != victim.uid or stored.metadata.deletion_timestamp is not None:
                return ""
            error = await self._delete(stored, preemptor)
            if error:
                return error
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        text = EventText("Normal", "Preempted", "Preempting", note)
        self._handle.event(preemptor.pod.spec.scheduler_name, victim.pod, text, preemptor.pod)
        return ""

    async def _delete(self, victim: Pod, preemptor: PodInfo) -> str:
        """Say on the pod why it goes, then delete it with its own grace period."""
        meta, cluster = victim.metadata, self._handle.cluster
        ref = Ref(POD, meta.namespace, meta.name)
        patch = Patch(self._reason(victim, preemptor), PatchType.STRATEGIC, "status")
        error = await self._insist(victim, lambda: cluster.patch(ref, patch))
        return error or await self._insist(victim, lambda: cluster.delete(ref, uid=meta.uid))

    async def _insist(self, victim: Pod, request: Callable[[], Awaitable[Any]]) -> str:
        """Make a request until it is answered; a victim that is gone, or another pod by now, is no error."""
        backoff = Backoff(self._handle.random, first=FIRST_DELAY, cap=LONGEST_DELAY)
        for left in reversed(range(TRIES)):
            try:
                await request()
            except NotFound:
                return ""
            except ClusterError as error:
                if isinstance(error, Conflict) and not self._is_there(victim):
                    return ""
                if not left or not isinstance(error, MAY_PASS):
                    return error.message
                await asyncio.sleep(max(backoff.delay(), getattr(error, "retry_after", 0.0)))
            else:
                return ""
        return ""

    def _is_there(self, victim: Pod) -> bool:
        """Answer whether the cluster has still this very pod, as far as the watch has told."""
        stored = self._pods.get(f"{victim.metadata.namespace}/{victim.metadata.name}")
        return stored is not None and stored.metadata.uid == victim.metadata.uid

    def _reason(self, victim: Pod, preemptor: PodInfo) -> dict[str, Any]:
        condition: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": BY_SCHEDULER,
            "message": f"{preemptor.pod.spec.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": rfc3339(self._handle.clock.now()),
        }
        if victim.metadata.generation:
            condition["observedGeneration"] = victim.metadata.generation
        return {"metadata": {"uid": victim.metadata.uid}, "status": {"conditions": [condition]}}
