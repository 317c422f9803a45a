"""Plugins that tell a stopwatch how long they take: stand-ins that a profile runs in place of the plugins themselves.

PreFilter and PreScore, which run once for many pods, are always run by stand-ins, since they also count. At the other points only a sampled
cycle runs stand-ins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from koordsched.framework.interface import (
    Codes,
    FilterNodesPlugin,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScoreNodesPlugin,
    Scores,
)
from koordsched.framework.status import SKIPS, Status
from koordsched.framework.stopwatch import (
    FILTER,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    Stopwatch,
)

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState

P = TypeVar("P", bound=Plugin)


class Timed(Plugin, Generic[P]):
    """Stands in for a plugin."""

    def __init__(self, plugin: P, watch: Stopwatch) -> None:
        self.name = plugin.name
        self._plugin = plugin
        self._watch = watch
        self._perf = watch.perf

    def _executed(self, point: str, status: Status | None, started: float) -> None:
        self._watch.executed(self.name, point, status, started)


class CountedPreFilter(Timed[PreFilterPlugin], PreFilterPlugin):
    """Counts what it does not skip."""

    def __init__(self, plugin: PreFilterPlugin, watch: Stopwatch) -> None:
        super().__init__(plugin, watch)
        self._evaluations = watch.evaluations(plugin.name, PRE_FILTER)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        started = self._perf() if self._watch.recording else 0.0
        outcome = self._plugin.pre_filter(state, pod, nodes)
        if not isinstance(outcome, Status) or outcome.code is not SKIPS:
            self._evaluations.count += 1
        if self._watch.recording:
            self._executed(PRE_FILTER, outcome if isinstance(outcome, Status) else None, started)
        return outcome


class CountedPreScore(Timed[PreScorePlugin], PreScorePlugin):
    """Counts what it does not skip."""

    def __init__(self, plugin: PreScorePlugin, watch: Stopwatch) -> None:
        super().__init__(plugin, watch)
        self._evaluations = watch.evaluations(plugin.name, PRE_SCORE)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        started = self._perf() if self._watch.recording else 0.0
        status = self._plugin.pre_score(state, pod, nodes)
        if status is None or status.code is not SKIPS:
            self._evaluations.count += 1
        if self._watch.recording:
            self._executed(PRE_SCORE, status, started)
        return status


class TimedFilter(Timed[FilterNodesPlugin], FilterNodesPlugin):
    """The status of one question about many nodes is success if a node passed, or why the first one did not."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        started = self._perf()
        codes = self._plugin.filter_nodes(state, pod, nodes)
        seconds = self._perf() - started
        status = self.explain(state, pod, int(codes[0])) if codes is not None and codes.all() else None
        self._watch.took(self.name, FILTER, status, seconds)
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self._plugin.explain(state, pod, code)


class TimedScore(Timed[ScoreNodesPlugin], ScoreNodesPlugin):
    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        started = self._perf()
        scores = self._plugin.score_nodes(state, pod, nodes)
        self._executed(SCORE, None, started)
        return scores
