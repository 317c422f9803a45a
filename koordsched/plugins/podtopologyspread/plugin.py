"""PodTopologySpread: Filter by hard constraints, Score by soft ones; a pod without constraints gets the defaults of the configuration.

A sum of pods over a domain depends on many rows: such sums are made at PreFilter and PreScore, and the versions say when that has to be
done again, because pods that are counted came or went or nodes changed their labels.
Reference: plugins/podtopologyspread/plugin.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched.cache.pod_counts import pod_counts
from koordsched.framework.interface import FilterNodesPlugin, Normalize, PreFilterPlugin, PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from koordsched.plugins.podtopologyspread.constraints import own_constraints
from koordsched.plugins.podtopologyspread.defaults import DefaultConstraints
from koordsched.plugins.podtopologyspread.eligible_domains import SpreadCounts, SpreadCountsCache
from koordsched.plugins.podtopologyspread.filtering import MISSING_LABEL, DomainLimit, affected_by_removals, domain_limits, refuse
from koordsched.plugins.podtopologyspread.queueing_hints import SpreadHints
from koordsched.plugins.podtopologyspread.scoring import SpreadScore, spread_score

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.args import PodTopologySpreadArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Flags, PreFilterResult, Scores
    from koordsched.queue.events import EventHint

REFUSED_UNEVEN = unschedulable("node(s) didn't match pod topology spread constraints")
REFUSED_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

PRE_FILTER_STATE = "PreFilterPodTopologySpread"  # list[DomainLimit]
PRE_SCORE_STATE = "PreScorePodTopologySpread"  # SpreadScore


class PodTopologySpread(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    name = "PodTopologySpread"
    reads = NodeChange.LABELS
    normalize = Normalize.CUSTOM
    depends_on_feasible = True

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._pod_counts = pod_counts(handle.cache)
        self._kept = SpreadCountsCache(handle.cache)
        self._defaults = DefaultConstraints(args, handle, self._kept)

    def sign(self, pod: PodInfo) -> Hashable:
        if pod.pod.spec.topology_spread_constraints:
            return own_constraints(pod.pod)
        defaults = self._defaults
        return defaults.sign(pod.pod) if defaults.have_hard or defaults.concern(pod.pod.metadata) else None

    def has_version(self, pod: PodInfo) -> bool:
        return bool(pod.pod.spec.topology_spread_constraints) or self._defaults.have_hard

    def has_score_version(self, pod: PodInfo) -> bool:
        return True  # a Service may come that selects pods of this signature

    def version(self, pod: PodInfo) -> Hashable:
        if not self.has_version(pod):
            return None
        counts = self._counts(pod)
        return counts.version(counts.hard) if counts is not None and counts.constraints.hard else None

    def score_version(self, pod: PodInfo) -> Hashable:
        if not (pod.pod.spec.topology_spread_constraints or self._defaults.concern(pod.pod.metadata)):
            return None
        counts = self._counts(pod)
        return counts.version(counts.soft) if counts is not None and counts.constraints.soft else None

    def prepare(self, pod: PodInfo) -> Generator[None, None, object]:
        written = pod.pod.spec.topology_spread_constraints
        constraints = own_constraints(pod.pod) if written else self._defaults.constraints(pod.pod)
        queries = [] if constraints is None else [each.query for each in (*constraints.hard, *constraints.soft) if each.query is not None]
        return (yield from self._pod_counts.count_each(queries))

    def _counts(self, pod: PodInfo) -> SpreadCounts | None:
        """Return what the pod's constraints, or the defaults, count; None for a pod without."""
        if not pod.pod.spec.topology_spread_constraints:
            return self._defaults.counts(pod.pod)
        if pod.shape is None:
            constraints = own_constraints(pod.pod)
            return self._kept.get(constraints, lambda: constraints)
        return self._kept.get(pod.shape, lambda: own_constraints(pod.pod))

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        counts = self._counts(pod)
        if counts is not None and counts.constraints.problem:
            return unresolvable(counts.constraints.problem)
        if counts is None or not counts.constraints.hard:
            return SKIP  # whatever pods are nominated: they count only for constraints of this one
        state.write(PRE_FILTER_STATE, domain_limits(counts))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        limits: list[DomainLimit] = state.read(PRE_FILTER_STATE)
        return refuse(limits, nodes)

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags | None:
        counts = self._counts(pod)
        return None if counts is None else affected_by_removals(counts, nodes.rows, codes)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSED_LABEL if code == MISSING_LABEL else REFUSED_UNEVEN

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        counts = self._counts(pod)
        if counts is not None and counts.constraints.problem:
            return error(counts.constraints.problem)
        if counts is None or not counts.constraints.soft:
            return SKIP
        state.write(PRE_SCORE_STATE, spread_score(counts, nodes))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        score: SpreadScore = state.read(PRE_SCORE_STATE)
        return score.raw(nodes)

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        score: SpreadScore = state.read(PRE_SCORE_STATE)
        return score.normalize(nodes, scores)

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        return SpreadHints(self._counts).events()
