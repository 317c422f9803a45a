"""What the cache says of one node, and what the node's object and its pods say: fact by fact, under the same names.

The cache's ids (of resources, label values, taint sets, bits) are read back into names and values; the other side is derived from the
objects without the cache's code. A fact that is nothing (0, "", False) is left out on both sides. O(facts of the node and columns of the
table).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koordsched.cache.columns import CORDON, effective_taints
from koordsched.scheduler.debugger.comparison import WrongNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koordsched.api.core import Node, Taint
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.columns import Columns
    from koordsched.cache.nodes import NodeInfo

Facts = dict[str, Any]
NOTHING: dict[type, Any] = {int: 0, str: "", bool: False, list: []}


class Actual(NamedTuple):
    """A node as its object and pods are. node: None when there is none, or none whose amounts can be read."""

    node: Node | None
    allocatable: Mapping[str, int]
    pods: Mapping[str, PodInfo]  # by uid
    assumed: frozenset[str]  # uids among them
    unreadable: frozenset[str]  # uids of pods that are counted as they were when they could be read


def wrong_facts(cache: Cache, name: str, actual: Actual) -> list[WrongNode]:
    """Return in what the cache is wrong about a node, sorted by column."""
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
        if ours is not None and uid not in actual.assumed and uid not in actual.unreadable:
            yield f"version of pod {pod.key}", ours.pod.metadata.resource_version, pod.pod.metadata.resource_version
