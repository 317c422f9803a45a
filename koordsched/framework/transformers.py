"""Transformers: how objects of the cluster are changed before anything sees them, once each, between decoding and the store
(frameworkext.md §3).

The informers' stores hold transformed objects, and so does whatever is made of these. They are never written back to the API server. Most
objects concern no transformer, so each transformer says which keys have to be there for it to do anything, and all transformers together
cost such an object one look at its keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import NODE, POD, Kind
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koordsched.api.core import Node, Pod
    from koordsched.api.meta import Object

log = get_logger(__name__)

NO_KEYS: frozenset[str] = frozenset()


class Transformer(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which the objects of a kind are changed.

    transform returns the changed object, or the very same one when there is nothing to change; it changes nothing in place and does not
    wait. It is called for objects that have one of the labels, one of the annotations, or amounts of one of the resources (of pods: in
    requests and overhead, as the API server makes limits requests too; of nodes: in allocatable and capacity; other kinds have none to look
    for), and often for others that concern another transformer. If it names none of them, it is called for every object.
    """

    name: str
    kind: Kind
    transform: Callable[[Any], Any]
    labels: frozenset[str] = NO_KEYS
    annotations: frozenset[str] = NO_KEYS
    resources: frozenset[str] = NO_KEYS


class Transformers:
    """The transformers of one scheduler, in the order in which they are applied."""

    def __init__(self, transformers: Sequence[Transformer] = ()) -> None:
        self._listed = list(transformers)

    def __iter__(self) -> Iterator[Transformer]:
        return iter(self._listed)

    def add(self, transformer: Transformer) -> None:
        """Append a transformer, unless one of its name is listed: plugins are made once a profile."""
        if all(known.name != transformer.name for known in self._listed):
            self._listed.append(transformer)

    def of(self, kind: Kind) -> Callable[[Any], Any] | None:
        """Return what applies the transformers of a kind to an object, None when it has none. It never raises."""
        chain = [transformer for transformer in self._listed if transformer.kind == kind]
        if not chain:
            return None
        apply = _applying(chain)
        if any(not (each.labels or each.annotations or each.resources) for each in chain):
            return apply
        labels = tuple({key for each in chain for key in each.labels})
        annotations = tuple({key for each in chain for key in each.annotations})
        resources = frozenset(name for each in chain for name in each.resources)
        if kind == POD:
            return _of_pods(apply, labels, annotations, resources)
        return _of_others(apply, labels, annotations, resources if kind == NODE else NO_KEYS)


def _applying(chain: Sequence[Transformer]) -> Callable[[Any], Any]:
    def apply(obj: Any) -> Any:
        for transformer in chain:
            try:
                obj = transformer.transform(obj)
            except Exception:
                name = f"{obj.metadata.namespace}/{obj.metadata.name}" if obj.metadata.namespace else obj.metadata.name
                log.exception("a transformer failed and is left out", transformer=transformer.name, kind=transformer.kind.kind, object=name)
        return obj

    return apply


# These look at every event of a pod or node: flat loops, no calls. bench_transformers.py


def _of_pods(
    apply: Callable[[Pod], Pod], labels: Sequence[str], annotations: Sequence[str], resources: frozenset[str]
) -> Callable[[Pod], Pod]:
    lacks = resources.isdisjoint

    def transform(pod: Pod) -> Pod:
        metadata, spec = pod.metadata, pod.spec
        present = metadata.labels
        for key in labels:
            if key in present:
                return apply(pod)
        present = metadata.annotations
        if present:
            for key in annotations:
                if key in present:
                    return apply(pod)
        for container in spec.containers:
            if not lacks(container.resources.requests):
                return apply(pod)
        for container in spec.init_containers:
            if not lacks(container.resources.requests):
                return apply(pod)
        overhead = spec.overhead
        return apply(pod) if overhead and not lacks(overhead) else pod

    return transform


def _of_others(
    apply: Callable[[Any], Any], labels: Sequence[str], annotations: Sequence[str], resources: frozenset[str]
) -> Callable[[Any], Any]:
    def transform(obj: Object) -> Object:
        metadata = obj.metadata
        if any(key in metadata.labels for key in labels) or any(key in metadata.annotations for key in annotations):
            changed: Object = apply(obj)
            return changed
        return obj

    def transform_node(node: Node) -> Node:
        status = node.status
        if not resources.isdisjoint(status.allocatable) or not resources.isdisjoint(status.capacity):
            changed: Node = apply(node)
            return changed
        return transform(node)  # type: ignore[return-value]  # of the same kind

    return transform_node if resources else transform
