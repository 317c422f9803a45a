"""The cache, what plugins keep beside it, and the queue, against what the watches say.

Done in slices, between which events are handled; but a node with its pods is compared at one moment, and so is a pod with the queue.
Handlers run inside the informers' updates, so at such a moment every difference is one, but for two:

- A pod that was decided upon while it was deleted is assumed until its binding fails.
- While a list is being taken over, or a handler that failed is to be called again, the store is ahead.

That is why callers compare again before they report (`debugger.confirmed`). A pod that comes to a node meanwhile is compared the next time.

Of a node two sets of facts are compared under the same names. One reads the cache's ids (of resources, label values, taint sets, bits) back
into names and values, the other is derived from the objects without the cache's code. A fact that is nothing (0, "", False) is left out on
both sides. O(facts of the node and columns of the table).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koordsched.api.koordinator.reserve_pods import ReservePod, is_available
from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.api.resources import node_allocatable
from koordsched.cache.columns import CORDON, effective_taints
from koordsched.scheduler.debugger.comparison import Comparison, Stale, WrongNode, key_of, pod_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from koordsched.api.core import Node, Pod, Taint
    from koordsched.cache.cache import Cache
    from koordsched.cache.columns import Columns
    from koordsched.cache.nodes import NodeInfo
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.debugger.comparison import Sources
    from koordsched.slices import Slices

STEPS = 64
"""So many steps of less than a microsecond are made before it is asked whether the slice is over."""
QUEUED = "queued pod"
"""The kind of `Stale` that is a pod of which the queue has another state than the watch."""


async def compare_with_watch(
    sources: Sources, slices: Slices, nodes: Collection[str] | None = None, pods: Iterable[str] | None = None
) -> Comparison:
    """Compare these nodes, by name, and these pods, by key.

    nodes None: all of them. pods None: those on these nodes, and those that are on none. O(nodes + pods), O(pods of the cluster) at least.
    """
    compared = _CacheComparison(sources, slices)
    with slices:
        by_node = await compared.pods_by_node(nodes)
        await compared.compare_nodes(nodes, by_node)
        if pods is None:
            await compared.compare_pods([key for keys in by_node.values() for key in keys], sources.context.queue.waiting())
            await compared.compare_cached_pods(nodes)
        else:
            await compared.compare_these_pods(set(pods))
    return compared.result()


def found_in(comparison: Comparison) -> tuple[set[str], set[str]]:
    """Return the nodes and the pods' keys that a comparison says anything about, to look at them again."""
    nodes = {*comparison.missed_nodes, *comparison.redundant_nodes, *(wrong.node for wrong in comparison.wrong_nodes)}
    pods = {key_of(name) for name in (*comparison.missed_pods, *comparison.redundant_pods)}
    return nodes, pods | {key_of(stale.object) for stale in comparison.stale if stale.kind == QUEUED}


