"""PodTopologySpread: Filter by hard constraints, Score by soft ones; a pod without constraints gets the defaults of the configuration.

A sum of pods over a domain depends on many rows: such sums are made at PreFilter and PreScore, and the versions say when that has to be
done again, because pods that are counted came or went or nodes changed their labels.
Reference: plugins/podtopologyspread/plugin.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import Change
from koordsched.framework.interface import FilterNodesPlugin, Normalize, PreFilterPlugin, PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from koordsched.plugins.podtopologyspread.constraints import own_demand
from koordsched.plugins.podtopologyspread.defaults import Defaults
from koordsched.plugins.podtopologyspread.filtering import MISSING_LABEL, Limit, limits, refuse, swayed
from koordsched.plugins.podtopologyspread.hints import Hints
from koordsched.plugins.podtopologyspread.scoring import Crowding, crowding, normalize, score
from koordsched.plugins.podtopologyspread.spread import Spread, Spreads
from koordsched.queue.events import ActionType, EventHint, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.args import PodTopologySpreadArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Flags, PreFilterResult, Scores

REFUSED_UNEVEN = unschedulable("node(s) didn't match pod topology spread constraints")
REFUSED_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

PRE_FILTER_STATE = "PreFilterPodTopologySpread"  # list[Limit]
PRE_SCORE_STATE = "PreScorePodTopologySpread"  # Crowding


class PodTopologySpread(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    name = "PodTopologySpread"
    reads = Change.LABELS
    normalize = Normalize.CUSTOM
    depends_on_feasible = True

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._spreads = Spreads(handle.cache)
        self._defaults = Defaults(args, handle, self._spreads)

    def sign(self, pod: PodInfo) -> Hashable:
        if pod.pod.spec.topology_spread_constraints:
            return own_demand(pod.pod)
        defaults = self._defaults
        return defaults.sign(pod.pod) if defaults.have_hard or defaults.concern(pod.pod.metadata) else None

    def has_version(self, pod: PodInfo) -> bool:
        return bool(pod.pod.spec.topology_spread_constraints) or self._defaults.have_hard

    def has_score_version(self, pod: PodInfo) -> bool:
        return True  # a Service may come that selects pods of this signature

    def version(self, pod: PodInfo) -> Hashable:
        if not self.has_version(pod):
            return None
        spread = self._spread(pod)
        return spread.version(spread.hard_counts) if spread is not None and spread.demand.hard else None

    def score_version(self, pod: PodInfo) -> Hashable:
        if not (pod.pod.spec.topology_spread_constraints or self._defaults.concern(pod.pod.metadata)):
            return None
        spread = self._spread(pod)
        return spread.version(spread.soft_counts) if spread is not None and spread.demand.soft else None

    def _spread(self, pod: PodInfo) -> Spread | None:
        """Return what the pod's constraints, or the defaults, count; None for a pod without."""
        if not pod.pod.spec.topology_spread_constraints:
            return self._defaults.spread(pod.pod)
        if pod.shape is None:
            demand = own_demand(pod.pod)
            return self._spreads.get(demand, lambda: demand)
        return self._spreads.get(pod.shape, lambda: own_demand(pod.pod))

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        spread = self._spread(pod)
        if spread is not None and spread.demand.problem:
            return unresolvable(spread.demand.problem)
        if spread is None or not spread.demand.hard:
            return SKIP  # whatever pods are nominated: they count only for constraints of this one
        state.write(PRE_FILTER_STATE, limits(spread))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        found: list[Limit] | None = state.read(PRE_FILTER_STATE)
        if found is None:  # left out at preFilter by the configuration
            spread = self._spread(pod)
            found = limits(spread) if spread is not None else []
        return refuse(found, nodes)

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags | None:
        spread = self._spread(pod)
        return None if spread is None else swayed(spread, nodes.rows, codes)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSED_LABEL if code == MISSING_LABEL else REFUSED_UNEVEN

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        spread = self._spread(pod)
        if spread is not None and spread.demand.problem:
            return error(spread.demand.problem)
        if spread is None or not spread.demand.soft:
            return SKIP
        state.write(PRE_SCORE_STATE, crowding(spread, nodes))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        found: Crowding | None = state.read(PRE_SCORE_STATE)
        return None if found is None else score(found, nodes)  # None: left out at preScore by the configuration

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        found: Crowding | None = state.read(PRE_SCORE_STATE)
        return np.zeros_like(scores) if found is None else normalize(found, nodes, scores)

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        hints = Hints(self._spread)
        pods = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return (
            # UPDATE_POD_OTHER: a pod that begins to terminate is no longer counted. The reference retries when it is gone.
            EventHint(cluster_event(EventResource.POD, pods | ActionType.UPDATE_POD_OTHER), hints.after_pod_change),
            EventHint(cluster_event(EventResource.NODE, nodes), hints.after_node_change),
        )
