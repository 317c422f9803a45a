"""NodeUnschedulable: Filter refuses nodes with spec.unschedulable unless the pod tolerates the taint that stands for it.

The node table keeps a cordon as one more taint of the node's taint set, so this is answered like TaintToleration's filter.
Reference: plugins/nodeunschedulable/node_unschedulable.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched.api.core import Node, Pod
from koordsched.framework.interface import FilterNodesPlugin
from koordsched.framework.status import Status, unresolvable
from koordsched.framework.tolerations import UNSCHEDULABLE_TAINT, compiled_for, first_untolerated, tolerances_of
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes

REFUSAL = unresolvable("node(s) were unschedulable")


class NodeUnschedulable(FilterNodesPlugin):
    name = "NodeUnschedulable"
    signs = ("pod.spec.tolerations",)
    reads = NodeChange.TAINTS

    def __init__(self, handle: Handle) -> None:
        self._tolerances = tolerances_of(handle.columns)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        self._tolerances.refresh()
        if not self._tolerances.cordons:
            return None
        tolerance = compiled_for(state, self.name, self._tolerances, pod)
        return tolerance.refuse_cordoned(nodes.table, nodes.columns.taint_set_attribute, nodes.rows)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSAL

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), _after_node_change),
            EventHint(cluster_event(EventResource.POD, ActionType.UPDATE_POD_TOLERATION), _after_toleration_change),
        )


def _after_node_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when the node came without a cordon or lost it."""
    assert isinstance(new, Node)
    was_closed = old.spec.unschedulable if isinstance(old, Node) else True
    return QueueingHint.QUEUE if was_closed and not new.spec.unschedulable else QueueingHint.SKIP


def _after_toleration_change(pod: PodInfo, _old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when the waiting pod itself tolerates cordons now. Tolerations are only ever added."""
    assert isinstance(new, Pod)
    helps = new.metadata.uid == pod.uid and first_untolerated((UNSCHEDULABLE_TAINT,), new.spec.tolerations) is None
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
