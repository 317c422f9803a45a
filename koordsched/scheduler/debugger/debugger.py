"""Debugger: shows a scheduler's cache and queue and compares them with the cluster, on SIGUSR2, for `/debug` and the standing check."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.cluster.port import ClusterError
from koordsched.log import get_logger
from koordsched.scheduler.debugger.cache_comparison import compare_with_watch, found_in
from koordsched.scheduler.debugger.comparison import Comparison, Stale, pod_name
from koordsched.scheduler.debugger.dump import CacheDump, QueueDump, dump_cache, dump_queue
from koordsched.scheduler.debugger.list_comparison import Differing, ListWalk
from koordsched.slices import PAUSE_SECONDS, Slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from koordsched.cluster.informer import Informer
    from koordsched.scheduler.debugger.comparison import Sources

log = get_logger(__name__)

COMPARISONS_AGAIN = 5
COMPARE_AGAIN_SECONDS = 1.0
"""A difference that lasts longer than these together is reported: a watch that is this far behind is worth it."""
PAGE = 500
"""Objects that are listed in one request: client-go's, so that neither side holds much at once."""
ASKED_FOR = 100
"""Objects that are asked for by name, each second. If more differ, the watch is broken, and asking for each proves no more."""
LOGGED = 1000  # nodes, and pods of each part of the queue, that a dump in the log shows
LOGGED_A_LINE = 50
LOGGED_FINDINGS = 100  # of each kind


class Debugger:
    """Reads, and changes nothing. Comparisons are done in slices, with pauses of `pause` seconds."""

    def __init__(self, sources: Sources, pause: float = PAUSE_SECONDS) -> None:
        self._sources = sources
        self._pause = pause

    def slices(self) -> Slices:
        """Return slices for one piece of work. In virtual time, which stands still while work is done, they never end."""
        return Slices(self._sources.context.clock.uptime, self._pause)

    async def compare_with_watch(self) -> Comparison:
        """Compare cache and queue with what the watches say, once."""
        return await compare_with_watch(self._sources, self.slices())

    async def compare(self) -> Comparison:
        """Compare the watches with a fresh list, and cache and queue with the watches. Takes seconds when something differs.

        ClusterError when nodes or pods cannot be listed.
        """
        sources = self._sources
        nodes = await confirmed_differences(ListWalk(sources.context.cluster, sources.nodes), self.slices())
        pods = await confirmed_differences(ListWalk(sources.context.cluster, sources.pods), self.slices())
        cache = await self.confirmed_comparison_with_watch()
        return cache.merged(_comparison(sources.nodes, nodes).merged(_comparison(sources.pods, pods)))

    async def confirmed_comparison_with_watch(self, nodes: set[str] | None = None) -> Comparison:
        """Compare cache and queue with what the watches say, and what differs again for some seconds. nodes: only these rows."""
        first: Comparison | None = None
        slices = self.slices()

        async def compare() -> Comparison:
            nonlocal first
            if first is None:
                first = await compare_with_watch(self._sources, slices, nodes)
                return first
            rows, pods = found_in(first)
            again = await compare_with_watch(self._sources, slices, rows, pods)
            return msgspec.structs.replace(again, unreadable=first.unreadable)

        return await confirmed(compare)

    async def cache(self, limit: int, work: Slices) -> CacheDump:
        """Show the cache of at most so many nodes; `work` is entered."""
        return await dump_cache(self._sources.context, limit, work.pause)

    async def queue(self, limit: int, work: Slices) -> QueueDump:
        """Show at most so many pods of each part of the queue; `work` is entered."""
        return await dump_queue(self._sources.context, limit, work.pause)

    async def log_all(self) -> None:
        """Log a dump of this moment, then the comparison."""
        with self.slices() as work:
            cache, queue = await self.cache(LOGGED, work), await self.queue(LOGGED, work)
        _log_cache(cache)
        _log_queue(queue)
        try:
            comparison = await self.compare()
        except ClusterError as error:
            log.warning("no fresh list to compare with; compared with the watches only", status=error.status, err=error.message)
            comparison = await self.compare_with_watch()
        _log_comparison(comparison)


