"""TaintToleration: Filter by NoSchedule and NoExecute taints, Score by the number of PreferNoSchedule taints.

A reason code says which taint it was: 1 + its index in `Columns.taints`. The reason's text does not name it (since Kubernetes v1.35), so
that a cluster with many taints gets one line; `taint` returns it, for explanations.
Reference: plugins/tainttoleration/taint_toleration.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched.api.core import Node, Taint
from koordsched.framework.interface import FilterNodesPlugin, Normalize, PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.status import Status, unresolvable
from koordsched.framework.tolerations import compiled_for, first_untolerated, tolerances_of
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched._core.tolerance import Tolerance
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores

REFUSAL = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration(FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    name = "TaintToleration"
    signs = ("pod.spec.tolerations",)
    reads = NodeChange.TAINTS
    normalize = Normalize.DEFAULT_REVERSE

    def __init__(self, handle: Handle) -> None:
        self._columns = handle.columns
        self._tolerances = tolerances_of(handle.columns)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        return self._tolerance(state, pod).refuse(nodes.table, nodes.columns.taint_set_attribute, nodes.rows)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSAL

    def taint(self, code: int) -> Taint:
        """Return the taint that a reason code stands for."""
        return self._columns.taints.names[code - 1]

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        # Never SKIP: a node without such taints scores 100, and that is in every total. There is nothing else to do.
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        tolerance = self._tolerance(state, pod)
        if not self._tolerances.repels:
            return None
        return tolerance.count_repelling(nodes.table, nodes.columns.taint_set_attribute, nodes.rows)

    def _tolerance(self, state: CycleState, pod: PodInfo) -> Tolerance:
        return compiled_for(state, self.name, self._tolerances, pod)

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), _after_node_change),
            EventHint(cluster_event(EventResource.POD, ActionType.UPDATE_POD_TOLERATION), _after_toleration_change),
        )


def _after_node_change(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when the pod tolerates the node now and did not before."""
    assert isinstance(new, Node)
    tolerations = pod.pod.spec.tolerations
    was_refused = first_untolerated(old.spec.taints, tolerations) is not None if isinstance(old, Node) else True
    helps = was_refused and first_untolerated(new.spec.taints, tolerations) is None
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_toleration_change(pod: PodInfo, _old: Object | None, new: Object | None) -> QueueingHint:
    return QueueingHint.QUEUE if new is not None and new.metadata.uid == pod.uid else QueueingHint.SKIP
