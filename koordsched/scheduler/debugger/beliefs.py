"""The cache, what plugins keep beside it, and the queue, against what the watches say.

Works in slices, between which the world goes on; but a node with its pods is compared at one moment, and so is a pod with the queue.
Handlers run inside the informers' updates, so at such a moment every difference is one, but for two:

- A pod that was decided upon while it was deleted is assumed until its binding fails.
- While a list is being taken over, or a handler that failed is to be told again, the store is ahead.

That is why callers look again before they report (`debugger.confirmed`). A pod that comes to a node while the look runs is looked for there
the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.api.resources import node_allocatable
from koordsched.scheduler.debugger.comparison import Comparison, Stale, WrongNode
from koordsched.scheduler.debugger.node_facts import Actual, wrong_facts
from koordsched.scheduler.debugger.slices import GLANCE, ROW, Work
from koordsched.scheduler.debugger.sources import key_of, pod_name

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable

    from koordsched.api.core import Pod
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.debugger.sources import Sources

QUEUED = "queued pod"
"""The kind of `Stale` that is a pod of which the queue has another state than the watch."""


def compare_with_watch(
    sources: Sources, nodes: Collection[str] | None = None, pods: Iterable[str] | None = None
) -> Generator[None, None, Comparison]:
    """Compare what is believed of these nodes, by name, and of these pods, by key; None: of all. O(nodes + pods), O(pods) at least."""
    look = _Look(sources)
    yield from look.at_rows(nodes)
    yield from look.at_pods(pods)
    return look.comparison()


def found_in(comparison: Comparison) -> tuple[set[str], set[str]]:
    """Return the nodes and the pods' keys that a comparison says anything about, to look at them again."""
    nodes = {*comparison.missed_nodes, *comparison.redundant_nodes, *(wrong.node for wrong in comparison.wrong_nodes)}
    pods = {key_of(name) for name in (*comparison.missed_pods, *comparison.redundant_pods)}
    return nodes, pods | {key_of(stale.object) for stale in comparison.stale if stale.kind == QUEUED}


