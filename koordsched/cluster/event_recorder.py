"""Writes the events that report to users what happened to their pods, without ever making the scheduler wait.

`event` is synchronous: it counts the occurrence (`event_series`) and puts what has become due into a bounded queue, or drops and counts it
when the queue is full. A few writers drain the queue while `run` runs.

Events have the lowest priority of all writes: while `busy()` says that pods wait to be bound, a writer holds its event back until it is ten
seconds old or the queue is half full. So a backlog is bound first; the queue is long enough for the events of a large one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import EVENT
from koordsched.backoff import Backoff
from koordsched.cluster.event_body import EventSource, event_body, event_name, event_namespace, reference_to, series_patch
from koordsched.cluster.event_series import EventCorrelator, EventKey, EventRecord, EventText
from koordsched.cluster.port import (
    AlreadyExists,
    Cluster,
    ClusterError,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Patch,
    Ref,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from koordsched.api.meta import Object
    from koordsched.clock import Clock

QUEUE_LIMIT = 50_000
"""Events that wait to be written, of about 1 kB each. client-go's 1000 would drop three of four where binds are as fast as here."""
WRITERS = 4
TRIES, MAX_REFUSALS = 12, 8
RETRY_SECONDS, MAX_RETRY_SECONDS, JITTER = 0.25, 20.0, 0.2
"""The first and the longest pause, doubled from one try to the next, and the part by which chance lengthens it: 12 tries take two minutes,
as client-go's do that are 10 s apart. But 4 writers that wait 10 s whenever a request fails write 8 events a second when one request in
twenty fails."""
REFUSALS = (Unauthorized, Forbidden)
"""An API server that has just started refuses everything until it has read its roles, and credentials get renewed. But where it is meant
it is no use to go on, and a clean stop must not wait for it."""
NAMESPACE_ENDS = "because it is being terminated"
"""What kube-apiserver's NamespaceLifecycle says of a new object in a namespace that is being deleted. Such an event would not be read."""
MAY_PASS = (OutcomeUnknown, ServerError, TooManyRequests, *REFUSALS)
SWEEP_SECONDS = 60.0
HOLD_STEP_SECONDS = 0.1
MAX_HOLD_SECONDS = 10.0


class EventStats(msgspec.Struct):
    """What became of events, for the metrics. Counts since the recorder was made."""

    written: int = 0  # requests that succeeded: new events and growing series
    dropped: int = 0  # because the queue was full
    failed: int = 0  # refused by the cluster, or given up after the last try


class RecorderOptions(msgspec.Struct, frozen=True):
    """When a recorder holds events back, and which it does not write.

    busy: says that pods wait to be bound. suppressed: reasons of events that are not written. limit: how many may wait.
    """

    busy: Callable[[], bool] = lambda: False
    suppressed: frozenset[str] = frozenset()
    limit: int = QUEUE_LIMIT


