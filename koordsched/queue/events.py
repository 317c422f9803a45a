"""Cluster events and queueing hints: what may make a refused pod schedulable.

The names, the action bits and the matching rule are kube-scheduler's (framework.md §3.5). A plugin declares the events that may help a pod
that it refused, each with a hint; the queue asks the hints when such an event happens.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntFlag
from functools import lru_cache

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
    UPDATE_NODE = UPDATE_NODE_ALLOCATABLE | UPDATE_NODE_LABEL | UPDATE_NODE_TAINT | UPDATE_NODE_CONDITION | UPDATE_NODE_ANNOTATION
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
    NAMESPACE = "Namespace"  # kube-scheduler knows no such event: its plugins learn of a namespace's labels at the next attempt
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


_WILDCARD = EventResource.WILDCARD  # asked for at every event, and looking a member up on its class is slow in CPython 3.11


class QueueingHint(Enum):
    SKIP = "QueueSkip"
    QUEUE = "Queue"


class Scope(msgspec.Struct, frozen=True):
    """Which waiting pods an event concerns; by default all."""

    max_priority: int | None = None  # a nomination that went away helps pods of its priority and below
    exclude_uid: str = ""  # a pod whose own refusal freed something
    only_uid: str = ""  # an update of the waiting pod itself

    def covers(self, pod: PodInfo) -> bool:
        if self.max_priority is not None and pod.priority > self.max_priority:
            return False
        return pod.uid != self.exclude_uid and self.only_uid in {"", pod.uid}


EVERYBODY = Scope()


class ClusterEvent(msgspec.Struct, frozen=True, cache_hash=True):
    """What happened (or what a plugin waits for): a kind of object and the action bits. `label` is the metric's event label."""

    resource: EventResource
    action: ActionType
    label: str = ""
    kind: str = ""  # only with CUSTOM: plural.group of the CR, e.g. reservations.scheduling.koordinator.sh

    @property
    def is_wildcard(self) -> bool:
        """Whether the event concerns every waiting pod, whatever refused it."""
        return self.resource is _WILDCARD and self.action == ActionType.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Answer whether this registered event covers the incoming one (framework.md §3.5)."""
        if self.is_wildcard:
            return True
        if not self.action & incoming.action or incoming.action > self.action:
            return False
        if self.resource is EventResource.POD:
            return incoming.resource in _POD_RESOURCES
        return self.resource is EventResource.WILDCARD or (self.resource is incoming.resource and self.kind == incoming.kind)


_POD_RESOURCES = frozenset({EventResource.POD, EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD})

_ACTION_NAMES = {
    ActionType.ADD: "Add",
    ActionType.DELETE: "Delete",
    ActionType.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    ActionType.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    ActionType.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    ActionType.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    ActionType.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    ActionType.UPDATE_POD_LABEL: "UpdatePodLabel",
    ActionType.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    ActionType.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    ActionType.UPDATE_POD_OTHER: "Update",
    ActionType.UPDATE_OTHER: "Update",
    ActionType.UPDATE: "Update",
    ActionType.ALL: "All",
}


@lru_cache(maxsize=1024)
def cluster_event(resource: EventResource, action: ActionType, kind: str = "") -> ClusterEvent:
    """Return the event with its metric label `<Resource><Action>` (framework.md §12); kind only with CUSTOM."""
    name = _ACTION_NAMES.get(action, str(action))
    return ClusterEvent(resource, action, f"{kind or resource.value}{name}", kind)


NODE_ADD = cluster_event(EventResource.NODE, ActionType.ADD)
NODE_DELETE = cluster_event(EventResource.NODE, ActionType.DELETE)
ASSIGNED_POD_ADD = cluster_event(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_UPDATE = cluster_event(EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_OTHER)
ASSIGNED_POD_DELETE = cluster_event(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULABLE_POD_ADD = cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
UNSCHEDULABLE_POD_UPDATE = cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_OTHER)
UNSCHEDULABLE_POD_DELETE = cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.DELETE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")

# Why a pod entered a queue where no cluster event is the cause: further values of the metric's event label.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"
POD_POPPED = "PodPopped"
UNCHANGED_SINCE_FAILURE = "UnchangedSinceFailure"  # ours: sent back without an attempt, for nothing changed that its shape failed on


HintFn = Callable[[PodInfo, Object | None, Object | None], QueueingHint]
"""Answer whether the change old -> new may let this waiting pod pass. It may read of the pod only what the plugin signs (plus the uid, to
know its own events), so that one answer serves all waiting pods of a shape. Raising counts as QUEUE."""


class EventHint(msgspec.Struct, frozen=True):
    """An event that may help, and the hint that decides; None: always QUEUE."""

    event: ClusterEvent
    hint: HintFn | None = None