async def confirmed(compare: Callable[[], Awaitable[Comparison]]) -> Comparison:
    """Compare, and again a second later while anything differs; return what differed every time."""
    found = await compare()
    for _ in range(COMPARISONS_AGAIN):
        if found.ok:
            break
        await asyncio.sleep(COMPARE_AGAIN_SECONDS)
        found = found.still(await compare())
    return found


async def confirmed_differences(walk: ListWalk[Any], slices: Slices) -> list[Differing]:
    """List all of a kind, and return in what the watch differs and goes on to differ. ClusterError."""
    found: list[Differing] = []
    last = False
    while not last:
        page, last = await walk.next_page(PAGE, slices)
        found += page
    return await still_different(walk, found)


async def still_different(walk: ListWalk[Any], found: list[Differing]) -> list[Differing]:
    """Return of what differs the objects that go on to differ for some seconds while the watch reports nothing of them. ClusterError."""
    found = walk.unchanged(found)
    for _ in range(COMPARISONS_AGAIN):
        if not found:
            break
        await asyncio.sleep(COMPARE_AGAIN_SECONDS)
        found = walk.unchanged(found)
        if len(found) <= ASKED_FOR:
            found = [each for each in found if (await walk.is_still_different(each))[0]]
    return walk.unchanged(found)


def _comparison(informer: Informer[Any], found: Sequence[Differing]) -> Comparison:
    """Return what differs of nodes or pods."""
    kind = informer.kind.kind.lower()

    def name(each: Differing) -> str:
        return pod_name(each.key, each.uid) if kind == "pod" else each.key

    missed = tuple(sorted(name(each) for each in found if not each.watched))
    redundant = tuple(sorted(name(each) for each in found if not each.actual))
    stale = tuple(Stale(kind, name(each), each.watched, each.actual) for each in sorted(found) if each.watched and each.actual)
    if kind == "pod":
        return Comparison(missed_pods=missed, redundant_pods=redundant, stale=stale)
    return Comparison(missed_nodes=missed, redundant_nodes=redundant, stale=stale)


def _log_comparison(comparison: Comparison) -> None:
    report = comparison.report()
    shown = {name: _shortened(value) for name, value in report.items() if value or name in {"nodes", "pods"}}
    if comparison.ok:
        log.info("cache comparison: equal to the cluster", **shown)
    else:
        log.warning("cache comparison: different from the cluster", **shown)


def _shortened(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    more = len(value) - LOGGED_FINDINGS
    return [*value[:LOGGED_FINDINGS], *([f"and {more} more"] if more > 0 else [])]


def _log_cache(cache: CacheDump) -> None:
    log.info("dump: cache", nodes=cache.nodes_total, pods=cache.pods_total, assumed=cache.assumed_total, repairs=cache.repairs)
    _log_lines("dump: nodes", cache.nodes, cache.nodes_total)
    if cache.nominated:
        log.info("dump: nominations", by_node=cache.nominated)


def _log_queue(queue: QueueDump) -> None:
    for name in ("active", "backoff", "unschedulable", "gated", "in_flight"):
        part = getattr(queue, name)
        _log_lines(f"dump: {name} pods", part.pods, part.total)
    _log_lines("dump: pods waiting on permit", queue.waiting, queue.waiting_total)


def _log_lines(text: str, shown: Sequence[msgspec.Struct], total: int) -> None:
    """Log so many items a line; `first` counts from 1 and `total` has those that are not shown as well."""
    for start in range(0, len(shown), LOGGED_A_LINE):
        items = msgspec.to_builtins(shown[start : start + LOGGED_A_LINE])
        log.info(text, first=start + 1, total=total, items=items)
    if not shown:
        log.info(text, total=total)
