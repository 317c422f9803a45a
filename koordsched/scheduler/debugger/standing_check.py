"""The standing check: compares a part of what is believed with the cluster every so often, mends what differs and counts it.

Each turn takes a tenth of the nodes with their pods, all pending pods, and a tenth of each kind's list; so after ten turns everything was
compared once. It looks in the way of `Debugger` and by the same rule: what differs at every look for five seconds is no longer on its way.
Leaders and standbys check alike. Cost at 5,000 nodes and 50,000 pods: bench_drift.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koordsched.cluster.port import ClusterError, NotFound
from koordsched.log import get_logger
from koordsched.scheduler.debugger.beliefs import all_nodes
from koordsched.scheduler.debugger.debugger import ASKED_FOR, PAGE, Debugger, still_different
from koordsched.scheduler.debugger.fresh_list import Differing, ListWalk
from koordsched.scheduler.debugger.mending import WATCH, mend
from koordsched.scheduler.debugger.slices import run_sliced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.kinds import Kind
    from koordsched.cluster.informer import Informer
    from koordsched.scheduler.debugger.sources import Sources
    from koordsched.scheduler.metrics import DriftMetrics

log = get_logger(__name__)

TURNS = 10
"""After so many turns everything was compared."""
PAUSE_SECONDS = 0.05
"""Between two slices of work: with slices of 4 ms, pods are scheduled nearly as fast as without the check."""


class StandingCheck:
    """The check of one scheduler. `run` is a task of the scheduler."""

    def __init__(self, sources: Sources, informers: Iterable[Informer[Any]], metrics: DriftMetrics) -> None:
        self._sources = sources
        self._informers = informers
        self._metrics = metrics
        self._debugger = Debugger(sources)
        self._rows: list[str] = []  # nodes that are still to be compared in this round
        self._rows_a_turn = 1
        self._walks: dict[Kind, ListWalk[Any]] = {}

    async def run(self, interval: float) -> None:
        """Check a part every so many seconds, until cancelled. What fails is logged and counted, and the next turn comes."""
        while True:
            await asyncio.sleep(interval)
            try:
                await self.check_part()
            except ClusterError as error:
                self._metrics.check_failed()
                log.warning("the cache could not be compared with the cluster", status=error.status, err=error.message)
            except Exception:
                self._metrics.check_failed()
                log.exception("the standing check of the cache failed")

    async def check_part(self) -> None:
        """Check one turn's part."""
        for informer in self._informers:
            if informer.synced.is_set():
                await self._check_list(informer)
        await self._check_beliefs()
        self._metrics.checked()

    async def _check_list(self, informer: Informer[Any]) -> None:
        """Compare a part of a kind with the API server; take in again what the watch did not tell."""
        walk = self._walks.get(informer.kind)
        if walk is None:
            walk = self._walks[informer.kind] = ListWalk(self._sources.parts.cluster, informer)
        left = max(PAGE, len(informer.store) // TURNS + 1)
        found: list[Differing] = []
        last = False
        while left > 0 and not last:
            try:
                page, last = await walk.next_page(min(left, PAGE), PAUSE_SECONDS)
            except NotFound:
                return  # not served, at present
            found += page
            left -= PAGE
        found = await still_different(walk, found)
        if len(found) > ASKED_FOR:
            self._say(informer, f"{len(found)} objects", "", "")
            informer.list_again()
            return
        for each in found:
            differs, obj = await walk.is_still_different(each)
            watched = informer.store.get(each.key)
            version = "" if watched is None else watched.metadata.resource_version
            if differs and informer.correct(each.key, obj):
                self._say(informer, each.key, version, "" if obj is None else obj.metadata.resource_version)

    async def _check_beliefs(self) -> None:
        if not self._rows:
            self._rows = sorted(all_nodes(self._sources))
            self._rows_a_turn = len(self._rows) // TURNS + 1
        part, self._rows = self._rows[: self._rows_a_turn], self._rows[self._rows_a_turn :]
        found = await self._debugger.confirmed_beliefs(set(part), PAUSE_SECONDS)
        await run_sliced(mend(self._sources, found, self._metrics.drifted))

    def _say(self, informer: Informer[Any], key: str, watched: str, actual: str) -> None:
        self._metrics.drifted(WATCH)
        log.error(
            "a watch did not tell of a change; it is taken in now",
            kind=informer.kind.plural_group,
            object=key,
            cached=watched,
            actual=actual,
        )