class _Look:
    """One comparison, being made."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._cache, self._queue = sources.parts.cache, sources.parts.queue
        self._nodes, self._pods = sources.nodes.store, sources.pods.store
        self._work = Work()
        self._missed_nodes: list[str] = []
        self._redundant_nodes: list[str] = []
        self._missed_pods: set[str] = set()
        self._redundant_pods: set[str] = set()
        self._wrong: list[WrongNode] = []
        self._stale: list[Stale] = []
        self._unreadable: set[str] = set()

    def comparison(self) -> Comparison:
        return Comparison(
            missed_nodes=tuple(sorted(self._missed_nodes)),
            redundant_nodes=tuple(sorted(self._redundant_nodes)),
            missed_pods=tuple(sorted(self._missed_pods)),
            redundant_pods=tuple(sorted(self._redundant_pods)),
            wrong_nodes=tuple(sorted(self._wrong, key=lambda wrong: (wrong.node, wrong.column))),
            stale=tuple(sorted(self._stale, key=lambda stale: stale.object)),
            unreadable=tuple(sorted(self._unreadable)),
            nodes=len(self._nodes),
            pods=len(self._pods),
        )

    # Nodes

    def at_rows(self, names: Collection[str] | None) -> Generator[None, None, None]:
        by_node: dict[str, list[str]] = {}  # keys of the pods that were bound to a node when the look began
        for key in list(self._pods):
            pod = self._pods.get(key)
            if pod is not None and pod.spec.node_name and (names is None or pod.spec.node_name in names):
                by_node.setdefault(pod.spec.node_name, []).append(key)
            if self._work.done(GLANCE):
                yield
        if names is None:
            names = all_nodes(self._sources) | by_node.keys()
        for name in names:
            keys = by_node.get(name, ())
            self._at_row(name, keys)
            if self._work.done(ROW + len(keys)):
                yield

    def _at_row(self, name: str, keys: Iterable[str]) -> None:
        """Compare a node and the pods on it, at this moment."""
        info, node, allocatable = self._cache.nodes_by_name.get(name), self._nodes.get(name), {}
        if node is not None:
            try:
                allocatable = node_allocatable(node)
            except QuantityError:
                self._unreadable.add(f"node {name}")
                node = None
        known = info is not None and info.node is not None
        if known is not (node is not None):
            (self._redundant_nodes if known else self._missed_nodes).append(name)
            return
        here = {} if info is None else info.pods
        pods: dict[str, PodInfo] = {}
        assumed, unreadable = set(), set()
        for key in {*keys, *(pod.key for pod in here.values())}:
            pod = self._pods.get(key)
            if pod is None:
                continue
            uid, state = pod.metadata.uid, self._cache.pods.get(pod.metadata.uid)
            try:
                if pod.spec.node_name == name:
                    pods[uid] = PodInfo(pod, counted_on_node=True)
                elif not pod.spec.node_name and state is not None and state.assumed and state.node.name == name:
                    pods[uid] = PodInfo(state.info.pod)
                    assumed.add(uid)
            except QuantityError:
                self._unreadable.add(f"pod {key}")
                if state is not None and state.node.name == name:  # as it was before it became so
                    pods[uid] = state.info
                    unreadable.add(uid)
        actual = Actual(node, allocatable, pods, frozenset(assumed), frozenset(unreadable))
        self._wrong += wrong_facts(self._cache, name, actual)
        for kept in self._cache.checked:
            self._wrong += [WrongNode(name, f"{kept.name}: {column}", *values) for column, *values in kept.differences(name)]

    # Pods

    def at_pods(self, keys: Iterable[str] | None) -> Generator[None, None, None]:
        queue = self._queue
        for key in list(self._pods if keys is None else keys):
            if (pod := self._pods.get(key)) is not None:
                self._at_pod(key, pod)
            if self._work.done(GLANCE):
                yield
        waiting = queue.waiting() if keys is None else [info for key in keys if (info := queue.get(key)) is not None]
        for info in waiting:
            if queue.get(info.key) is info:
                self._at_queued(info)
            if self._work.done(GLANCE):
                yield
        wanted = None if keys is None else set(keys)
        for uid in list(self._cache.pods):
            state = self._cache.pods.get(uid)
            if state is not None and (wanted is None or state.info.key in wanted):
                known = self._pods.get(state.info.key)
                if known is None or known.metadata.uid != uid:
                    self._redundant_pods.add(pod_name(state.info.key, uid))
            if self._work.done(GLANCE):
                yield

    def _at_pod(self, key: str, pod: Pod) -> None:
        """See whether a pod is counted on a node, or is pending with us, if it has to be."""
        uid = pod.metadata.uid
        if uid in self._cache.pods:
            return
        if not pod.spec.node_name:
            info = self._queue.get(key)
            if info is not None and info.uid == uid:
                ours, theirs = info.pod_info.pod.metadata.resource_version, pod.metadata.resource_version
                if ours != theirs and self._is_readable(key, pod, counted_on_node=False):
                    self._stale.append(Stale(QUEUED, pod_name(key, uid), ours, theirs))
                return
            if self._queue.is_in_flight(uid) or not _is_pending_with_us(self._sources, pod):
                return
        if self._is_readable(key, pod, counted_on_node=bool(pod.spec.node_name)):
            self._missed_pods.add(pod_name(key, uid))

    def _is_readable(self, key: str, pod: Pod, *, counted_on_node: bool) -> bool:
        try:
            PodInfo(pod, counted_on_node=counted_on_node)
        except QuantityError:
            self._unreadable.add(f"pod {key}")
            return False
        return True

    def _at_queued(self, info: QueuedPodInfo) -> None:
        """See whether a pod that waits exists and is not bound."""
        pod = self._pods.get(info.key)
        if pod is None or pod.metadata.uid != info.uid or pod.spec.node_name:
            self._redundant_pods.add(pod_name(info.key, info.uid))


def all_nodes(sources: Sources) -> set[str]:
    """Return the names of all nodes that exist or of which anything is kept."""
    cache = sources.parts.cache
    names = {*sources.nodes.store, *cache.nodes_by_name}
    return names.union(*(state.names() for state in cache.checked))


def _is_pending_with_us(sources: Sources, pod: Pod) -> bool:
    """Answer whether the pod has to be in the queue. One being deleted leaves it when its turn comes."""
    return pod.spec.scheduler_name in sources.profiles and pod.metadata.deletion_timestamp is None
