"""What changed between two states of a node or a pod, as cluster events (framework.md §3.4).

Changes that no plugin reads (a heartbeat, capacity, images, addresses) make no event, so that they cost nothing further on.
Callers: the scheduler's event handlers, and the queue itself for updates of waiting pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.podinfo import is_specified_alike
from koordsched.api.quantity import QuantityError, nano
from koordsched.queue.events import (
    ASSIGNED_POD_UPDATE,
    UNSCHEDULABLE_POD_UPDATE,
    ActionType,
    ClusterEvent,
    EventResource,
    cluster_event,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.api.core import Node, Pod, ResourceList
    from koordsched.api.podinfo import PodInfo


def node_events(old: Node, new: Node) -> list[ClusterEvent]:
    """Return one event for each kind of change, in the order in which kube-scheduler fires them."""
    return [cluster_event(EventResource.NODE, action) for action in _node_actions(old, new)]


def pod_update_events(old: PodInfo, new: PodInfo) -> list[ClusterEvent]:
    """Return one event for each kind of change of a pending or assigned pod; any other change is a plain Update.

    For assigned pods both PodInfos must count resources as those of running pods. A status that is written to a pending pod is none: that
    is what the scheduler says of the pod, and would retry it because of its own words.
    """
    actions = list(_pod_actions(old, new))
    if not actions:
        if new.pod.spec.node_name:
            return [ASSIGNED_POD_UPDATE]
        return [] if _says_the_same(old.pod, new.pod) else [UNSCHEDULABLE_POD_UPDATE]
    resource = EventResource.ASSIGNED_POD if new.pod.spec.node_name else EventResource.UNSCHEDULABLE_POD
    return [cluster_event(resource, action) for action in actions]


def _node_actions(old: Node, new: Node) -> Iterator[ActionType]:
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield ActionType.UPDATE_NODE_TAINT  # kube-scheduler has no separate action for uncordoning
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        yield ActionType.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        yield ActionType.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints:
        yield ActionType.UPDATE_NODE_TAINT
    if _condition_statuses(old) != _condition_statuses(new):
        yield ActionType.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        yield ActionType.UPDATE_NODE_ANNOTATION


def _pod_actions(old: PodInfo, new: PodInfo) -> Iterator[ActionType]:
    if old.pod.metadata.labels != new.pod.metadata.labels:
        yield ActionType.UPDATE_POD_LABEL
    if _scaled_down(old, new):
        yield ActionType.UPDATE_POD_SCALE_DOWN
    if old.pod.spec.scheduling_gates and not new.pod.spec.scheduling_gates:
        yield ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if len(old.pod.spec.tolerations) != len(new.pod.spec.tolerations):
        yield ActionType.UPDATE_POD_TOLERATION  # the API server allows tolerations only to be added
    if _claim_names(old.pod) != _claim_names(new.pod):
        yield ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM


def _scaled_down(old: PodInfo, new: PodInfo) -> bool:
    if old.resources is new.resources:
        return False
    now = new.resources.requests
    return any(now.get(name, 0) < amount for name, amount in old.resources.requests.items())


def _says_the_same(old: Pod, new: Pod) -> bool:
    """Answer whether two states of a pod differ in nothing that a plugin could read but their status."""
    was, now = old.metadata, new.metadata
    same_owners = was.owner_references == now.owner_references
    return same_owners and was.deletion_timestamp == now.deletion_timestamp and is_specified_alike(old, new)


def _claim_names(pod: Pod) -> dict[str, str | None]:
    return {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _same_amounts(old: ResourceList, new: ResourceList) -> bool:
    """Compare by value: 1 and 1000m are equal. An amount that cannot be parsed equals only the same text."""
    if old == new:
        return True
    if old.keys() != new.keys():
        return False
    try:
        return all(nano(amount) == nano(new[name]) for name, amount in old.items())
    except QuantityError:
        return False
