"""NodeName: Filter refuses every node but the one in spec.nodeName, if there is one.

Reference: plugins/nodename/node_name.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched._core.match import filter_equal
from koordsched.framework.interface import FilterNodesPlugin
from koordsched.framework.status import Status, unresolvable
from koordsched.queue.events import ActionType, EventHint, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import Codes

REFUSAL = unresolvable("node(s) didn't match the requested node name")
NOWHERE = -1  # no node has this id


class NodeName(FilterNodesPlugin):
    name = "NodeName"
    signs = ("pod.spec.node_name",)
    reads = NodeChange.LABELS  # with which the name column is logged

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        wanted = pod.pod.spec.node_name
        if not wanted:
            return None
        column = nodes.columns.name_column
        return filter_equal(nodes.table, column.attribute, column.values.ids.get(wanted, NOWHERE), nodes.rows)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSAL

    def events_to_register(self) -> Sequence[EventHint]:
        # A node's name never changes: only a new node can be the right one.
        return (EventHint(cluster_event(EventResource.NODE, ActionType.ADD)),)
