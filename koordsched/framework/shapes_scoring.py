"""PreScore and Score for shapes: raw scores of changed rows and of plugins with a new version, normalisation, totals.

Score versions are compared when a shape is ranked, not when it is filtered: a waiting pod's probe needs no scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.lift import PluginError
from koordsched.framework.status import SKIPS, Code, Status
from koordsched.framework.stopwatch import NORMALIZE, PRE_SCORE, SCORE, Stopwatch
from koordsched.framework.timed import CountedPreScore, TimedScore

if TYPE_CHECKING:
    from collections.abc import Hashable
    from collections.abc import Set as AbstractSet

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.plan import Plan
    from koordsched.framework.shape import Shape


class Scoring:
    """Keeps the totals of shapes true."""

    def __init__(self, plan: Plan, cache: Cache, watch: Stopwatch) -> None:
        self._plan = plan
        self._cache = cache
        self._watch = watch
        self._pre_scorers = [CountedPreScore(plugin, watch) for plugin in plan.pre_scorers]
        self._counters = [watch.evaluations(plugin.name, SCORE) for plugin, _ in plan.scorers]
        self._asked = cache.nodes()  # what plugins are asked about; its rows are set for each call

    def rank(self, shape: Shape, pod: PodInfo) -> None:
        """Bring the totals of all feasible rows up to date. PluginError when a plugin failed."""
        versioned = shape.score_versioned
        if versioned:
            versions = [plugin.score_version(pod) for plugin in versioned]
            if versions != shape.score_versions:
                self._follow_versions(shape, versions)
        if not shape.pre_scored:
            self._pre_score(shape, pod, self._plan.pre_scorer_names)
        elif shape.stale_scores:
            self._pre_score(shape, pod, shape.stale_scores)
        self._score(shape, pod)

    def feasible_changed(self, shape: Shape) -> None:
        """Take note that other rows are feasible than before."""
        shape.normalized = False
        plan = self._plan
        if plan.feasible_dependent and shape.pre_scored:
            names = (plan.feasible_dependent - shape.score_skipped) | plan.skips_by_feasible
            if names:
                self._forget(shape, names)

    def _follow_versions(self, shape: Shape, versions: list[Hashable]) -> None:
        if shape.pre_scored:
            pairs = zip(shape.score_versioned, shape.score_versions, versions, strict=True)
            self._forget(shape, {plugin.name for plugin, old, new in pairs if old != new})
        shape.score_versions = versions

    def _forget(self, shape: Shape, names: AbstractSet[str]) -> None:
        """Let PreScore and Score of these plugins be asked again."""
        shape.stale_scores |= names
        for s, (plugin, _) in enumerate(shape.scorers):
            if plugin.name in names:
                shape.evaluation.forget_scorer(s)

    # PreScore

    def _pre_score(self, shape: Shape, pod: PodInfo, names: AbstractSet[str]) -> None:
        started = self._watch.perf()
        feasible = self._cache.select(shape.evaluation.feasible_rows())
        skipped = shape.score_skipped - names
        for plugin in self._pre_scorers:
            if plugin.name in names and _skips(plugin, shape, pod, feasible):
                skipped.add(plugin.name)
        if not shape.pre_scored or skipped != shape.score_skipped:
            self._enable(shape, skipped)
        shape.stale_scores = set()
        shape.pre_scored = True
        self._watch.prepared(PRE_SCORE, None, started)

    def _enable(self, shape: Shape, skipped: set[str]) -> None:
        shape.score_skipped = skipped
        enabled = [plugin.name not in skipped for plugin, _ in shape.scorers]
        shape.custom = [s for s in self._plan.custom_normalizers if enabled[s]]
        shape.normalized = False
        shape.evaluation.enable_scorers(enabled)

    # Score

    def _score(self, shape: Shape, pod: PodInfo) -> None:
        evaluation = shape.evaluation
        scorers, counters, state, asked = shape.scorers, self._counters, shape.state, self._asked
        if self._watch.recording:
            scorers = [(TimedScore(plugin, self._watch), weight) for plugin, weight in scorers]
        s = evaluation.next_scorer(0)
        while s >= 0:
            asked.rows = rows = evaluation.work_rows()
            counters[s].count += len(rows)
            evaluation.store_scores(scorers[s][0].score_nodes(state, pod, asked))
            if s in shape.custom:
                shape.normalized = False
            s = evaluation.next_scorer(s + 1)
        if shape.custom and not shape.normalized:
            self._normalize(shape, pod)
        bad = evaluation.rank()
        if bad >= 0:
            raise _out_of_range(shape.scorers[bad][0].name, evaluation.invalid_score)

    def _normalize(self, shape: Shape, pod: PodInfo) -> None:
        rows = shape.evaluation.feasible_rows()
        nodes = self._cache.select(rows)
        for s in shape.custom:
            plugin, started = shape.scorers[s][0], self._watch.perf()
            scores = plugin.normalize_scores(shape.state, pod, nodes, shape.evaluation.raw_scores(s, rows))
            if self._watch.recording:
                self._watch.executed(plugin.name, NORMALIZE, None, started)
            shape.evaluation.store_normalized(s, rows, scores)
        shape.normalized = True


def _skips(plugin: CountedPreScore, shape: Shape, pod: PodInfo, feasible: Nodes) -> bool:
    """Run the plugin's PreScore; whether its Score is off."""
    status = plugin.pre_score(shape.state, pod, feasible)
    if status is None:
        return False
    if status.code is SKIPS:
        return True
    raise PluginError(Status(status.code, (f'running PreScore plugin "{plugin.name}": {status.message}',), plugin.name), PRE_SCORE)


def _out_of_range(name: str, score: int) -> PluginError:
    text = f'plugin "{name}" returns an invalid score {score}, it should in the range of [0, 100] after normalizing'
    return PluginError(Status(Code.ERROR, (text,), name), SCORE)
