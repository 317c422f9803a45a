"""Which events may help a pod that NodeNUMAResource refused (nodenumaresource.md §15, D20).

Whatever happens to a node, the question is whether this plugin lets the pod go there now; columns and allocations follow an event before
the queue is told of it, so the filter itself answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Pod
from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo

POD_CHANGES = ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCALE_DOWN | ActionType.UPDATE_POD_OTHER
NODE_CHANGES = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ANNOTATION
TOPOLOGY_CHANGES = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_OTHER


class Hints:
    """The plugin's queueing hints. `passes` answers whether the pod could go to the live node of that name, as far as the plugin goes."""

    def __init__(self, passes: Callable[[PodInfo, str], bool]) -> None:
        self._passes = passes

    def events(self) -> tuple[EventHint, ...]:
        """Return what to register. A pod that ends leaves the watch like a deleted one."""
        return (
            EventHint(cluster_event(EventResource.POD, POD_CHANGES), self.after_pod_change),
            EventHint(cluster_event(EventResource.NODE, NODE_CHANGES), self.after_node_change),
            EventHint(
                cluster_event(EventResource.CUSTOM, TOPOLOGY_CHANGES, NODE_RESOURCE_TOPOLOGY.plural_group), self.after_topology_change
            ),
        )

    def after_pod_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the waiting pod itself changed, or when one that ran went away or shrank and now there is enough on its node."""
        assert isinstance(old, Pod)
        if isinstance(new, Pod) and new.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        return self._if_passing(pod, old.spec.node_name)

    def after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node would do as it is now."""
        return self._if_passing(pod, "" if new is None else new.metadata.name)

    def after_topology_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node of that name would do with its topology, or without it."""
        changed = new or old
        return self._if_passing(pod, "" if changed is None else changed.metadata.name)

    def _if_passing(self, pod: PodInfo, node_name: str) -> QueueingHint:
        return QueueingHint.QUEUE if node_name and self._passes(pod, node_name) else QueueingHint.SKIP
