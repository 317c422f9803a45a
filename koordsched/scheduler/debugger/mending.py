"""Makes the cache, what plugins keep and the queue equal to the objects again, where a comparison found them different.

An object is taken in by the way that it takes when it is new: its informer tells all handlers again. Before that, what is wrong is
removed, and a row's columns are written anew from what the cache keeps of the node, so that what handlers subtract is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.log import get_logger
from koordsched.queue.events import ASSIGNED_POD_DELETE, NODE_DELETE
from koordsched.scheduler.debugger.beliefs import QUEUED
from koordsched.scheduler.debugger.sources import key_of, uid_of
from koordsched.scheduler.failure import bound_to

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from koordsched.scheduler.debugger.comparison import Comparison, WrongNode
    from koordsched.scheduler.debugger.sources import Sources

log = get_logger(__name__)

NODE, POD, ROW, WATCH = "node", "pod", "row", "watch"
"""Values of the label `kind`, beside the names of plugins: a node or pod that is missing or should not be there, a wrong fact of a node,
and an object of which the watch has another state than the API server."""


def mend(sources: Sources, found: Comparison, count: Callable[[str], None]) -> Generator[None, None, None]:
    """Mend what a confirmed comparison found, log it and count it by kind; yield after each object."""
    mending = _Mending(sources, count)
    for name in found.redundant_pods:
        mending.remove_pod(key_of(name), uid_of(name))
        yield
    for node in found.redundant_nodes:
        mending.remove_node(node)
        yield
    for node in found.missed_nodes:
        mending.take_in_node(node)
        yield
    by_node: dict[str, list[WrongNode]] = {}
    for wrong in found.wrong_nodes:
        by_node.setdefault(wrong.node, []).append(wrong)
    for node, wrongs in by_node.items():
        mending.mend_row(node, wrongs)
        yield
    for name in found.missed_pods:
        mending.take_in_pod(key_of(name), "it was missing")
        yield
    for stale in found.stale:
        if stale.kind == QUEUED:
            mending.take_in_pod(key_of(stale.object), f"the queue had version {stale.watched}, not {stale.actual}")
            yield


class _Mending:
    def __init__(self, sources: Sources, count: Callable[[str], None]) -> None:
        self._sources = sources
        self._cache, self._queue = sources.parts.cache, sources.parts.queue
        self._count = count

    def remove_pod(self, key: str, uid: str) -> None:
        """Forget a pod that does not exist, or that waits though it is bound."""
        pod = self._sources.pods.store.get(key)
        exists = pod is not None and pod.metadata.uid == uid
        info, state = self._queue.get(key), self._cache.pods.get(uid)
        waits = info is not None and info.uid == uid
        if state is not None and not exists:
            self._say(POD, f"{key} ({uid})", "counted on", state.node.name, "")
            self._forget_counted(uid)
        if info is not None and waits and (pod is None or not exists or pod.spec.node_name):
            self._say(POD, f"{key} ({uid})", "waits", cached=True, actual=False)
            self._queue.forget(info.pod_info)

    def remove_node(self, name: str) -> None:
        self._say(NODE, name, "exists", cached=True, actual=False)
        info = self._cache.nodes_by_name.get(name)
        node = None if info is None else info.node
        if node is not None:
            self._cache.rewrite(name)
            self._cache.remove_node(name)
            self._queue.move_all(NODE_DELETE, node, None)

    def take_in_node(self, name: str) -> None:
        self._say(NODE, name, "exists", cached=False, actual=True)
        if name in self._cache.nodes_by_name:
            self._cache.rewrite(name)
        self._sources.nodes.repeat(name)

    def mend_row(self, name: str, wrongs: list[WrongNode]) -> None:
        """Write a row anew, take in its pods and its node again, and let plugins derive anew what they keep of it."""
        states = {state.name: state for state in self._cache.checked}
        rebuilt = {state for wrong in wrongs if (state := wrong.column.partition(": ")[0]) in states}
        for wrong in wrongs:
            plugin = wrong.column.partition(": ")[0]
            self._say(plugin if plugin in states else ROW, name, wrong.column, wrong.cached, wrong.actual)
        if name in self._cache.nodes_by_name and any(wrong.column.partition(": ")[0] not in states for wrong in wrongs):
            self._cache.rewrite(name)
            self._take_in_pods(name)
        for state in rebuilt:
            states[state].rebuild(name)
        self._sources.nodes.repeat(name)  # wakes who waits for this node, too

    def _take_in_pods(self, name: str) -> None:
        info = self._cache.nodes_by_name.get(name)
        for uid, counted in list(info.pods.items()) if info is not None else ():
            pod, state = self._sources.pods.store.get(counted.key), self._cache.pods[uid]
            if pod is None or pod.metadata.uid != uid or (pod.spec.node_name != name and not (state.assumed and not pod.spec.node_name)):
                self._forget_counted(uid)
                if pod is not None:
                    self._sources.pods.repeat(counted.key)
            elif pod.spec.node_name:
                self._sources.pods.repeat(counted.key)

    def take_in_pod(self, key: str, why: str) -> None:
        self._say(POD, key, "known", why, "")
        info = self._queue.get(key)
        if info is not None:
            self._queue.forget(info.pod_info)
        self._sources.pods.repeat(key)

    def _forget_counted(self, uid: str) -> None:
        """Count a pod no longer, after its row was written anew so that what is subtracted is there."""
        state = self._cache.pods[uid]
        if state.node.pods.get(uid) is None:
            state.node.pods[uid] = state.info
        self._cache.rewrite(state.node.name)
        state = self._cache.pods[uid]
        self._cache.remove_pod(uid)
        self._queue.move_all(ASSIGNED_POD_DELETE, bound_to(state.info.pod, state.node.name), None)

    def _say(self, kind: str, name: str, column: str, cached: object, actual: object) -> None:
        self._count(kind)
        log.error("the cache differed from the cluster and is mended", kind=kind, object=name, column=column, cached=cached, actual=actual)
