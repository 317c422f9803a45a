"""Keeps a store true to the cluster: list, then watch, and again from the last version when the watch ends.

The order of events is client-go's reflector's. A watch that ends is renewed from the last version seen (bookmarks advance it); when that
version is compacted (410) everything is listed again and handlers get the differences, deletions included. Errors are retried with
growing, jittered delays; a kind that is not served counts as empty and is asked for again every 30 s. Only cancelling ends `run`.

A list is taken over in slices, so that a long one holds up nothing else. So between two turns of the event loop handlers may have seen a
part of it, and a reader of the store finds each object either as the list has it or as it was before, as if a watch had sent the
differences one by one. What may come of that, and why it does no harm:

- First list: nothing is decided that depends on a kind before it is synced (`scheduler.late_lists`), and handlers take the objects of
  different kinds in any order (`take_over_after` is for speed alone). A long one is taken over page by page. If one of its pages does not
  come, the list is begun anew, and what was taken over of it is compared with the new one.
- Later lists: pods are scheduled meanwhile, on nodes some of whose changes are known. What came or changed is taken over before what went:
  room that a lost deletion makes is seen after the pods that have taken it, so none is given away twice.
- A pod that is bound or deleted meanwhile comes with the watch, which begins at the list's version once the list is taken over; until
  then its binding counts as assumed, and a bind of a pod that has gone is refused by the API server.
- What `correct` would take over meanwhile is left: the list is as new.

An object that exists but cannot be read stays as it was last: taken for deleted, a pod's room would be given away.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec

from koordsched.backoff import Backoff, grown
from koordsched.cluster.object_store import Arrival, Handler, ObjectStore, T, object_key
from koordsched.cluster.port import BOOKMARK, Cluster, ClusterError, Forbidden, Gone, NotFound, TooManyRequests, WatchEvent
from koordsched.log import get_logger
from koordsched.tasks import call_later

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from koordsched.api.kinds import Kind
    from koordsched.clock import Clock
    from koordsched.cluster.port import ListPage

PAGE_SIZE = 2_500
"""client-go's 500 costs the API server half as much again as 5,000 do (docs/benchmarks.md). Of pods with 5 kB each this is 12 MB, and to
find the items in it takes 8 ms between two turns of the event loop (bench_drift.py)."""
CUSTOM_PAGE_SIZE = 10_000
"""Of custom resources, of which there are one or two a node: a whole list, if it can be. The first page comes from the API server's watch
cache, the others from etcd where nothing of the kind has changed lately, and to decode custom resources anew costs it twice what all else
of a list does (docs/benchmarks.md). Where so large a page is refused or does not come, the next ones are smaller."""
PROBE_SECONDS = 30.0
"""How often a kind that the cluster does not serve is asked for again."""
SHORT_WATCH_SECONDS = 1.0
"""A watch that ended earlier than this and brought nothing is treated as an error, lest a broken server is asked in a tight loop."""
RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
"""When a handler that raised is called again: doubled from one failure to the next, and made up to twice as long by chance."""


class InformerStats(msgspec.Struct):
    """What the metrics say of an informer. Counts since it was made; times are seconds since the epoch (0: none yet)."""

    lists: int = 0
    relists: int = 0  # lists after the first: each stands for history that was lost
    watches: int = 0
    events: int = 0  # bookmarks not counted
    errors: int = 0
    stalls: int = 0  # watches given up because they were silent
    last_event: float = 0.0  # bookmarks included
    last_list: float = 0.0


class Informer(Generic[T]):
    """One kind's objects, kept up to date while `run` runs.

    `store` maps "namespace/name" (or "name") to the object, transformed (`transform_by`), and is to be read only. `synced` is set once the
    first list has been handled (or the kind is known not to be served). Handlers run between two awaits: who reads several stores without
    awaiting sees one moment of each watch, and while a list is being taken over a part of it (see above).
    """

    def __init__(self, cluster: Cluster, kind: Kind, clock: Clock, random: Random, field_selector: str = "") -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self.watched = True  # set before `run`; False: nothing is asked for, and the kind counts as empty
        self.required = True  # set before `run`; False: where it may not be read, nothing waits for it
        self.stats = InformerStats()
        self.resource_version = ""  # of the last list or event, "" before the first list and when history was lost
        self._cluster = cluster
        self._clock = clock
        self._field_selector = field_selector
        self._backoff = Backoff(random)
        self._objects: ObjectStore[T] = ObjectStore(kind.plural_group, self._retry_later)
        self._random = random
        self._loop: asyncio.AbstractEventLoop | None = None  # while `run` runs
        self._retries: dict[str, asyncio.TimerHandle] = {}  # by key: when handlers that missed a change of the object are called again
        self._relisted_for_nothing = False
        self._page_size = CUSTOM_PAGE_SIZE if kind.is_custom else PAGE_SIZE
        self._first: list[Informer[Any]] = []  # whose first lists are taken over before this one's
        self._served = True  # as far as is known
        self._distrusted = False  # the watch is to be given up
        self._limit: asyncio.Timeout | None = None  # of the watch that is followed: when it has been silent for too long
        self._watches_ended = 0
        self._log = get_logger(__name__).bind(kind=kind.plural_group)

    @property
    def store(self) -> dict[str, T]:
        return self._objects.store

    @property
    def handler_errors(self) -> int:
        """Return how many calls of handlers raised."""
        return self._objects.handler_errors

    @property
    def missed(self) -> Mapping[str, int]:
        """Return the objects of which some handler has missed a change, by key, each with the handler's failures in a row."""
        return self._objects.missed

    @property
    def field_selector(self) -> str:
        return self._field_selector

    def select_all(self) -> None:
        """Watch all objects of the kind. To be called before it runs."""
        self._field_selector = ""

    @property
    def followed_watch(self) -> int:
        """Return the number of the watch that is followed now, 0 while none is: the informer lists, or waits before it tries again."""
        return self.stats.watches if self.stats.watches > self._watches_ended else 0

    def silent_for(self) -> float:
        """Return how many seconds ago the API server said anything of this kind, be it a bookmark; 0 before the first list."""
        last = max(self.stats.last_event, self.stats.last_list)
        return max(0.0, self._clock.now() - last) if last else 0.0

    def transform_by(self, transform: Callable[[T], T] | None) -> None:
        """Let every object be changed so before it is stored. To be called before `run`."""
        self._objects.transform = transform

    def transformed(self, obj: T) -> T:
        """Return an object of the cluster as the store would hold it."""
        return self._objects.transformed(obj)

    def add_handler(self, handler: Handler[T]) -> None:
        """Call the handler for everything in the store, and for every change from now on."""
        self._objects.add_handler(handler)

    def take_over_after(self, other: Informer[Any]) -> None:
        """Take the first list over only once that of another kind has been: where that order is less work for handlers. To be called
        before either runs; `other` must not wait for this one.
        """
        self._first.append(other)

    def correct(self, key: str, obj: T | None) -> bool:
        """Take over what the API server says of an object (None: it does not exist) that the watch did not send; whether that was news."""
        return self._objects.correct(key, obj)

    def list_again(self) -> None:
        """Give the watch up, because too much was lost on it, and list everything again."""
        self._distrusted = True
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def repeat(self, key: str) -> None:
        """Call all handlers with an object anew, as with one that was added."""
        self._objects.repeat(key)

    async def run(self) -> None:
        """List and watch until cancelled."""
        self._loop = asyncio.get_running_loop()
        for key, failures in self._objects.missed.items():  # before there was a loop
            self._retry_later(key, failures)
        try:
            if not self.watched:
                await self._take_over({})
                await asyncio.Event().wait()
            await self._follow()
        finally:
            self._loop = None
            for timer in self._retries.values():
                timer.cancel()
            self._retries.clear()

    async def _follow(self) -> None:
        while True:
            try:
                if not self.resource_version or self._distrusted:
                    await self._list()
                await self._watch()
            except Gone as error:
                await self._start_over(error)
            except NotFound:
                await self._wait_until_served()
            except ClusterError as error:
                await self._wait_after(error)

    def _retry_later(self, key: str, failures: int) -> None:
        """Call the handlers again that missed a change of an object, later the more often they have failed."""
        if self._loop is None:
            return
        if (timer := self._retries.pop(key, None)) is not None:
            timer.cancel()
        delay = grown(RETRY_SECONDS, MAX_RETRY_SECONDS, failures) * (1.0 + self._random.random())
        self._retries[key] = call_later(delay, self._retry, key)

    def _retry(self, key: str) -> None:
        del self._retries[key]
        self._objects.retry(key)

    async def _list(self) -> None:
        """Read all pages, then take them over; those of a long first list while the next ones are read: the API server needs its time."""
        listed: dict[str, T] = {}
        token, taking = "", None
        parts: asyncio.Queue[Mapping[str, T] | None] = asyncio.Queue()
        try:
            while True:
                page = await self._page(token)
                part = {object_key(obj): cast("T", obj) for obj in page.items}
                listed.update(part)
                listed.update({key: self.store[key] for key in page.unreadable if key in self.store})
                token = page.continue_token
                if not token:
                    break
                if not self.synced.is_set():
                    parts.put_nowait(part)
                    taking = taking or asyncio.create_task(self._take_in(parts))
            self._note_list()
            if taking is not None:
                parts.put_nowait(part)
                parts.put_nowait(None)
                await taking
        finally:
            if taking is not None and not taking.done():
                taking.cancel()
                await asyncio.wait({taking})
        await self._take_over(listed, is_taken_in=taking is not None)
        self.resource_version = page.resource_version

    async def _take_in(self, parts: asyncio.Queue[Mapping[str, T] | None]) -> None:
        """Take over the parts of the first list as they come, until there comes None."""
        await self._wait_for_turn()
        while (part := await parts.get()) is not None:
            for _ in self._objects.take_in(part, Arrival.INITIAL):
                await asyncio.sleep(0)

    def _note_list(self) -> None:
        if not self._served:
            self._log.info("the cluster serves this kind now")
        self._served = True
        self.stats.lists += 1
        self.stats.relists = self.stats.lists - 1
        self.stats.last_list = self._clock.now()
        self._distrusted = False

    async def _page(self, token: str) -> ListPage:
        try:
            return await self._cluster.list(self.kind, field_selector=self._field_selector, limit=self._page_size, continue_token=token)
        except ClusterError:
            self._page_size = PAGE_SIZE
            raise

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
                self._limit = limit
                async for batch in events:
                    if not self._distrusted:
                        limit.reschedule(loop.time() + max_silence)
                    batches += 1
                    self._apply(batch)
        except TimeoutError:
            if self._distrusted:
                return
            self.stats.stalls += 1
            self._log.warning("a watch was silent for too long; watching again", seconds=max_silence)
            return
        finally:
            self._limit = None
            self._watches_ended = self.stats.watches
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
            self._objects.apply(event)
        self.stats.events += len(changes)
        if batch:
            self.resource_version = batch[-1].object.metadata.resource_version

    async def _take_over(self, listed: Mapping[str, T], *, is_taken_in: bool = False) -> None:
        """Take over a list; is_taken_in: of which only what it does not hold is left to do."""
        if not self.synced.is_set():
            await self._wait_for_turn()
        arrival = Arrival.LATER if self.synced.is_set() else Arrival.INITIAL
        for _ in self._objects.drop_others(listed) if is_taken_in else self._objects.replace(listed, arrival):
            await asyncio.sleep(0)
        self.synced.set()

    async def _wait_for_turn(self) -> None:
        for other in self._first:
            await other.synced.wait()

    async def _start_over(self, error: Gone) -> None:
        """Forget the version, so that everything is listed again: at once, but not again and again without any event in between."""
        self.resource_version = ""
        self._log.info("the version to watch from is gone; listing again", error=error.message)
        if self._relisted_for_nothing:
            await asyncio.sleep(self._backoff.delay())
        self._relisted_for_nothing = True

    async def _wait_until_served(self) -> None:
        self.resource_version = ""
        if self._served:
            self._log.info("the cluster does not serve this kind; taken as empty", probe_seconds=PROBE_SECONDS)
        self._served = False
        await self._take_over({})
        await asyncio.sleep(PROBE_SECONDS)

    async def _wait_after(self, error: ClusterError) -> None:
        self.stats.errors += 1
        delay = self._backoff.delay()
        if isinstance(error, Forbidden) and not self.required and not self.synced.is_set():
            await self._take_over({})
        if isinstance(error, TooManyRequests):
            delay = max(delay, error.retry_after)
        self._log.warning("a list or watch failed; trying again", error=error.message, status=error.status, delay=round(delay, 3))
        await asyncio.sleep(delay)
