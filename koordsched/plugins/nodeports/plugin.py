"""NodePorts: Filter refuses nodes whose pods use a host port that conflicts with one of the pod's.

Which bit columns conflict is looked up when the filter is asked, not in PreFilter: ports get a column when the first pod uses them. Rows
that were answered before stay right all the same, since only rows whose own ports changed can get another answer.
Reference: plugins/nodeports/node_ports.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.bitset import filter_bits
from koordsched._core.change import NodeChange
from koordsched.api.core import Pod
from koordsched.api.resources import host_ports
from koordsched.cache.host_ports import ips_conflict
from koordsched.framework.interface import FilterNodesPlugin, PreFilterPlugin
from koordsched.framework.status import SKIP, Status, unschedulable
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.resources import HostPort
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import Codes, Flags

REFUSAL = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts(PreFilterPlugin, FilterNodesPlugin):
    name = "NodePorts"
    signs = ("ports",)
    reads = NodeChange.PORTS

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None if pod.ports else SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        return filter_bits(nodes.table, nodes.columns.host_ports.conflicting_bits(pod.ports), nodes.rows)

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags:
        refused: Flags = codes != 0
        return refused

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSAL

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(cluster_event(EventResource.POD, ActionType.DELETE), _after_pod_delete),
            EventHint(cluster_event(EventResource.NODE, ActionType.ADD)),
        )


def _conflict(one: HostPort, other: HostPort) -> bool:
    return one.port == other.port and one.protocol == other.protocol and ips_conflict(one.ip, other.ip)


def _after_pod_delete(pod: PodInfo, old: Object | None, _new: Object | None) -> QueueingHint:
    """Queue when the pod that went away had a place, and there a port that the waiting pod wants."""
    assert isinstance(old, Pod)
    if not old.spec.node_name and not old.status.nominated_node_name:
        return QueueingHint.SKIP
    freed = host_ports(old)
    helps = any(_conflict(wanted, used) for wanted in pod.ports for used in freed)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
