"""InterPodAffinity: Filter by the required terms of the pod and of the pods that are there, Score by all others.

An existing pod counts in the domain of its node: the nodes with the same value of a term's topology key. Counts are kept by pod events, so
a cycle sums them by domain and looks at no pod. Reference: plugins/interpodaffinity of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import Change
from koordsched._core.counts import normalize_to_range
from koordsched.api.kinds import NAMESPACE
from koordsched.framework.interface import FilterNodesPlugin, Normalize, PreFilterPlugin, PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.status import SKIP, Status, unresolvable, unschedulable
from koordsched.plugins.interpodaffinity.filtering import BY_AFFINITY, BY_ANTI_AFFINITY, BY_EXISTING, Filtering, swayed
from koordsched.plugins.interpodaffinity.hints import Hints
from koordsched.plugins.interpodaffinity.interests import Interests
from koordsched.plugins.interpodaffinity.namespaces import Namespaces
from koordsched.plugins.interpodaffinity.scoring import Scoring

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

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

PRE_FILTER_STATE = "PreFilterInterPodAffinity"  # Filtering
PRE_SCORE_STATE = "PreScoreInterPodAffinity"  # Scoring


class InterPodAffinity(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    name = "InterPodAffinity"
    reads = Change.LABELS | Change.USAGE  # of the row itself; what other rows do to it is in the versions
    normalize = Normalize.CUSTOM

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._cache = handle.cache
        self._interests = Interests(handle.cache, Namespaces(handle.informer(NAMESPACE)), args)
        self._terms = self._interests.terms
        self._hints = Hints(self._interests)

    def sign(self, pod: PodInfo) -> Hashable:
        if pod.pod.spec.affinity is None and not self._terms.matter:
            return None
        return self._interests.sign(pod)

    def has_version(self, pod: PodInfo) -> bool:
        return self._interests.of(pod) is not None  # pods that a term to come will mean are signed again

    def version(self, pod: PodInfo) -> Hashable:
        interest = self._interests.of(pod)
        return None if interest is None else interest.version()

    def score_version(self, pod: PodInfo) -> Hashable:
        interest = self._interests.of(pod)
        return None if interest is None else interest.score_version()

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        interest = self._interests.of(pod)
        if interest is None:
            return SKIP
        if interest.own.problem:
            return unresolvable(UNREADABLE.format(problem=interest.own.problem))
        filtering = interest.filtering()
        if filtering.idle:
            return SKIP
        state.write(PRE_FILTER_STATE, filtering)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        filtering: Filtering | None = state.read(PRE_FILTER_STATE)
        if filtering is None:  # left out at preFilter by the configuration
            interest = self._interests.of(pod)
            if interest is None:
                return None
            filtering = interest.filtering()
        return filtering.refuse(nodes)

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags | None:
        interest = self._interests.of(pod)
        return None if interest is None else swayed(interest, nodes.rows, codes)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSALS[code]

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        scoring = self._scoring(pod)
        if scoring is None:
            return SKIP
        state.write(PRE_SCORE_STATE, scoring)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        scoring: Scoring | None = state.read(PRE_SCORE_STATE) or self._scoring(pod)  # the latter if it is left out at preScore
        return None if scoring is None else scoring.score(nodes)

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        return normalize_to_range(scores)

    def _scoring(self, pod: PodInfo) -> Scoring | None:
        interest = self._interests.of(pod)
        if interest is None:
            return None
        interest.refresh()
        return Scoring(self._interests, interest) if interest.contributes else None

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        return self._hints.events()
