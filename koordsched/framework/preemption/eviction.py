"""Evicting the victims on the chosen nodes, and keeping the preemptors out of the queue meanwhile (framework.md §7.7).

With the gate SchedulerAsyncPreemption, which is on by default, the victims are evicted in the background, all but the last in parallel and
then the last. Until that one is seen terminating or gone the preemptors (one pod, or those of a job) are gated, so that they are not tried
on nodes that are half cleared; as no event reaches a gated pod, they are activated then. An eviction is a condition, then a deletion; both
are repeated when the API server was busy or did not answer. When it cannot be done the preemptors are tried again at once. A scheduler that
dies meanwhile leaves nothing to clear up: they are tried again, and terminating victims keep them from evicting more.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import POD
from koordsched.backoff import Backoff
from koordsched.cache.plugin_state import PodFollower
from koordsched.clock import parse_rfc3339, rfc3339
from koordsched.cluster.event_series import EventText
from koordsched.cluster.port import ClusterError, Conflict, NotFound, OutcomeUnknown, Patch, PatchType, Ref, ServerError, TooManyRequests
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.handle import Handle
    from koordsched.framework.preemption.rules import PreemptionRules

log = get_logger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"
TRIES = 6
FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0  # seconds between two tries
OVERDUE_SECONDS = 60.0
"""For how long after its grace period a victim is waited for. kube-scheduler waits for ever (kubernetes #95752)."""
MAY_PASS = (TooManyRequests, ServerError, OutcomeUnknown, Conflict)
"""A conflict passes too: either another client wrote at the same time, or the watch will soon show that the victim is another pod."""


class Eviction:
    """The eviction of one set of victims, until the last of them is seen leaving."""

    __slots__ = ("gated", "last")

    def __init__(self) -> None:
        self.last: PodInfo | None = None  # the last victim, once all others are evicted
        self.gated = False  # a preemptor was kept out of the queue because of it


class Evictions:
    """Evicts pods by the rules of one plugin."""

    def __init__(self, handle: Handle, pods: Mapping[str, Pod], rules: PreemptionRules) -> None:
        """pods: the watched pods by key, as the cluster has them."""
        self._handle = handle
        self._pods = pods
        self._rules = rules
        self._under_way: dict[str, list[Eviction]] = {}  # by the preemptor's uid; no empty entries

    def is_under_way(self, preemptor: str) -> bool:
        """Answer whether the pod of this uid has to wait for evictions. Asked about every pod that enters the queue."""
        if not self._under_way:
            return False
        awaited = [
            eviction
            for eviction in self._under_way.get(preemptor, ())
            if eviction.last is None or not self._watcher.is_leaving(eviction.last.uid)
        ]
        for eviction in awaited:
            eviction.gated = True
        return bool(awaited)

    def evict(self, preemptors: Sequence[PodInfo], victims: Mapping[str, Sequence[PodInfo]]) -> Awaitable[str] | None:
        """Evict the victims, of which there is one at least, given by node, for pods of which the first is named as their preemptor.

        None: it has begun in the background. Else what is to be awaited, which returns what went wrong, "" if nothing did.
        """
        self._handle.preemption_metrics.evicting(sum(map(len, victims.values())))
        if not self._handle.gates["SchedulerAsyncPreemption"]:
            return self._evict_many(preemptors[0], _pairs(victims))
        eviction = Eviction()
        for preemptor in preemptors:
            self._under_way.setdefault(preemptor.uid, []).append(eviction)
        self._handle.spawn(self._in_background(eviction, preemptors, _pairs(victims)))
        return None

    async def _in_background(self, eviction: Eviction, preemptors: Sequence[PodInfo], victims: Sequence[tuple[PodInfo, str]]) -> None:
        clock = self._handle.clock
        begun = clock.now()
        try:
            error = await self._evict_all(eviction, preemptors[0], victims)
            self._handle.preemption_metrics.evicted("error" if error else "success", clock.now() - begun)
            if error:
                log.error("a pod could not be evicted; its preemptor is tried again", pod=preemptors[0].key, node=victims[0][1], err=error)
            else:
                await self._watcher.leaving(victims[-1][0].uid)
        finally:
            for preemptor in preemptors:
                evictions = self._under_way[preemptor.uid]
                evictions.remove(eviction)
                if not evictions:
                    del self._under_way[preemptor.uid]
        if error or eviction.gated:  # gated: while they were, no event reached them
            self._handle.activate(preemptors)

    async def _evict_all(self, eviction: Eviction, preemptor: PodInfo, victims: Sequence[tuple[PodInfo, str]]) -> str:
        """Evict the last victim after all others; return what went wrong, "" if nothing did."""
        *others, (last, node) = victims
        try:
            error = await self._evict_many(preemptor, others)
            if error:
                return error
            eviction.last = last
            return await self._evict(last, preemptor, node)
        except Exception as bug:
            log.exception("evicting pods failed", pod=preemptor.key, node=node)
            return repr(bug)

    async def _evict_many(self, preemptor: PodInfo, victims: Sequence[tuple[PodInfo, str]]) -> str:
        """Evict all of them at once; return the first thing that went wrong, "" if nothing did."""
        errors = await asyncio.gather(*(self._evict(victim, preemptor, node) for victim, node in victims))
        return next((error for error in errors if error), "")

    @cached_property
    def _watcher(self) -> EvictionWatcher:
        # Made at the first eviction, one for all engines: until then no pod need be followed.
        cache = self._handle.cache
        return cache.shared.one(EvictionWatcher, lambda: EvictionWatcher(cache))

    # One pod

    async def _evict(self, victim: PodInfo, preemptor: PodInfo, node: str) -> str:
        """Evict one pod; return what went wrong, "" if nothing did or the pod is gone."""
        waiting = self._handle.waiting_pods.get(victim.uid)
        if waiting is not None:
            waiting.reject(self._rules.plugin, "preempted")
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
        """Write the reason to the pod's conditions, then delete it with its own grace period."""
        meta, cluster = victim.metadata, self._handle.cluster
        condition: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": BY_SCHEDULER,
            "message": f"{preemptor.pod.spec.scheduler_name}: {self._rules.message(preemptor)}",
            "lastTransitionTime": rfc3339(self._handle.clock.now()),
        }
        if meta.generation:
            condition["observedGeneration"] = meta.generation
        ref = Ref(POD, meta.namespace, meta.name)
        patch = Patch({"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}, PatchType.STRATEGIC, "status")
        error = await self._retry(victim, lambda: cluster.patch(ref, patch))
        return error or await self._retry(victim, lambda: cluster.delete(ref, uid=meta.uid))

    async def _retry(self, victim: Pod, request: Callable[[], Awaitable[Any]]) -> str:
        """Make a request until it is answered; a victim that is gone, or another pod by now, is no error."""
        backoff = Backoff(self._handle.random, first=FIRST_DELAY, cap=LONGEST_DELAY)
        left = TRIES
        while True:
            left -= 1
            try:
                await request()
            except NotFound:
                return ""
            except ClusterError as error:
                if isinstance(error, Conflict):
                    stored = self._pods.get(f"{victim.metadata.namespace}/{victim.metadata.name}")
                    if stored is None or stored.metadata.uid != victim.metadata.uid:
                        return ""
                if not left or not isinstance(error, MAY_PASS):
                    return error.message
                await asyncio.sleep(max(backoff.delay(), getattr(error, "retry_after", 0.0)))
            else:
                return ""


class EvictionWatcher(PodFollower):
    """Waits until an evicted pod is seen leaving in the cache.

    The API server answers a deletion before the watch shows it, by milliseconds, or by seconds when the watch was just ended. An attempt
    for the preemptor in between would find the victims still there and evict more pods. Deletions are seen in the order in which they were
    made, so waiting for the last victim is waiting for all of them.
    """

    hides = False  # no pod of a view leaves

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._awaited: dict[str, asyncio.Event] = {}  # by uid: set when anything happened to the pod
        cache.follow(self)

    def is_leaving(self, uid: str) -> bool:
        """Answer whether the pod is gone, or terminating for some time; one without grace is gone a moment later, and is waited for."""
        state = self._cache.pods.get(uid)
        if state is None:
            return True
        meta, spec = state.info.pod.metadata, state.info.pod.spec
        return meta.deletion_timestamp is not None and (spec.termination_grace_period_seconds != 0 or bool(meta.finalizers))

    async def leaving(self, uid: str) -> None:
        """Return when `is_leaving` holds."""
        while not self.is_leaving(uid):
            await self._awaited.setdefault(uid, asyncio.Event()).wait()

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        """Has no part in leaving."""

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if self._awaited:
            self._changed(pod.uid)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """Has no part in leaving."""

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if self._awaited:
            self._changed(new.uid)

    def _changed(self, uid: str) -> None:
        awaited = self._awaited.pop(uid, None)
        if awaited is not None:
            awaited.set()


def _pairs(victims: Mapping[str, Sequence[PodInfo]]) -> list[tuple[PodInfo, str]]:
    """Return each victim with its node."""
    return [(pod, node) for node, pods in victims.items() for pod in pods]


def is_evicted(pod: PodInfo) -> bool:
    """Answer whether the pod terminates because it was preempted."""
    if pod.pod.metadata.deletion_timestamp is None:
        return False
    return any(
        condition.type == DISRUPTION_TARGET and condition.status == "True" and condition.reason == BY_SCHEDULER
        for condition in pod.pod.status.conditions
    )


def overdue_at(victim: PodInfo) -> float:
    """Return when to stop waiting for a terminating pod, in seconds since the epoch. Its deletionTimestamp is when its grace ends."""
    try:
        return parse_rfc3339(victim.pod.metadata.deletion_timestamp or "") + OVERDUE_SECONDS
    except ValueError:
        return inf
