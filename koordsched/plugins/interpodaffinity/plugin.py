"""InterPodAffinity: Filter by the required terms of the pod and of existing pods, Score by all others.

An existing pod counts in the domain of its node: the nodes with the same value of a term's topology key. Counts are kept by pod events, so
a cycle sums them by domain and looks at no pod. Reference: plugins/interpodaffinity of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched._core.counts import normalize_to_range
from koordsched.api.kinds import NAMESPACE
from koordsched.cache.pod_counts import pod_counts
from koordsched.framework.interface import FilterNodesPlugin, Normalize, PreFilterPlugin, PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.status import SKIP, Status, unresolvable, unschedulable
from koordsched.plugins.interpodaffinity.compiled_affinity import AffinityCompiler
from koordsched.plugins.interpodaffinity.queueing_hints import AffinityHints
from koordsched.plugins.interpodaffinity.terms import Namespaces
from koordsched.plugins.interpodaffinity.topology_counts import BY_AFFINITY, BY_ANTI_AFFINITY, BY_EXISTING, FilterState, ScoreState

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.args import InterPodAffinityArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Flags, Scores
    from koordsched.queue.events import EventHint

REFUSALS = {
    BY_AFFINITY: unresolvable("node(s) didn't match pod affinity rules"),
    BY_ANTI_AFFINITY: unschedulable("node(s) didn't match pod anti-affinity rules"),
    BY_EXISTING: unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
}
UNREADABLE = "parsing pod: {problem}"

PRE_FILTER_STATE = "PreFilterInterPodAffinity"  # FilterState
PRE_SCORE_STATE = "PreScoreInterPodAffinity"  # ScoreState


class InterPodAffinity(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    name = "InterPodAffinity"
    reads = NodeChange.LABELS | NodeChange.USAGE  # of the row itself; what other rows do to it is in the versions
    normalize = Normalize.CUSTOM

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._pod_counts = pod_counts(handle.cache)
        self._compiler = AffinityCompiler(handle.cache, Namespaces(handle.informer(NAMESPACE)), args)
        self._existing_terms = self._compiler.terms
        self._hints = AffinityHints(self._compiler)

    def sign(self, pod: PodInfo) -> Hashable:
        if pod.pod.spec.affinity is None and not self._existing_terms.match_others:
            return None
        return self._compiler.sign(pod)

    def has_version(self, pod: PodInfo) -> bool:
        return self._compiler.compiled(pod) is not None  # pods that a later term may match are signed again

    def version(self, pod: PodInfo) -> Hashable:
        affinity = self._compiler.compiled(pod)
        return None if affinity is None else affinity.version()

    def score_version(self, pod: PodInfo) -> Hashable:
        affinity = self._compiler.compiled(pod)
        return None if affinity is None else affinity.score_version()

    def prepare(self, pod: PodInfo) -> Generator[None, None, object]:
        return (yield from self._pod_counts.count_each(self._compiler.queries(pod)))

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        affinity = self._compiler.compiled(pod)
        if affinity is None:
            return SKIP
        if affinity.own.problem:
            return unresolvable(UNREADABLE.format(problem=affinity.own.problem))
        filter_state = affinity.filter_state()
        if filter_state.is_idle:
            return SKIP
        state.write(PRE_FILTER_STATE, filter_state)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        filter_state: FilterState = state.read(PRE_FILTER_STATE)
        return filter_state.refuse(nodes)

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags | None:
        affinity = self._compiler.compiled(pod)
        return None if affinity is None else affinity.filter_counts.affected_by_removals(nodes.rows, codes)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSALS[code]

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        affinity = self._compiler.compiled(pod)
        if affinity is None:
            return SKIP
        affinity.refresh()
        if not affinity.scores:
            return SKIP
        state.write(PRE_SCORE_STATE, ScoreState(self._compiler.keys, affinity.score_counts))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        score_state: ScoreState = state.read(PRE_SCORE_STATE)
        return score_state.score(nodes)

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        return normalize_to_range(scores)

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        return self._hints.events()
