"""Cluster events and queueing hints: what may make a refused pod schedulable.

The names, the action bits and the matching rule are kube-scheduler's (framework.md §3.5). A plugin declares the events that may help a pod
that it refused, each with a hint; the queue asks the hints when such an event happens.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntFlag

import msgspec

from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo


class ActionType(IntFlag):
    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_POD_LABEL = 1 << 7
    UPDATE_POD_SCALE_DOWN = 1 << 8
    UPDATE_POD_TOLERATION = 1 << 9
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 10
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 11
    UPDATE_POD_OTHER = 1 << 12  # a pod update that is none of the above
    UPDATE_OTHER = 1 << 13  # an update of any other kind
    UPDATE_NODE = (
        UPDATE_NODE_ALLOCATABLE | UPDATE_NODE_LABEL | UPDATE_NODE_TAINT | UPDATE_NODE_CONDITION | UPDATE_NODE_ANNOTATION
    )
    UPDATE_POD = (
        UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_POD_OTHER
    )
    UPDATE = UPDATE_NODE | UPDATE_POD | UPDATE_OTHER
    ALL = ADD | DELETE | UPDATE


class EventResource(Enum):
    """The kind of object an event is about. Koordinator's kinds are `Custom` ones: a plugin names them by `ClusterEvent.kind`."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    CUSTOM = "Custom"
    WILDCARD = "*"


class QueueingHint(Enum):
    SKIP = "QueueSkip"
    QUEUE = "Queue"


class ClusterEvent(msgspec.Struct, frozen=True):
    """What happened (or what a plugin waits for): a kind of object and the action bits. `label` is the metric's event label."""

    resource: EventResource
    action: ActionType
    label: str = ""
    kind: str = ""  # only with CUSTOM: plural.group of the CR, e.g. reservations.scheduling.koordinator.sh


HintFn = Callable[[PodInfo, Object | None, Object | None], QueueingHint]
"""Answer whether the change old -> new may let this waiting pod pass. It may read of the pod only what the plugin signs (plus the uid, to
know its own events), so that one answer serves all waiting pods of a shape. Raising counts as QUEUE."""


class EventHint(msgspec.Struct, frozen=True):
    """An event that may help, and the hint that decides; None: always QUEUE."""

    event: ClusterEvent
    hint: HintFn | None = None
