"""The standing check: compares a part of the cache and the queue with the cluster every so often, mends what differs and counts it.

Each turn takes a tenth of the nodes with their pods, all pending pods, and a tenth of each kind's list; so after ten turns everything was
compared once. It compares as `Debugger` does and by the same rule: what differs in every comparison for five seconds is no longer on its
way. Leaders and standbys check alike. Cost at 5,000 nodes and 50,000 pods: bench_drift.py.

An object is taken in again by the way that it takes when it is new: its informer calls all handlers once more. Before that, what is wrong
is removed, and a row's columns are written anew from what the cache keeps of the node, so that what handlers subtract is there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koordsched.cluster.port import ClusterError, Forbidden, NotFound
from koordsched.log import get_logger
from koordsched.queue.events import ASSIGNED_POD_DELETE, NODE_DELETE
from koordsched.scheduler.debugger.cache_comparison import QUEUED, all_nodes
from koordsched.scheduler.debugger.comparison import key_of, uid_of
from koordsched.scheduler.debugger.debugger import ASKED_FOR, PAGE, Debugger, still_different
from koordsched.scheduler.debugger.list_comparison import Differing, ListWalk
from koordsched.scheduler.failure import bound_to
from koordsched.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koordsched.api.kinds import Kind
    from koordsched.cluster.informer import Informer
    from koordsched.scheduler.debugger.comparison import Comparison, Sources, WrongNode
    from koordsched.scheduler.metrics import DriftMetrics

log = get_logger(__name__)

TURNS = 10
"""After so many turns everything was compared."""
LOST_SECONDS = 30.0
"""A kind without a watch is compared when the API server has said nothing of it for so long: its watch may never work again."""
PAUSE_SECONDS = 0.05
"""Between two slices of work: with slices of 4 ms, pods are scheduled nearly as fast as without the check."""

NODE, POD, ROW, WATCH = "node", "pod", "row", "watch"
"""Values of the label `kind`, beside the names of plugins: a node or pod that is missing or should not be there, a wrong fact of a node,
and an object of which the watch has another state than the API server."""


class StandingCheck:
    """The check of one scheduler. `run` is a task of the scheduler."""

    def __init__(self, sources: Sources, informers: Iterable[Informer[Any]], metrics: DriftMetrics) -> None:
        self._sources = sources
        self._informers = informers
        self._metrics = metrics
        self._debugger = Debugger(sources, PAUSE_SECONDS)
        self._slices = self._debugger.slices()
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
            if informer.synced.is_set() and informer.watched:
                await self._check_list(informer)
        await self._check_cache()
        self._metrics.checked()

    async def _check_list(self, informer: Informer[Any]) -> None:
        """Compare a part of a kind with the API server; take in again what the watch missed.

        An informer that has just lost its watch lists, or waits before it tries again, and takes in what it misses: it is not compared.
        """
        followed = informer.followed_watch
        walk = self._walks.get(informer.kind)
        if walk is None:
            walk = self._walks[informer.kind] = ListWalk(self._sources.context.cluster, informer)
        left = max(PAGE, len(informer.store) // TURNS + 1)
        found: list[Differing] = []
        last = False
        while left > 0 and not last:
            try:
                page, last = await walk.next_page(min(left, PAGE), self._slices)
            except NotFound:
                return  # not served, at present
            except Forbidden:
                if informer.required:
                    raise
                return  # taken as empty, as its informer does and says in the log
            found += page
            left -= PAGE
        found = await still_different(walk, found)
        is_followed = followed != 0 and informer.followed_watch == followed
        if not is_followed and informer.silent_for() < LOST_SECONDS:
            return
        if len(found) > ASKED_FOR:
            self._report(informer, f"{len(found)} objects", "", "")
            informer.list_again()
            return
        for each in found:
            differs, obj = await walk.is_still_different(each)
            watched = informer.store.get(each.key)
            version = "" if watched is None else watched.metadata.resource_version
            if differs and informer.correct(each.key, obj):
                self._report(informer, each.key, version, "" if obj is None else obj.metadata.resource_version)

    async def _check_cache(self) -> None:
        if not self._rows:
            self._rows = sorted(all_nodes(self._sources))
            self._rows_a_turn = len(self._rows) // TURNS + 1
        part, self._rows = self._rows[: self._rows_a_turn], self._rows[self._rows_a_turn :]
        found = await self._debugger.confirmed_comparison_with_watch(set(part))
        await mend(self._sources, found, self._metrics.drifted, self._slices)

    def _report(self, informer: Informer[Any], key: str, watched: str, actual: str) -> None:
        self._metrics.drifted(WATCH)
        log.error(
            "a watch missed a change; it is taken in now",
            kind=informer.kind.plural_group,
            object=key,
            cached=watched,
            actual=actual,
        )


async def mend(sources: Sources, found: Comparison, count: Callable[[str], None], slices: Slices) -> None:
    """Mend what a confirmed comparison found, log it and count it by kind."""
    mending = _Mending(sources, count)
    with slices:
        for name in found.redundant_pods:
            mending.remove_pod(key_of(name), uid_of(name))
            await slices.pause()
        for node in found.redundant_nodes:
            mending.remove_node(node)
            await slices.pause()
        for node in found.missed_nodes:
            mending.take_in_node(node)
            await slices.pause()
        by_node: dict[str, list[WrongNode]] = {}
        for wrong in found.wrong_nodes:
            by_node.setdefault(wrong.node, []).append(wrong)
        for node, wrongs in by_node.items():
            mending.mend_row(node, wrongs)
            await slices.pause()
        for name in found.missed_pods:
            mending.take_in_pod(key_of(name), "it was missing")
            await slices.pause()
        for stale in found.stale:
            if stale.kind == QUEUED:
                mending.take_in_pod(key_of(stale.object), f"the queue had version {stale.watched}, not {stale.actual}")
                await slices.pause()


class _Mending:
    def __init__(self, sources: Sources, count: Callable[[str], None]) -> None:
        self._sources = sources
        self._cache, self._queue = sources.context.cache, sources.context.queue
        self._count = count

    def remove_pod(self, key: str, uid: str) -> None:
        """Forget a pod that does not exist, or that waits though it is bound or another scheduler is responsible for it."""
        pod = self._sources.live.at(key)
        exists = pod is not None and pod.metadata.uid == uid
        info, state = self._queue.get(key), self._cache.pods.get(uid)
        waits = info is not None and info.uid == uid
        if state is not None and not exists:
            self._report(POD, f"{key} ({uid})", "counted on", state.node.name, "")
            self._forget_counted(uid)
        elsewhere = pod is None or not exists or bool(pod.spec.node_name) or (info is not None and pod.spec.scheduler_name != info.profile)
        if info is not None and waits and elsewhere:
            self._report(POD, f"{key} ({uid})", "waits", cached=True, actual=False)
            self._queue.forget(info.pod_info)

    def remove_node(self, name: str) -> None:
        self._report(NODE, name, "exists", cached=True, actual=False)
        info = self._cache.nodes_by_name.get(name)
        node = None if info is None else info.node
        if node is not None:
            self._cache.rewrite(name)
            self._cache.remove_node(name)
            self._queue.move_all(NODE_DELETE, node, None)

    def take_in_node(self, name: str) -> None:
        self._report(NODE, name, "exists", cached=False, actual=True)
        if name in self._cache.nodes_by_name:
            self._cache.rewrite(name)
        self._sources.nodes.repeat(name)

    def mend_row(self, name: str, wrongs: list[WrongNode]) -> None:
        """Write a row anew, take in its pods and its node again, and let plugins derive anew what they keep of it."""
        states = {state.name: state for state in self._cache.checked}
        kinds = set()
        for wrong in wrongs:
            plugin = wrong.column.partition(": ")[0]
            kind = plugin if plugin in states else ROW
            kinds.add(kind)
            self._report(kind, name, wrong.column, wrong.cached, wrong.actual)
        if ROW in kinds and name in self._cache.nodes_by_name:
            self._cache.rewrite(name)
            self._take_in_pods(name)
        for plugin in sorted(kinds - {ROW}):
            states[plugin].rebuild(name)
        self._sources.nodes.repeat(name)  # moves the pods that wait for this node, too

    def _take_in_pods(self, name: str) -> None:
        info = self._cache.nodes_by_name.get(name)
        for uid, counted in list(info.pods.items()) if info is not None else ():
            pod, state = self._sources.live.of(counted), self._cache.pods[uid]
            if pod is None or pod.metadata.uid != uid or (pod.spec.node_name != name and not (state.assumed and not pod.spec.node_name)):
                self._forget_counted(uid)
                if pod is not None:
                    self._sources.repeat_pod(counted.key)
            elif pod.spec.node_name:
                self._sources.repeat_pod(counted.key)

    def take_in_pod(self, key: str, why: str) -> None:
        self._report(POD, key, "known", why, "")
        info = self._queue.get(key)
        if info is not None:
            self._queue.forget(info.pod_info)
        self._sources.repeat_pod(key)

    def _forget_counted(self, uid: str) -> None:
        """Count a pod no longer, after its row was written anew so that what is subtracted is there."""
        state = self._cache.pods[uid]
        if state.node.pods.get(uid) is None:
            state.node.pods[uid] = state.info
        self._cache.rewrite(state.node.name)
        state = self._cache.pods[uid]
        self._cache.remove_pod(uid)
        self._queue.move_all(ASSIGNED_POD_DELETE, bound_to(state.info.pod, state.node.name), None)

    def _report(self, kind: str, name: str, column: str, cached: object, actual: object) -> None:
        self._count(kind)
        log.error("the cache differed from the cluster and is mended", kind=kind, object=name, column=column, cached=cached, actual=actual)
