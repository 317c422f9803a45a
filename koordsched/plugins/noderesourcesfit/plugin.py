"""NodeResourcesFit: Filter by the pod's requests, Score by the strategy LeastAllocated, MostAllocated or RequestedToCapacityRatio.

A node short of several resources gets all of them as reasons. Reference: plugins/noderesources/fit.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched._core.fit import filter_fit
from koordsched.framework.interface import FilterNodesPlugin, PreFilterPlugin, PreScorePlugin, ScoreNodesPlugin
from koordsched.plugins.noderesourcesfit.filtering import CheckedRequests
from koordsched.plugins.noderesourcesfit.queueing_hints import FitHints
from koordsched.plugins.noderesourcesfit.scoring import AllocationScorer
from koordsched.queue.events import ActionType, EventHint, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.args import NodeResourcesFitArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores
    from koordsched.framework.status import Status

PRE_FILTER_STATE = "PreFilterNodeResourcesFit"  # the Request to check
PRE_SCORE_STATE = "PreScoreNodeResourcesFit"  # the ScoredResources


class NodeResourcesFit(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    name = "NodeResourcesFit"
    reads = NodeChange.USAGE | NodeChange.CAPACITY

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        self._requests = CheckedRequests(args, handle.columns)
        self._scorer = AllocationScorer(args.scoring_strategy, handle.columns)
        self._hints = FitHints(self._requests)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.resources if pod.pod.spec.resources is None else self._scorer.sign(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        request = self._requests.request(pod)
        state.write(PRE_FILTER_STATE, request)
        return self._requests.refuse(request)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        return filter_fit(nodes.table, state.read(PRE_FILTER_STATE), nodes.rows)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self._requests.explain(state.read(PRE_FILTER_STATE), code)

    def fit_request(self, state: CycleState, pod: PodInfo) -> Request:
        request: Request = state.read(PRE_FILTER_STATE)
        return request

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write(PRE_SCORE_STATE, self._scorer.scored(pod))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return self._scorer.score(nodes.table, state.read(PRE_SCORE_STATE), nodes.rows)

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(cluster_event(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN), self._hints.after_pod_event),
            EventHint(
                cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE), self._hints.after_node_change
            ),
        )