class EventRecorder:
    """Records events in the name of a controller. `run` is to be a task of the recorder's owner; `flush` is for a clean stop."""

    def __init__(self, cluster: Cluster, clock: Clock, random: Random, source: EventSource, options: RecorderOptions | None = None) -> None:
        self.stats = EventStats()
        self.unwritten = 0  # events that are queued or being written
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._source = source
        self._options = options or RecorderOptions()
        self._series = EventCorrelator()
        self._queue: asyncio.Queue[EventRecord] = asyncio.Queue(self._options.limit)
        self._hurried = False
        self._remembers = asyncio.Event()  # there are events that may have ended
        self._last_nanoseconds = 0
        self._log = get_logger(__name__)

    def event(self, regarding: Object, text: EventText, *, related: Object | None = None) -> None:
        """Record that something happened to an object; never blocks, never fails. related: the other object that takes part."""
        if text.reason in self._options.suppressed:
            return
        now = self._clock.now()
        # Two events of one object in the same instant of a virtual clock still need two names. A float holds seconds since the epoch to
        # about 0.2 microseconds, so the fraction is scaled alone.
        self._last_nanoseconds = max(int(now) * 1_000_000_000 + int(now % 1 * 1e9), self._last_nanoseconds + 1)
        subject = reference_to(regarding)
        key = EventKey(text.type, text.reason, text.action, subject, None if related is None else reference_to(related))
        self._remembers.set()
        self._enqueue(self._series.occurred(key, event_name(subject.name, self._last_nanoseconds), text.note, now))

    async def run(self) -> None:
        """Write events until cancelled. What is still queued then is for `flush`."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_queued())
            while True:
                await self._remembers.wait()
                await asyncio.sleep(SWEEP_SECONDS)
                self._enqueue(self._series.sweep(self._clock.now()))
                if not len(self._series):
                    self._remembers.clear()

    async def flush(self) -> None:
        """Write everything that is not written yet, ended series included, without holding back; with or without `run` running.

        A cluster that does not answer is tried for two minutes: the caller sets the time limit.
        """
        self._hurried = True
        writers = [asyncio.create_task(self._write_queued()) for _ in range(WRITERS)]
        try:
            owed = self._series.finish()
            while owed:
                room = self._options.limit - self._queue.qsize()
                self._enqueue(owed[:room])
                owed = owed[room:]
                await self._queue.join()
            await self._queue.join()
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
            self._hurried = False

    def _enqueue(self, due: Iterable[EventRecord]) -> None:
        for record in due:
            if record.queued:
                continue
            try:
                self._queue.put_nowait(record)
            except asyncio.QueueFull:
                self.stats.dropped += 1
                self._give_up(record)
            else:
                record.queued = True
                self.unwritten += 1

    async def _write_queued(self) -> None:
        """Write one record of the queue after the other; a record has one writer at a time, so a series follows its event."""
        while True:
            record = await self._queue.get()
            try:
                await self._hold_back(record)
                await self._bring_up_to_date(record)
            except Exception as bug:  # noqa: BLE001  # of this event, such as a text that cannot be encoded: the others are written
                self._fail(record, ServerError(repr(bug)))
            finally:
                record.queued = False
                self.unwritten -= 1
                self._queue.task_done()

    async def _hold_back(self, record: EventRecord) -> None:
        """Let binds go first."""
        waiting = self._queue.qsize
        until, many = record.last + MAX_HOLD_SECONDS, self._options.limit // 2
        for _ in range(round(MAX_HOLD_SECONDS / HOLD_STEP_SECONDS)):
            if self._hurried or waiting() >= many or self._clock.now() >= until or not self._options.busy():
                return
            await asyncio.sleep(HOLD_STEP_SECONDS)

    async def _bring_up_to_date(self, record: EventRecord) -> None:
        self._series.begin(record)
        backoff, refusals = Backoff(self._random, first=RETRY_SECONDS, cap=MAX_RETRY_SECONDS, jitter=JITTER), 0
        while record.written < record.due:
            try:
                await self._write(record)
                self.stats.written += 1
            except ClusterError as error:
                delay = backoff.delay()
                refusals += isinstance(error, REFUSALS)
                if backoff.failures >= TRIES or refusals >= (1 if self._hurried else MAX_REFUSALS) or _is_final(error):
                    self._fail(record, error)
                    return
                await asyncio.sleep(max(delay, getattr(error, "retry_after", 0.0)))

    async def _write(self, record: EventRecord) -> None:
        """Create the event, or write how far its series has come; an event that expired meanwhile is created again."""
        if not record.written:
            await self._create(record)
            record.written = 1
        else:
            count = record.count
            ref = Ref(EVENT, event_namespace(record.key.regarding), record.name)
            try:
                await self._cluster.patch(ref, Patch(series_patch(record)))
            except NotFound:
                await self._create(record)
            record.written = count
        record.written_at = self._clock.now()

    async def _create(self, record: EventRecord) -> None:
        try:
            await self._cluster.create(EVENT, event_body(record, self._source))
        except AlreadyExists:
            return  # an earlier try was carried out although its answer was lost

    def _fail(self, record: EventRecord, error: ClusterError) -> None:
        self.stats.failed += 1
        regarding = record.key.regarding
        subject = f"{regarding.namespace}/{regarding.name}"
        self._log.warning("an event was not written", object=subject, reason=record.key.reason, error=error.message, status=error.status)
        self._give_up(record)

    def _give_up(self, record: EventRecord) -> None:
        """Note that the record is not to be written any more; one that never was written begins anew when it occurs again."""
        record.due = record.written
        if not record.written:
            self._series.forget(record)


def _is_final(error: ClusterError) -> bool:
    return not isinstance(error, MAY_PASS) or (isinstance(error, Forbidden) and NAMESPACE_ENDS in error.message)
