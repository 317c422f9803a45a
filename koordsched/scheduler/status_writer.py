"""Writes why pods and Reservations are pending into their conditions, and nominations, without the scheduler's waiting (framework.md §6).

What is written where is the origin's matter (`origins`); to the writer a Reservation is its reserve pod. An update of a pod replaces one
that was not written yet, so a pod costs one request however often it is tried meanwhile; what is on the cluster already is not written
again. One pod's writes are in order, different pods' go in parallel, and binds come first. A write that fails is tried again for as long as
the pod is pending: without the condition no autoscaler adds a node for it. A write that was refused for a reason that does not look as if
it would pass is tried again rarely.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koordsched.backoff import grown
from koordsched.cluster.port import (
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from koordsched.log import get_logger
from koordsched.scheduler.origins import PodStatusUpdate, origin_of
from koordsched.tasks import call_later

if TYPE_CHECKING:
    from random import Random

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.clock import Clock
    from koordsched.cluster.port import Cluster

log = get_logger(__name__)

WRITERS = 4
TRIES = 4  # at a clean stop; as many failures in a row are logged
RETRY_SECONDS, MAX_RETRY_SECONDS = 0.2, 30.0  # doubled from one try to the next,
JITTER = 0.2  # and lengthened by up to this part: after an outage thousands of pods are not to be written in the same moment
REFUSED_SECONDS = 300.0  # after which what was refused is tried again, unless there is a newer update before
MAY_PASS = (TooManyRequests, ServerError, OutcomeUnknown, Unauthorized, Forbidden)
"""Not the pod's fault. Forbidden: an API server that has just started refuses everything until it has read its roles."""