class _CacheComparison:
    """One comparison, being made."""

    def __init__(self, sources: Sources, slices: Slices) -> None:
        self._sources = sources
        self._cache, self._queue = sources.context.cache, sources.context.queue
        self._nodes, self._pods, self._live = sources.nodes.store, sources.pods.store, sources.live
        self._slices = slices
        self._missed_nodes: list[str] = []
        self._redundant_nodes: list[str] = []
        self._missed_pods: set[str] = set()
        self._redundant_pods: set[str] = set()
        self._wrong: list[WrongNode] = []
        self._stale: list[Stale] = []
        self._unreadable: set[str] = set()

    def result(self) -> Comparison:
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

    async def pods_by_node(self, names: Collection[str] | None) -> dict[str, list[str]]:
        """Return the keys of the pods that are bound to these nodes now, by node, and under "" of those that are bound to none."""
        by_node: dict[str, list[str]] = {}
        for number, key in enumerate([*self._pods, *self._live.reserve_pods]):
            pod = self._live.at(key)
            if pod is not None and (names is None or not pod.spec.node_name or pod.spec.node_name in names):
                by_node.setdefault(pod.spec.node_name, []).append(key)
            if not number % STEPS:
                await self._slices.pause()
        return by_node

    async def compare_nodes(self, names: Collection[str] | None, by_node: Mapping[str, Iterable[str]]) -> None:
        for name in all_nodes(self._sources) | by_node.keys() - {""} if names is None else names:
            self._compare_node(name, by_node.get(name, ()))
            await self._slices.pause()

    def _compare_node(self, name: str, keys: Iterable[str]) -> None:
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
        assumed = set()
        for key in {*keys, *(pod.key for pod in here.values())}:
            pod = self._live.at(key)
            if pod is None:
                continue
            uid, state = pod.metadata.uid, self._cache.pods.get(pod.metadata.uid)
            if type(pod) is ReservePod and pod.spec.node_name == name:
                if state is not None and state.node.name == name:
                    pods[uid] = state.info  # what is left of it is compared by the plugin
                continue
            try:
                if pod.spec.node_name == name:
                    sized = self._cache.sized_pod(uid)  # in operating mode: what is left of it is compared by the plugin
                    pods[uid] = PodInfo(pod, counted_on_node=True) if sized is None else sized.with_pod(pod)
                elif not pod.spec.node_name and state is not None and state.assumed and state.node.name == name:
                    pods[uid] = PodInfo(state.info.pod)
                    assumed.add(uid)
            except QuantityError:
                self._unreadable.add(f"pod {key}")
                if state is not None and state.node.name == name:  # as it was before it became so
                    pods[uid] = state.info
        actual = Actual(node, allocatable, pods, frozenset(assumed))
        self._wrong += wrong_facts(self._cache, name, actual)
        for kept in self._cache.checked:
            self._wrong += [WrongNode(name, f"{kept.name}: {column}", *values) for column, *values in kept.differences(name)]

    # Pods

    async def compare_pods(self, keys: Iterable[str], waiting: Iterable[QueuedPodInfo]) -> None:
        """Compare pods of the cluster with the cache and the queue, and pods of the queue with the cluster."""
        for key in keys:
            if (pod := self._live.at(key)) is not None:
                self._compare_pod(key, pod)
            await self._slices.pause()
        for info in waiting:
            if self._queue.get(info.key) is info:
                self._compare_queued(info)
            await self._slices.pause()

    async def compare_cached_pods(self, names: Collection[str] | None) -> None:
        """See whether the pods that the cache counts on these nodes exist."""
        for name in list(self._cache.nodes_by_name) if names is None else names:
            if (info := self._cache.nodes_by_name.get(name)) is not None:
                for uid, pod in info.pods.items():
                    self._compare_cached_pod(uid, pod)
            await self._slices.pause()

    async def compare_these_pods(self, keys: Collection[str]) -> None:
        """Compare a few pods, by key, wherever they are."""
        await self.compare_pods(keys, [info for key in keys if (info := self._queue.get(key)) is not None])
        for number, uid in enumerate(list(self._cache.pods)):
            state = self._cache.pods.get(uid)
            if state is not None and state.info.key in keys:
                self._compare_cached_pod(uid, state.info)
            if not number % STEPS:
                await self._slices.pause()

    def _compare_cached_pod(self, uid: str, info: PodInfo) -> None:
        """Note a pod that is counted on a node although it does not exist."""
        known = self._live.of(info)
        if known is None or known.metadata.uid != uid:
            self._redundant_pods.add(pod_name(info.key, uid))

    def _compare_pod(self, key: str, pod: Pod) -> None:
        """Note a pod that is neither counted on a node nor in the queue although it has to be."""
        uid = pod.metadata.uid
        if uid in self._cache.pods or (type(pod) is ReservePod and pod.spec.node_name and not is_available(pod.reservation)):
            return
        if not pod.spec.node_name:
            info = self._queue.get(key)
            if info is not None and info.uid == uid and info.profile == pod.spec.scheduler_name:
                ours, theirs = info.pod_info.pod.metadata.resource_version, pod.metadata.resource_version
                if ours != theirs and self._is_readable(key, pod, counted_on_node=False):
                    self._stale.append(Stale(QUEUED, pod_name(key, uid), ours, theirs))
                return
            if self._queue.is_in_flight(uid) or not _belongs_in_queue(self._sources, pod):
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

    def _compare_queued(self, info: QueuedPodInfo) -> None:
        """See whether a pod that waits exists, is not bound, and waits for the scheduler that is responsible for it."""
        pod = self._live.of(info.pod_info)
        if pod is None or pod.metadata.uid != info.uid or pod.spec.node_name or pod.spec.scheduler_name != info.profile:
            self._redundant_pods.add(pod_name(info.key, info.uid))


def all_nodes(sources: Sources) -> set[str]:
    """Return the names of all nodes that exist or of which anything is kept."""
    cache = sources.context.cache
    names = {*sources.nodes.store, *cache.nodes_by_name}
    return names.union(*(state.names() for state in cache.checked))


def _belongs_in_queue(sources: Sources, pod: Pod) -> bool:
    """Answer whether the pod has to be in the queue. One being deleted leaves it when its turn comes."""
    return pod.spec.scheduler_name in sources.profiles and pod.metadata.deletion_timestamp is None


# The facts of a node

NOTHING: dict[type, Any] = {int: 0, str: "", bool: False, list: []}


class Actual(NamedTuple):
    """A node as its object and pods are. node: None when there is none, or none whose amounts can be read."""

    node: Node | None
    allocatable: Mapping[str, int]
    pods: Mapping[str, PodInfo]  # by uid
    assumed: frozenset[str]  # uids among them


