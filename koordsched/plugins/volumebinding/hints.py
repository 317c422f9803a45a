"""Which events may help a pod that VolumeBinding refused (framework.md §3.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.quantity import QuantityError
from koordsched.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from koordsched.framework.volumes import hint_own_claim
from koordsched.plugins.volumebinding.supply import storage_limit
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

CHANGED = ActionType.ADD | ActionType.UPDATE_OTHER


def _answer(*, helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def after_class_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue for a new class, and for one that can make volumes elsewhere now."""
    assert isinstance(new, StorageClass)
    return _answer(helps=not isinstance(old, StorageClass) or old.allowed_topologies != new.allowed_topologies)


def after_csi_node_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue for a new CSINode, and for one whose node has other in-tree plugins migrated."""
    assert isinstance(new, CSINode)
    before = old.metadata.annotations.get(MIGRATED_PLUGINS) if isinstance(old, CSINode) else None
    return _answer(helps=old is None or before != new.metadata.annotations.get(MIGRATED_PLUGINS))


def after_driver_change(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when a driver that may make a volume of the pod's no longer counts its storage.

    Kubernetes v1.35 looks at inline volumes only, though storage is counted for claims, and not at drivers that go.
    """
    assert isinstance(old, CSIDriver)
    mine = pod.volumes is not None and (bool(pod.volumes.claims) or old.metadata.name in pod.volumes.drivers)
    counts = isinstance(new, CSIDriver) and new.spec.storage_capacity
    return _answer(helps=mine and old.spec.storage_capacity and not counts)


def after_capacity_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue for new storage, and where larger volumes can be made than before."""
    assert isinstance(new, CSIStorageCapacity)
    if not isinstance(old, CSIStorageCapacity):
        return QueueingHint.QUEUE
    before, now = _limit(old), _limit(new)
    return _answer(helps=now is not None and (before is None or now > before))


def _limit(capacity: CSIStorageCapacity) -> int | None:
    try:
        return storage_limit(capacity)
    except QuantityError:
        return None


EVENTS = (
    EventHint(cluster_event(EventResource.STORAGE_CLASS, CHANGED), after_class_change),
    EventHint(cluster_event(EventResource.PERSISTENT_VOLUME_CLAIM, CHANGED), hint_own_claim),
    EventHint(cluster_event(EventResource.PERSISTENT_VOLUME, CHANGED)),
    EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
    EventHint(cluster_event(EventResource.CSI_NODE, CHANGED), after_csi_node_change),
    EventHint(cluster_event(EventResource.CSI_DRIVER, ActionType.UPDATE_OTHER | ActionType.DELETE), after_driver_change),
    EventHint(cluster_event(EventResource.CSI_STORAGE_CAPACITY, CHANGED), after_capacity_change),
)
