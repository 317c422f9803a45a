"""Debugger: shows a scheduler's beliefs and compares them with the cluster. Called on SIGUSR2 and by `/debug`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.cluster.port import ClusterError
from koordsched.log import get_logger
from koordsched.scheduler.debugger.beliefs import compare_with_watch
from koordsched.scheduler.debugger.dump import CacheDump, QueueDump, dump_cache, dump_queue
from koordsched.scheduler.debugger.fresh_list import compare_with_list

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from koordsched.scheduler.debugger.comparison import Comparison
    from koordsched.scheduler.debugger.sources import Sources

log = get_logger(__name__)

LOOKS_AGAIN = 5
LOOK_AGAIN_SECONDS = 1.0
"""What is on its way for longer than these together is reported: a watch that is this far behind is worth a look."""
LOGGED = 1000  # nodes, and pods of each part of the queue, that a dump in the log shows
LOGGED_A_LINE = 50
LOGGED_FINDINGS = 100  # of each kind


class Debugger:
    """Looks, and changes nothing."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def compare_with_watch(self) -> Comparison:
        """Compare cache and queue with what the watches say at this moment."""
        return compare_with_watch(self._sources)

    async def compare(self) -> Comparison:
        """Compare the watches with a fresh list, and cache and queue with the watches. Takes seconds when something differs.

        ClusterError when nodes or pods cannot be listed.
        """

        async def beliefs() -> Comparison:
            return self.compare_with_watch()

        listed = await confirmed(lambda: compare_with_list(self._sources))
        return (await confirmed(beliefs)).merged(listed)

    def cache(self, limit: int) -> CacheDump:
        """Show what is believed of at most so many nodes."""
        return dump_cache(self._sources.parts, limit)

    def queue(self, limit: int) -> QueueDump:
        """Show at most so many pods of each part of the queue."""
        return dump_queue(self._sources.parts, limit)

    async def log_all(self) -> None:
        """Log a dump of this moment, then the comparison."""
        cache, queue = self.cache(LOGGED), self.queue(LOGGED)
        _log_cache(cache)
        _log_queue(queue)
        try:
            comparison = await self.compare()
        except ClusterError as error:
            log.warning("no fresh list to compare with; compared with the watches only", status=error.status, err=error.message)
            comparison = self.compare_with_watch()
        _log_comparison(comparison)


async def confirmed(look: Callable[[], Awaitable[Comparison]]) -> Comparison:
    """Look, and again a second later while anything differs; return what differed every time."""
    found = await look()
    for _ in range(LOOKS_AGAIN):
        if found.ok:
            break
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        found = found.still(await look())
    return found


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
