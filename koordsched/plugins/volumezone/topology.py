"""The zones that volumes are in, and the selectors of nodes that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.framework.node_selector import CompiledNodeSelector, Condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.api.core import PersistentVolume
    from koordsched.cache.columns import Columns

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
SUCCESSORS = {"failure-domain.beta.kubernetes.io/zone": ZONE, "failure-domain.beta.kubernetes.io/region": REGION}
"""Old labels, and those that a node may have instead."""

TOPOLOGY_LABELS = (*SUCCESSORS, ZONE, REGION)

SEPARATOR = "__"


class Topology(msgspec.Struct, frozen=True):
    """Where a volume is: the label, and the values that a node may have."""

    key: str
    values: tuple[str, ...]


def topologies(volume: PersistentVolume) -> Iterator[Topology]:
    """Yield what the volume's labels say. A label that holds an empty value among several is no set of zones, and is left out."""
    for key in TOPOLOGY_LABELS:
        value = volume.metadata.labels.get(key)
        if value is None:
            continue
        values = [part.strip() for part in value.split(SEPARATOR)]
        if "" not in values:
            yield Topology(key, tuple(sorted(set(values))))


def anywhere(columns: Columns) -> CompiledNodeSelector:
    """Select the nodes without any of the labels: in a cluster of one zone nodes need not say where they are."""
    return CompiledNodeSelector(columns, [tuple(Condition(key, "DoesNotExist", ()) for key in TOPOLOGY_LABELS)])


def inside(columns: Columns, topology: Topology) -> CompiledNodeSelector:
    """Select the nodes whose label has one of the values; for an old label that a node lacks its successor counts."""
    terms = [(Condition(topology.key, "In", topology.values),)]
    successor = SUCCESSORS.get(topology.key)
    if successor is None:
        return CompiledNodeSelector(columns, terms)
    instead = (Condition(topology.key, "DoesNotExist", ()), Condition(successor, "In", topology.values))
    return CompiledNodeSelector(columns, [*terms, instead])
