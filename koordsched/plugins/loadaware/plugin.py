"""LoadAwareScheduling: nodes by what they really use, as NodeMetrics report it, with estimates of what no metric has seen yet.

Filter and Score are columns (`_core.load`) over what `state` keeps of every node. A pod's estimate counts on its node from its assumption
on, so Reserve has nothing left to do. Reference: plugins/loadaware of Koordinator v1.8.0 (frameworkext.md §5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.load import EXPIRED_CODE, LoadScoring, filter_load, refusal_of, score_load
from koordsched.framework.interface import FilterNodesPlugin, PreFilterPlugin, ReservePlugin, ScoreNodesPlugin
from koordsched.framework.routes import Answer, Route, RoutesPlugin
from koordsched.framework.status import SKIP, Status, unschedulable
from koordsched.plugins.loadaware.check import LoadCheck
from koordsched.plugins.loadaware.endpoint import describe
from koordsched.plugins.loadaware.queueing_hints import LoadHints
from koordsched.plugins.loadaware.state import LoadState

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.koordinator_args import LoadAwareSchedulingArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Flags, Scores
    from koordsched.queue.events import EventHint

EXPIRED = unschedulable("node(s) nodeMetric expired")
OVER_THRESHOLD = "node(s) {resource} usage exceed threshold"
OVER_AGGREGATED_THRESHOLD = "node(s) {resource} aggregated usage exceed threshold"


class LoadAwareScheduling(PreFilterPlugin, FilterNodesPlugin, ScoreNodesPlugin, ReservePlugin, RoutesPlugin):
    name = "LoadAwareScheduling"
    takes_time = False

    def __init__(self, args: LoadAwareSchedulingArgs, handle: Handle) -> None:
        self._cache = handle.cache
        self._state = load_state(handle)
        self._loads = self._state.loads_under(args)
        self._table = self._loads.table
        self._estimator = self._loads.estimator
        self.reads = self._state.change
        weights = [args.resource_weights.get(resource, 0) for resource in self._loads.vector]
        self._scoring = LoadScoring(weights, args.dominant_resource_weight, by_prod_usage=args.score_according_prod_usage)
        state = self._state
        handle.metrics.gauge_function(
            "koord_scheduler_load_aware_node_metrics", "NodeMetrics by what they are good for.", state.count_metrics, "state"
        )
        handle.metrics.counter_function(
            "koord_scheduler_load_aware_expired_total", "NodeMetrics that expired.", lambda: {"": float(state.expired)}
        )

    def sign(self, pod: PodInfo) -> Hashable:
        return self._estimator.estimate(pod)

    def has_version(self, pod: PodInfo) -> bool:
        return False

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return SKIP if self._estimator.estimate(pod).is_daemon else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        return filter_load(self._table, self._estimator.estimate(pod), nodes.rows)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self._explain(code)

    def _explain(self, code: int) -> Status:
        if code == EXPIRED_CODE:
            return EXPIRED
        place, aggregated = refusal_of(code)
        text = OVER_AGGREGATED_THRESHOLD if aggregated else OVER_THRESHOLD
        return unschedulable(text.format(resource=self._loads.vector[place]))

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags | None:
        """Answer that none is: a node is used as much as its metric says, whoever leaves it."""
        return np.zeros(len(nodes.rows), np.bool_)

    def _passes(self, pod: PodInfo, node_name: str) -> bool:
        """Answer whether the plugin would let the pod go to that node now."""
        node = self._cache.node(node_name)
        if node is None:
            return False
        return not filter_load(self._table, self._estimator.estimate(pod), np.array([node.row], np.int32))[0]

    # Score

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        return score_load(self._table, self._estimator.estimate(pod), self._scoring, nodes.rows)

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Pass: the estimate has been counted since the pod was assumed."""
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Leave it to the cache, which reports that the pod is forgotten."""

    # Events, HTTP

    def events_to_register(self) -> Sequence[EventHint]:
        return LoadHints(self._passes).events()

    def routes(self) -> Sequence[Route]:
        return (Route("node/:nodeName", self._show),)

    def _show(self, named: Mapping[str, str]) -> Answer:
        return Answer(describe(self._state, self._loads, named["nodeName"], self._cache))


def load_state(handle: Handle) -> LoadState:
    """Return the state that all plugins on this cache share. To be called while the plugin is made."""

    def make() -> LoadState:
        state = LoadState(handle)
        handle.cache.checked.append(LoadCheck(state, handle))
        return state

    return handle.cache.shared.one(LoadState, make)
