"""Which events may help a pod that DeviceShare refused (deviceshare.md §13).

The question is whether the node that the event is about lets the pod pass now; the state follows an event before the queue does, so the
filter itself answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Pod
from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED
from koordsched.plugins.deviceshare.templates import TEMPLATE_CHANGES
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo

NODE_CHANGES = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL
DEVICE_CHANGES = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_OTHER


class DeviceQueueingHints:
    """The plugin's queueing hints.

    passes: answers whether the plugin lets the pod go to the node of that name. may_need_template: whether what the pod asks for may have
    to be a template.
    """

    def __init__(self, passes: Callable[[PodInfo, str], bool], may_need_template: Callable[[PodInfo], bool]) -> None:
        self._passes = passes
        self._may_need_template = may_need_template

    def events(self) -> tuple[EventHint, ...]:
        """Return the events to register. A pod that has ended leaves the watch as a deleted one does."""
        return (
            EventHint(cluster_event(EventResource.ASSIGNED_POD, ActionType.DELETE), self.after_pod_left),
            EventHint(cluster_event(EventResource.ASSIGNED_POD, ActionType.UPDATE_POD), self.after_pod_change),
            EventHint(cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD), self.after_own_change),
            EventHint(cluster_event(EventResource.NODE, NODE_CHANGES), self.after_node_change),
            EventHint(cluster_event(EventResource.CUSTOM, DEVICE_CHANGES, DEVICE.plural_group), self.after_device_change),
            EventHint(TEMPLATE_CHANGES, self.after_template_change),
        )

    def after_pod_left(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the pod passes on the node that another pod has left."""
        return self._if_passing(pod, old.spec.node_name if isinstance(old, Pod) else "")

    def after_pod_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when a bound pod's devices are others than before, and the waiting pod passes on its node."""
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            return QueueingHint.SKIP
        if old.metadata.annotations.get(DEVICE_ALLOCATED) == new.metadata.annotations.get(DEVICE_ALLOCATED):
            return QueueingHint.SKIP
        return self._if_passing(pod, new.spec.node_name)

    def after_own_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the waiting pod itself changed: its annotations may ask for something else."""
        return QueueingHint.QUEUE if new is not None and new.metadata.uid == pod.uid else QueueingHint.SKIP

    def after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the pod passes on the node as it is now."""
        return self._if_passing(pod, "" if new is None else new.metadata.name)

    def after_device_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the pod passes on the node of the Device. It may when the Device was deleted: then the kubelet decides."""
        changed = new or old
        return self._if_passing(pod, "" if changed is None else changed.metadata.name)

    def after_template_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when what the pod asks for may have to be a template."""
        return QueueingHint.QUEUE if self._may_need_template(pod) else QueueingHint.SKIP

    def _if_passing(self, pod: PodInfo, node_name: str) -> QueueingHint:
        return QueueingHint.QUEUE if node_name and self._passes(pod, node_name) else QueueingHint.SKIP