class StatusWriter:
    """Writes the latest update of each pod. `run` is a task of the scheduler."""

    def __init__(self, cluster: Cluster, clock: Clock, random: Random) -> None:
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._written: dict[str, PodStatusUpdate] = {}  # by uid: what was written last; while the pod is pending
        self._wanted: dict[str, tuple[Pod, PodStatusUpdate]] = {}  # by uid: not written yet
        self._known: set[str] = set()  # uids of which any update was ever wanted, until they are forgotten
        self._busy: set[str] = set()  # uids with a request under way
        self._failures: dict[str, int] = {}  # by uid: failed tries in a row
        self._waiting: dict[str, asyncio.TimerHandle] = {}  # by uid: wanted, but not before this
        self._refused: dict[str, asyncio.TimerHandle] = {}  # by uid: nothing is wanted, but what was refused is tried again then
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self.failed = 0  # writes refused, or given up at a stop

    @property
    def idle(self) -> bool:
        return not self._wanted and not self._busy

    @property
    def unwritten(self) -> int:
        """Return of how many pods the latest update is not written yet."""
        return len(self._wanted.keys() | self._busy)

    def update(self, pod: Pod, update: PodStatusUpdate) -> None:
        """Write the update soon, if the pod's status does not have it already, with what else is still to be written of the pod."""
        uid = pod.metadata.uid
        waiting = self._wanted.get(uid)
        if waiting is not None:
            update = _merged(waiting[1], update)
        if uid not in self._wanted and uid not in self._busy:
            if not self._differs(pod, update):
                return
            self._ready.put_nowait(uid)
        self._not_refused(uid)
        self._known.add(uid)
        self._wanted[uid] = (pod, update)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Write to which node the pod is about to be bound, because that will take a while."""
        self.update(pod.pod, PodStatusUpdate(nominated=node))

    def forget(self, uid: str) -> None:
        """Write nothing more of a pod: it is bound or gone."""
        if uid not in self._known:
            return
        self._known.discard(uid)
        self._wanted.pop(uid, None)
        self._written.pop(uid, None)
        self._busy.discard(uid)  # a request that is under way is not tried again
        self._failures.pop(uid, None)
        self._not_refused(uid)
        if (timer := self._waiting.pop(uid, None)) is not None:
            timer.cancel()

    async def run(self) -> None:
        """Write until cancelled; what an earlier run left unwritten first."""
        self._ready = asyncio.Queue()
        for uid in self._wanted:
            if uid not in self._waiting:
                self._ready.put_nowait(uid)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_ready())

    async def flush(self) -> None:
        """Write everything that is wanted now; for a clean stop, after `run` has ended. What fails four times is given up."""
        self._stop_timers()
        for uid in list(self._wanted):
            for _ in range(TRIES):
                delay = await self._write(uid)
                if delay is None:
                    break
                await asyncio.sleep(delay)
            else:
                self._give_up(self._wanted.pop(uid)[0], ServerError(f"not written after {TRIES} tries"))
        self._stop_timers()

    def abandon(self) -> int:
        """Drop what is not written, because another scheduler leads now; after `run` has ended. Return of how many pods."""
        self._stop_timers()
        dropped = self.unwritten
        self._wanted.clear()
        return dropped

    def _stop_timers(self) -> None:
        for timers in (self._waiting, self._refused):
            for timer in timers.values():
                timer.cancel()
            timers.clear()

    def _differs(self, pod: Pod, update: PodStatusUpdate) -> bool:
        known = self._written.get(pod.metadata.uid) or origin_of(pod).reported(pod)
        return bool(update.reason and (update.reason, update.message) != (known.reason, known.message)) or (
            update.nominated is not None and update.nominated != (known.nominated or "")
        )

    async def _write_ready(self) -> None:
        while True:
            uid = await self._ready.get()
            delay = await self._write(uid)
            if delay is not None:
                self._waiting[uid] = call_later(delay, self._again, uid)

    def _again(self, uid: str) -> None:
        del self._waiting[uid]
        self._ready.put_nowait(uid)

    def _once_more(self, pod: Pod, update: PodStatusUpdate) -> None:
        del self._refused[pod.metadata.uid]
        self.update(pod, update)

    def _not_refused(self, uid: str) -> None:
        """Try what was refused no more: there is a newer update, or the pod is forgotten."""
        if (timer := self._refused.pop(uid, None)) is not None:
            timer.cancel()

    async def _write(self, uid: str) -> float | None:
        """Write what is wanted of a pod. When that fails, but may not fail for ever, return after how many seconds to try again."""
        wanted = self._wanted.pop(uid, None)
        if wanted is None or not self._differs(*wanted):
            return None
        self._busy.add(uid)
        try:
            error = await self._request(*wanted)
        except asyncio.CancelledError:
            self._wanted.setdefault(uid, wanted)  # for `flush`: it may or may not have been written, and once more does no harm
            self._busy.discard(uid)
            raise
        except Exception as bug:  # of this pod's status, such as a text that cannot be encoded: other pods get theirs
            self._busy.discard(uid)
            self.failed += 1
            log.exception("status not written", pod=f"{wanted[0].metadata.namespace}/{wanted[0].metadata.name}", err=repr(bug))
            if uid in self._wanted:
                self._ready.put_nowait(uid)
            return None
        if uid not in self._busy:
            return None  # forgotten meanwhile
        self._busy.discard(uid)
        if error is not None:
            self._wanted.setdefault(uid, wanted)  # an update that came meanwhile is newer
            return self._delay(wanted[0], error)
        self._failures.pop(uid, None)
        if uid in self._wanted:
            self._ready.put_nowait(uid)
        return None

    async def _request(self, pod: Pod, update: PodStatusUpdate) -> ClusterError | None:
        """Write, and remember that it is written; return an error that may pass."""
        meta = pod.metadata
        try:
            await origin_of(pod).report(self._cluster, pod, update, self._clock.now())
        except NotFound:
            return None
        except MAY_PASS as error:
            return error
        except ClusterError as error:
            if isinstance(error, Conflict) and self._failures.get(meta.uid, 0) < TRIES:
                return error  # other writers were faster, which passes; or the pod is another one by now, which does not
            if meta.uid in self._busy:  # else it was forgotten meanwhile: a bound pod takes no nomination any more
                self._give_up(pod, error)
                if meta.uid not in self._wanted:
                    self._refused[meta.uid] = call_later(REFUSED_SECONDS, self._once_more, pod, update)
            return None
        self._remember(pod, update)
        return None

    def _delay(self, pod: Pod, error: ClusterError) -> float:
        """Count a failure, and return how long to wait after it."""
        uid = pod.metadata.uid
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        if failures == TRIES:
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            log.warning("a pod's status cannot be written; it is tried again", pod=name, err=error.message, status=error.status)
        delay = grown(RETRY_SECONDS, MAX_RETRY_SECONDS, failures) * (1.0 + JITTER * self._random.random())
        return max(delay, error.retry_after) if isinstance(error, TooManyRequests) else delay

    def _remember(self, pod: Pod, update: PodStatusUpdate) -> None:
        uid = pod.metadata.uid
        if uid not in self._busy:
            return  # forgotten meanwhile
        known = self._written.get(uid) or origin_of(pod).reported(pod)
        nominated = update.nominated if update.nominated is not None else known.nominated
        self._written[uid] = PodStatusUpdate(update.reason or known.reason, update.message or known.message, nominated)

    def _give_up(self, pod: Pod, error: ClusterError) -> None:
        self.failed += 1
        self._failures.pop(pod.metadata.uid, None)
        log.error("status not written", pod=f"{pod.metadata.namespace}/{pod.metadata.name}", err=error.message, status=error.status)


def _merged(older: PodStatusUpdate, newer: PodStatusUpdate) -> PodStatusUpdate:
    """Return what to write of two updates: of each part the newer one that says anything of it."""
    said = newer if newer.reason else older
    return PodStatusUpdate(said.reason, said.message, older.nominated if newer.nominated is None else newer.nominated)
