"""Keeps a mirror true to the cluster: list, then watch, and again from the last version when the watch ends.

The order of events is client-go's reflector's. A watch that ends is renewed from the last version seen (bookmarks advance it); when that
version is compacted (410) everything is listed again and handlers get the differences, deletions included. Errors are retried with
growing, jittered delays; a kind that is not served counts as empty and is asked for again every 30 s. Only cancelling ends `run`.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Generic

import msgspec

from koordsched.backoff import Backoff
from koordsched.cluster.mirror import Arrival, Handler, Mirror, T
from koordsched.cluster.port import BOOKMARK, Cluster, ClusterError, Gone, NotFound, TooManyRequests, WatchEvent
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.clock import Clock

PAGE_SIZE = 5_000
"""client-go's 500 costs the API server half as much again (docs/benchmarks.md); so many pods are decoded in about 0.1 s."""
PROBE_SECONDS = 30.0
"""How often a kind that the cluster does not serve is asked for again."""
SHORT_WATCH_SECONDS = 1.0
"""A watch that ended earlier than this and brought nothing is treated as an error, lest a broken server is asked in a tight loop."""


class InformerStats(msgspec.Struct):
    """What the metrics tell of an informer. Counts since it was made; `last_event` is seconds since the epoch (0: none yet)."""

    lists: int = 0
    relists: int = 0  # lists after the first: each stands for history that was lost
    watches: int = 0
    events: int = 0  # bookmarks not counted
    errors: int = 0
    stalls: int = 0  # watches given up because they were silent
    last_event: float = 0.0  # bookmarks included


class Informer(Generic[T]):
    """One kind's objects, kept up to date while `run` runs.

    `store` maps "namespace/name" (or "name") to the object and is to be read only. `synced` is set once the first list has been handled (or
    the kind is known not to be served). Handlers run between two awaits: who reads several stores without awaiting sees one moment.
    """

    def __init__(self, cluster: Cluster, kind: Kind, clock: Clock, random: Random, field_selector: str = "") -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self.stats = InformerStats()
        self.resource_version = ""  # of the last list or event, "" before the first list and when history was lost
        self._cluster = cluster
        self._clock = clock
        self._field_selector = field_selector
        self._backoff = Backoff(random)
        self._mirror: Mirror[T] = Mirror(kind.plural_group)
        self._relisted_for_nothing = False
        self._log = get_logger(__name__).bind(kind=kind.plural_group)

    @property
    def store(self) -> dict[str, T]:
        return self._mirror.store

    @property
    def handler_errors(self) -> int:
        """Return how many calls of handlers raised."""
        return self._mirror.handler_errors

    def add_handler(self, handler: Handler[T]) -> None:
        """Call the handler for everything in the store, and for every change from now on."""
        self._mirror.add_handler(handler)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self.resource_version:
                    await self._list()
                await self._watch()
            except Gone as error:
                await self._start_over(error)
            except NotFound:
                await self._wait_until_served()
            except ClusterError as error:
                await self._wait_after(error)

    async def _list(self) -> None:
        """Read all pages, then take them over at once: handlers never see half a list."""
        objects: list[Object] = []
        token = ""
        while True:
            page = await self._cluster.list(self.kind, field_selector=self._field_selector, limit=PAGE_SIZE, continue_token=token)
            objects.extend(page.items)
            token = page.continue_token
            if not token:
                break
        self.stats.lists += 1
        self.stats.relists = self.stats.lists - 1
        self._take_over(objects)
        self.resource_version = page.resource_version

    async def _watch(self) -> None:
        """Follow one watch to its end."""
        self.stats.watches += 1
        loop = asyncio.get_running_loop()
        begun = loop.time()
        events = self._cluster.watch(self.kind, resource_version=self.resource_version, field_selector=self._field_selector)
        max_silence = self._cluster.max_silence
        batches = 0
        try:
            async with asyncio.timeout(max_silence) as limit, aclosing(events):
                async for batch in events:
                    limit.reschedule(loop.time() + max_silence)
                    batches += 1
                    self._apply(batch)
        except TimeoutError:
            self.stats.stalls += 1
            self._log.warning("a watch was silent for too long; watching again", seconds=max_silence)
            return
        if not batches and loop.time() - begun < SHORT_WATCH_SECONDS:
            self.stats.errors += 1
            self._log.warning("a watch ended at once and brought nothing")
            await asyncio.sleep(self._backoff.delay())

    def _apply(self, batch: Sequence[WatchEvent]) -> None:
        self._backoff.reset()
        self._relisted_for_nothing = False
        self.stats.last_event = self._clock.now()
        changes = [event for event in batch if event.type is not BOOKMARK]
        for event in changes:
            self._mirror.apply(event)
        self.stats.events += len(changes)
        if batch:
            self.resource_version = batch[-1].object.metadata.resource_version

    def _take_over(self, objects: Sequence[Object]) -> None:
        self._mirror.replace(objects, Arrival.LATER if self.synced.is_set() else Arrival.INITIAL)
        self.synced.set()

    async def _start_over(self, error: Gone) -> None:
        """Forget the version, so that everything is listed again: at once, but not again and again without any event in between."""
        self.resource_version = ""
        self._log.info("the version to watch from is gone; listing again", error=error.message)
        if self._relisted_for_nothing:
            await asyncio.sleep(self._backoff.delay())
        self._relisted_for_nothing = True

    async def _wait_until_served(self) -> None:
        self.resource_version = ""
        if self.store or not self.synced.is_set():
            self._log.info("the cluster does not serve this kind; taken as empty", probe_seconds=PROBE_SECONDS)
        self._take_over([])
        await asyncio.sleep(PROBE_SECONDS)

    async def _wait_after(self, error: ClusterError) -> None:
        self.stats.errors += 1
        delay = self._backoff.delay()
        if isinstance(error, TooManyRequests):
            delay = max(delay, error.retry_after)
        self._log.warning("a list or watch failed; trying again", error=error.message, status=error.status, delay=round(delay, 3))
        await asyncio.sleep(delay)