def wrong_facts(cache: Cache, name: str, actual: Actual) -> list[WrongNode]:
    """Return what the cache has wrong of a node, sorted by column."""
    info = cache.nodes_by_name.get(name)
    ours = {} if info is None else dict(_cached(cache, info))
    theirs = dict(_derived(cache.columns, actual)) if info is None or not info.shares_row else dict(_pods(actual.pods, actual.assumed))
    if info is not None:
        for column, mine, current in _versions(info, actual):
            ours[column], theirs[column] = mine, current
    if ours == theirs:
        return []
    found = []
    for column in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(column), theirs.get(column)
        if left != right:
            nothing = NOTHING[type(left if right is None else right)]
            found.append(WrongNode(name, column, nothing if left is None else left, nothing if right is None else right))
    return found


def _cached(cache: Cache, info: NodeInfo) -> Iterator[tuple[str, Any]]:
    """Yield what the columns say of a node's row. On the row of unknown nodes nothing is counted: they have pods alone."""
    yield from _pods(info.pods, {uid for uid in info.pods if cache.is_assumed(uid)})
    if info.shares_row:
        return
    table, columns, row = cache.table, cache.columns, info.row
    if table.is_live(row):
        yield "live", True
    if cache.order.has(row):
        yield "in the order of nodes", True
    for resource in columns.resources:
        if amount := info.allocatable(resource):
            yield f"allocatable {resource}", amount
        if amount := info.requested(resource):
            yield f"requested {resource}", amount
    for resource, amount in zip(("cpu", "memory"), table.nonzero_of(row), strict=True):
        if amount:
            yield f"non-zero requested {resource}", amount
    for key, label in columns.labels.items():
        if value := label.values.names[table.attribute_of(label.attribute, row)]:
            yield f"label {key}", value
    yield from _taints([columns.taints.names[i] for i in columns.taint_sets.names[table.attribute_of(columns.taint_set_attribute, row)]])
    yield from _bits(columns, set(table.bits_of(row)))


def _bits(columns: Columns, bits: set[int]) -> Iterator[tuple[str, Any]]:
    for name, image in columns.images.items():
        if image.bit in bits:
            yield f"image {name}", True
    for used in columns.host_ports.lists():
        if used.bit in bits:
            for port in used.ports:
                yield f"host port {port.protocol} {port.ip}:{port.port}", True


def _of_node(node: Node, allocatable: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    """Yield what a node's object says."""
    yield "live", True
    yield "in the order of nodes", True
    for resource, amount in allocatable.items():
        if amount:
            yield f"allocatable {resource}", amount
    for key, value in node.metadata.labels.items():
        if value:
            yield f"label {key}", value
    yield from _taints(effective_taints(node))
    for image in node.status.images:
        for name in image.names:
            yield f"image {name}", True


def _derived(columns: Columns, actual: Actual) -> Iterator[tuple[str, Any]]:
    """Yield what the objects say of a node and the pods on it."""
    if actual.node is not None:
        yield from _of_node(actual.node, actual.allocatable)
    requested: dict[str, int] = {"pods": len(actual.pods)}
    cpu = memory = 0
    for pod in actual.pods.values():
        resources = pod.resources
        for resource, amount in resources.requests.items():
            requested[resource] = requested.get(resource, 0) + amount
        cpu += resources.nonzero_cpu
        memory += resources.nonzero_memory
        for port in pod.ports:
            yield f"host port {port.protocol} {port.ip}:{port.port}", True
    for resource, amount in requested.items():
        if amount and resource in columns.resources:  # what has no column no node offers
            yield f"requested {resource}", amount
    for resource, amount in (("cpu", cpu), ("memory", memory)):
        if amount:
            yield f"non-zero requested {resource}", amount
    yield from _pods(actual.pods, actual.assumed)


def _taints(taints: Iterable[Taint]) -> Iterator[tuple[str, Any]]:
    taints = list(taints)
    if CORDON in taints:
        yield "cordoned", True
    if text := ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in taints if taint != CORDON):
        yield "taints", text


def _pods(pods: Iterable[str], assumed: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for column, uids in (("pods", sorted(pods)), ("assumed pods", sorted(assumed))):
        if uids:
            yield column, uids


def _versions(info: NodeInfo, actual: Actual) -> Iterator[tuple[str, str, str]]:
    """Yield of which version the objects are, where both sides have them; that an assumed pod has a newer one is the kubelet's business."""
    if info.node is not None and actual.node is not None:
        yield "version of the node", info.node.metadata.resource_version, actual.node.metadata.resource_version
    for uid, pod in actual.pods.items():
        ours = info.pods.get(uid)
        if ours is not None and uid not in actual.assumed:
            yield f"version of pod {pod.key}", ours.pod.metadata.resource_version, pod.pod.metadata.resource_version
