"""Cluster events and queueing hints: what may make a refused pod schedulable.

The names, the action bits and the matching rule are kube-scheduler's (framework.md §3.5). A plugin registers the events that may help a pod
that it refused, each with a queueing hint; the queue calls the hint when such an event happens.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, IntFlag
from functools import lru_cache
from typing import NamedTuple

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
    NAMESPACE = "Namespace"  # not in kube-scheduler: there a namespace's labels are read again at the next attempt
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    DEVICE_CLASS = "DeviceClass"
    CUSTOM = "Custom"
    WILDCARD = "*"


_WILDCARD = EventResource.WILDCARD  # read at every event, and looking a member up on its class is slow in CPython 3.11


class QueueingHint(Enum):
    SKIP = "QueueSkip"
    QUEUE = "Queue"


class AdmissionKey(NamedTuple):
    """What an admission plugin's answer depends on besides the pod: a gang or a quota."""

    plugin: str
    key: Hashable


class Scope(msgspec.Struct, frozen=True):
    """The pods that an event concerns; by default all."""

    max_priority: int | None = None  # the end of a nomination helps pods of its priority and below
    exclude_uid: str = ""  # the pod whose own refusal caused the event
    only_uid: str = ""  # the updated pod, for an update of a waiting pod
    admission: AdmissionKey | None = None  # the event is announced: it concerns only pods that wait under this key

    def covers(self, pod: PodInfo) -> bool:
        if self.max_priority is not None and pod.priority > self.max_priority:
            return False
        return pod.uid != self.exclude_uid and self.only_uid in {"", pod.uid}


ALL_PODS = Scope()


class ClusterEvent(msgspec.Struct, frozen=True, cache_hash=True):
    """A kind of object and the action bits: of what happened, or of what a plugin registered. `label` is the metric's event label."""

    resource: EventResource
    action: ActionType
    label: str = ""
    kind: str = ""  # only with CUSTOM: plural.group of the CR, e.g. reservations.scheduling.koordinator.sh

    @property
    def is_wildcard(self) -> bool:
        """Whether the event concerns all pods, whichever plugins refused them."""
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
REGROUPED = ClusterEvent(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "Regrouped")
"""Not in kube-scheduler: a pod's quota or gang, or what admission reads of it, is another one now. Registered by no plugin."""
FORCE_ACTIVATE = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")

# Why a pod entered a queue where no cluster event is the cause: further values of the metric's event label.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"
POD_POPPED = "PodPopped"
UNCHANGED_SINCE_FAILURE = "UnchangedSinceFailure"  # not in kube-scheduler: returned without an attempt, see Mover.return_untried


HintFn = Callable[[PodInfo, Object | None, Object | None], QueueingHint]
"""Answer whether the change old -> new may let this unschedulable pod pass. It may read of the pod only what the plugin signs (and the uid,
to recognise an update of the pod itself), so that one answer is right for all pods of a shape. Raising counts as QUEUE."""


class EventHint(msgspec.Struct, frozen=True):
    """A registered event and its queueing hint; None: always QUEUE.

    gated: whether it may help pods that the plugin holds back at PreEnqueue; not if the plugin announces what helps them.
    selective: whether the hint is cheap and of many groups of waiting pods lets few through, so that it is asked before they are probed.
    """

    event: ClusterEvent
    hint: HintFn | None = None
    gated: bool = True
    selective: bool = False


class ObservedEvent(msgspec.Struct, frozen=True):
    """A ClusterEvent that happened, with the object it is about before and after. One is made for every pod that is bound."""

    event: ClusterEvent
    old: Object | None
    new: Object | None
