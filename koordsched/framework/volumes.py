"""What the volume plugins look up: claims, volumes and classes, as the cluster has them, and how they say that one is missing.

Lookups read the informers' stores, so who returns the versions of what was looked up in `Plugin.version` is asked anew when one of them
changes. Callers: VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import PersistentVolumeClaim, Pod
from koordsched.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from koordsched.api.volumes import pod_volumes
from koordsched.cluster.object_store import object_key
from koordsched.queue.events import QueueingHint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import PersistentVolume
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.storage import StorageClass
    from koordsched.api.volumes import PodVolumes
    from koordsched.framework.handle import Handle


class VolumeObjects:
    """The stores: `claims` by namespace/name, `volumes` and `classes` by name. To be made while a plugin is made."""

    def __init__(self, handle: Handle) -> None:
        self.claims: Mapping[str, PersistentVolumeClaim] = handle.informer(PERSISTENT_VOLUME_CLAIM).store
        self.volumes: Mapping[str, PersistentVolume] = handle.informer(PERSISTENT_VOLUME).store
        self.classes: Mapping[str, StorageClass] = handle.informer(STORAGE_CLASS).store


def claim_not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    return f'storageclass.storage.k8s.io "{name}" not found'


def volumes_of(pod: Object | None) -> PodVolumes | None:
    """Return what scheduling looks at of the volumes of the pod that an event is about."""
    return pod_volumes(pod) if isinstance(pod, Pod) else None


def had_a_place(pod: Object | None) -> bool:
    """Answer whether the pod that an event is about was bound or nominated."""
    return isinstance(pod, Pod) and bool(pod.spec.node_name or pod.status.nominated_node_name)


def hint_own_claim(pod: PodInfo, _old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when the claim that came or changed is one of the waiting pod's."""
    helps = pod.volumes is not None and isinstance(new, PersistentVolumeClaim) and pod.volumes.uses_claim(object_key(new))
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
