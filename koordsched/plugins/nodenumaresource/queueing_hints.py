"""Which events may help a pod that NodeNUMAResource refused (nodenumaresource.md §15, D20).

Whatever happens to a node, the question is what this plugin decides about it now; columns and allocations follow an event before the queue
does, so the filter itself answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Pod
from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.pods import RESOURCE_STATUS
from koordsched.framework.status import Code, unresolvable
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.status import Status

POD_CHANGES = ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCALE_DOWN | ActionType.UPDATE_POD_OTHER
NODE_CHANGES = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ANNOTATION
TOPOLOGY_CHANGES = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_OTHER


GONE = unresolvable("the node is not there")
"""The refusal of a node that does not exist; only `NumaHints` sees it."""


class NumaHints:
    """The plugin's queueing hints. `refusal` answers why the pod cannot go to the node of that name, as far as the plugin goes."""

    def __init__(self, refusal: Callable[[PodInfo, str], Status | None]) -> None:
        self._refusal = refusal

    def events(self) -> tuple[EventHint, ...]:
        """Return what to register. A pod that ends leaves the watch like a deleted one."""
        return (
            EventHint(cluster_event(EventResource.POD, POD_CHANGES), self.after_pod_change),
            EventHint(cluster_event(EventResource.NODE, NODE_CHANGES), self.after_node_change),
            EventHint(
                cluster_event(EventResource.CUSTOM, TOPOLOGY_CHANGES, NODE_RESOURCE_TOPOLOGY.plural_group), self.after_topology_change
            ),
            EventHint(cluster_event(EventResource.ASSIGNED_POD, ActionType.ADD), self.after_pod_bound),
        )

    def after_pod_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the waiting pod itself changed, when one that ran went away, or when one that runs changed and now there is enough."""
        assert isinstance(old, Pod)
        if not isinstance(new, Pod):
            return self._if_resolvable(pod, old.spec.node_name)
        if new.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        helps = bool(new.spec.node_name) and self._refusal(pod, new.spec.node_name) is None
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def after_pod_bound(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node would do since the other pod runs there: CPUs in several NUMA nodes make each of these a shared one (§9)."""
        assert isinstance(new, Pod)
        helps = RESOURCE_STATUS in new.metadata.annotations and self._refusal(pod, new.spec.node_name) is None
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node would do as it is now."""
        return self._if_resolvable(pod, "" if new is None else new.metadata.name)

    def after_topology_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node of that name would do with its topology, or without it."""
        changed = new or old
        return self._if_resolvable(pod, "" if changed is None else changed.metadata.name)

    def _if_resolvable(self, pod: PodInfo, node_name: str) -> QueueingHint:
        """Queue when the node would do, if need be after evictions; whether it does so now is decided by the probe of the pod's shape."""
        refusal = self._refusal(pod, node_name) if node_name else GONE
        helps = refusal is None or refusal.code is Code.UNSCHEDULABLE
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP
