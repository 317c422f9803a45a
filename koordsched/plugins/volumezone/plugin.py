"""VolumeZone: Filter refuses nodes outside the zones that the labels of the pod's bound volumes name.

Reference: plugins/volumezone/volume_zone.go of Kubernetes v1.35.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.change import NodeChange
from koordsched.api.core import PersistentVolume
from koordsched.api.storage import StorageClass
from koordsched.api.volumes import WAIT_FOR_FIRST_CONSUMER, claim_class
from koordsched.framework.interface import FilterNodesPlugin, PreFilterPlugin
from koordsched.framework.node_selector import CompiledNodeSelector, Condition
from koordsched.framework.status import SKIP, Status, unresolvable
from koordsched.framework.volumes import VolumeObjects, claim_not_found, class_not_found, hint_own_claim, volume_not_found
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from koordsched.api.core import PersistentVolumeClaim
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.volumes import PodVolumes
    from koordsched.cache.columns import Columns
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes

REFUSAL = unresolvable("node(s) had no available volume zone")
NO_CLASS = unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
NO_VOLUME_NAME = unresolvable("PersistentVolume had no name")

PRE_FILTER_STATE = "PreFilterVolumeZone"  # the topologies of the pod's volumes

KEPT_SELECTORS = 1024

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
SUCCESSORS = {"failure-domain.beta.kubernetes.io/zone": ZONE, "failure-domain.beta.kubernetes.io/region": REGION}
"""Old labels, and those that a node may have instead."""

TOPOLOGY_LABELS = (*SUCCESSORS, ZONE, REGION)

SEPARATOR = "__"


class Topology(msgspec.Struct, frozen=True):
    """Where a volume is: the label, and the values that a node may have."""

    key: str
    values: tuple[str, ...]


Zones = tuple[Topology, ...]


class VolumeZone(PreFilterPlugin, FilterNodesPlugin):
    name = "VolumeZone"
    signs = ("volumes",)
    reads = NodeChange.LABELS

    def __init__(self, handle: Handle) -> None:
        self._objects = VolumeObjects(handle)
        self._unlabelled = select_unlabelled(handle.columns)
        self._inside = lru_cache(maxsize=KEPT_SELECTORS)(partial(select_inside, handle.columns))

    def has_version(self, pod: PodInfo) -> bool:
        return pod.volumes is not None

    def version(self, pod: PodInfo) -> Hashable:
        volumes = pod.volumes
        return None if volumes is None else self._zones(volumes)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        volumes = pod.volumes
        if volumes is None:
            return SKIP
        found = self._zones(volumes)
        if isinstance(found, Status):
            return found
        state.write(PRE_FILTER_STATE, found)
        return None if found else SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        zones: Zones = state.read(PRE_FILTER_STATE)
        there = np.ones(len(nodes.rows), np.uint8)
        for topology in zones:
            there &= self._inside(topology).matches_rows(nodes.rows)
        return np.where(there | self._unlabelled.matches_rows(nodes.rows), np.int32(0), np.int32(1))

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSAL

    def _zones(self, volumes: PodVolumes) -> Zones | Status:
        """Return where the bound volumes are, or why that is not known. O(claims). Claims of ephemeral volumes do not count."""
        found: dict[Topology, None] = {}
        for use in volumes.claims:
            if use.is_ephemeral:
                continue
            claim = self._objects.claims.get(use.key)
            if claim is None:
                return unresolvable(claim_not_found(use.name))
            if not claim.spec.volume_name:
                refusal = self._unbound(claim)
                if refusal is not None:
                    return refusal
                continue
            volume = self._objects.volumes.get(claim.spec.volume_name)
            if volume is None:
                return unresolvable(volume_not_found(claim.spec.volume_name))
            found.update(dict.fromkeys(topologies(volume)))
        return tuple(found)

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        """Only a claim that waits for its first consumer may be without a volume."""
        name = claim_class(claim)
        if not name:
            return NO_CLASS
        storage_class = self._objects.classes.get(name)
        if storage_class is None:
            return unresolvable(class_not_found(name))
        if storage_class.volume_binding_mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
        return None if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else NO_VOLUME_NAME

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        changed = ActionType.ADD | ActionType.UPDATE_OTHER
        return (
            EventHint(cluster_event(EventResource.STORAGE_CLASS, ActionType.ADD), _after_class_add),
            EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
            EventHint(cluster_event(EventResource.PERSISTENT_VOLUME_CLAIM, changed), hint_own_claim),
            EventHint(cluster_event(EventResource.PERSISTENT_VOLUME, changed), _after_volume_change),
        )


def _after_class_add(_pod: PodInfo, _old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when claims of the class may wait for their pod."""
    helps = isinstance(new, StorageClass) and new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_volume_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue for a new volume, and for one that is somewhere else now."""
    assert isinstance(new, PersistentVolume)
    helps = not isinstance(old, PersistentVolume) or list(topologies(old)) != list(topologies(new))
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


# Zones of volumes


def topologies(volume: PersistentVolume) -> Iterator[Topology]:
    """Yield the topologies in the volume's labels. A label that holds an empty value among several is no set of zones, and is left out."""
    for key in TOPOLOGY_LABELS:
        value = volume.metadata.labels.get(key)
        if value is None:
            continue
        values = [part.strip() for part in value.split(SEPARATOR)]
        if "" not in values:
            yield Topology(key, tuple(sorted(set(values))))


def select_unlabelled(columns: Columns) -> CompiledNodeSelector:
    """Select the nodes without any of the labels: in a cluster of one zone nodes need not say where they are."""
    return CompiledNodeSelector(columns, [tuple(Condition(key, "DoesNotExist", ()) for key in TOPOLOGY_LABELS)])


def select_inside(columns: Columns, topology: Topology) -> CompiledNodeSelector:
    """Select the nodes whose label has one of the values; for an old label that a node lacks its successor counts."""
    terms = [(Condition(topology.key, "In", topology.values),)]
    successor = SUCCESSORS.get(topology.key)
    if successor is None:
        return CompiledNodeSelector(columns, terms)
    instead = (Condition(topology.key, "DoesNotExist", ()), Condition(successor, "In", topology.values))
    return CompiledNodeSelector(columns, [*terms, instead])
