"""Which events may help a pod that LoadAwareScheduling refused (frameworkext.md §5).

The reference retries such pods after every pod that goes and after every NodeMetric. Here the question is whether the node that the event
is about lets the pod pass now; columns follow an event before the queue does, so the filter itself answers. A node that comes, and one
whose capacity or thresholds change, may help as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Pod
from koordsched.api.kinds import NODE_METRIC
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo

NODE_CHANGES = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_ANNOTATION
POD_CHANGES = ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCALE_DOWN
METRIC_CHANGES = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_OTHER


class LoadHints:
    """The plugin's queueing hints. `passes` answers whether the plugin lets the pod go to the node of that name."""

    def __init__(self, passes: Callable[[PodInfo, str], bool]) -> None:
        self._passes = passes

    def events(self) -> tuple[EventHint, ...]:
        """Return what to register. A pod that ends leaves the watch like a deleted one."""
        return (
            EventHint(cluster_event(EventResource.ASSIGNED_POD, POD_CHANGES), self.after_pod_change),
            EventHint(cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD), self.after_own_change),
            EventHint(cluster_event(EventResource.NODE, NODE_CHANGES), self.after_object_change),
            EventHint(cluster_event(EventResource.CUSTOM, METRIC_CHANGES, NODE_METRIC.plural_group), self.after_object_change),
        )

    def after_pod_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node of a pod that runs, or ran, would do now."""
        changed = new or old
        return self._if_passing(pod, changed.spec.node_name if isinstance(changed, Pod) else "")

    def after_own_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the waiting pod itself changed."""
        return QueueingHint.QUEUE if new is not None and new.metadata.uid == pod.uid else QueueingHint.SKIP

    def after_object_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node, or that of the metric, would do now. Without objects metrics have expired, each of which may help."""
        changed = new or old
        return QueueingHint.QUEUE if changed is None else self._if_passing(pod, changed.metadata.name)

    def _if_passing(self, pod: PodInfo, node_name: str) -> QueueingHint:
        return QueueingHint.QUEUE if node_name and self._passes(pod, node_name) else QueueingHint.SKIP
