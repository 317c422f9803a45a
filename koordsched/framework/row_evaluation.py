"""Evaluating some rows of a shape without its columns: filters and scorers are asked about these rows alone.

What a pod costs that is restricted to a few nodes, or that tries a single one, is then in proportion to these nodes. The result is that of
the columns, or of a cluster that has no other nodes; a property test holds this (tests/property/test_shapes.py). Called by `Shapes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched.config.extension_points import PRE_SCORE, SCORE
from koordsched.framework.interface import MAX_NODE_SCORE, Normalize
from koordsched.framework.row_verdicts import RowVerdicts
from koordsched.framework.status import SKIPS, Code, PluginError, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import PreScorePlugin, ScoreNodesPlugin, Scores
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.shape import Shape
    from koordsched.framework.timings import CycleTimings
    from koordsched.metrics import CounterChild


class RowEvaluator:
    """Asks the plugins of one profile about rows."""

    def __init__(
        self,
        cache: Cache,
        timings: CycleTimings,
        pre_scorers: Sequence[tuple[PreScorePlugin, CounterChild]],
        score_counters: Sequence[CounterChild],
    ) -> None:
        self._cache = cache
        self._timings = timings
        self._pre_scorers = pre_scorers
        self._score_counters = score_counters

    def verdicts(self, shape: Shape, pod: PodInfo, rows: Rows) -> RowVerdicts:
        """Ask the filters of a pre-filtered shape about these rows, ascending, each only about those that the earlier ones let pass."""
        state, alive = shape.state, rows
        nodes = self._cache.select(rows)
        filters, codes = np.full(len(rows), -1, np.int32), np.zeros(len(rows), np.int32)
        places: NDArray[np.intp] | None = None  # of `alive` in rows; None: all of them
        for f, plugin in enumerate(shape.filters):
            if not len(alive):
                break
            shape.evaluated[f].count += len(alive)
            nodes.rows = alive
            if self._timings.recording:
                answer = self._timings.timed_filter(plugin, state, pod, nodes)
            else:
                answer = plugin.filter_nodes(state, pod, nodes)
            if answer is None:
                continue
            if len(answer) != len(alive):
                raise ValueError(f"{len(answer)} answers for {len(alive)} rows")
            refused = answer.nonzero()[0]
            if not len(refused):
                continue
            where = refused if places is None else places[refused]
            filters[where] = f
            codes[where] = answer[refused]
            passing = (answer == 0).nonzero()[0]
            places = passing if places is None else places[passing]
            alive = rows[places]
        return RowVerdicts(rows, filters, codes)

    def totals(self, shape: Shape, pod: PodInfo, rows: Rows) -> tuple[CycleState, NDArray[np.int64]]:
        """Return the totals of these rows, all feasible, as if no other node was; with the state that PreScore wrote to."""
        state, scores = self.breakdown(shape, pod, rows)
        totals = np.zeros(len(rows), np.int64)
        for _, weighted in scores:
            totals += weighted
        return state, totals

    def breakdown(self, shape: Shape, pod: PodInfo, rows: Rows) -> tuple[CycleState, list[tuple[str, Scores]]]:
        """Return the same by plugin: its scores, normalised and weighted."""
        timings = self._timings
        started = timings.perf()
        state, nodes = shape.state.clone(), self._cache.select(rows)
        skipped = self._pre_score(state, pod, nodes)
        timings.prepared(PRE_SCORE.label, None, started)
        found = []
        for (plugin, weight), counter in zip(shape.scorers, self._score_counters, strict=True):
            if plugin.name in skipped:
                continue
            counter.count += len(rows)
            if timings.recording:
                scores = timings.timed(plugin.name, SCORE.label, plugin.score_nodes)(state, pod, nodes)
            else:
                scores = plugin.score_nodes(state, pod, nodes)
            scores = normalized(plugin, state, pod, nodes, np.zeros(len(rows), np.int64) if scores is None else scores)
            found.append((plugin.name, weight * checked(plugin, scores)))
        timings.scored = True
        return state, found

    def _pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> set[str]:
        """Run PreScore of all plugins; return those whose Score is off."""
        skipped = set()
        for plugin, evaluations in self._pre_scorers:
            if self._timings.recording:
                status = self._timings.timed(plugin.name, PRE_SCORE.label, plugin.pre_score)(state, pod, nodes)
            else:
                status = plugin.pre_score(state, pod, nodes)
            if status is not None and status.code is SKIPS:
                skipped.add(plugin.name)
                continue
            evaluations.count += 1
            if status is not None:
                raise failed_pre_score(plugin.name, status)
        return skipped


def normalized(plugin: ScoreNodesPlugin, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
    """Return raw scores as 0..100 over these nodes alone."""
    if plugin.normalize is Normalize.NONE or (pod.reservation is not None and not plugin.normalizes_reservations):
        return scores
    if plugin.normalize is Normalize.CUSTOM:
        return plugin.normalize_scores(state, pod, nodes, scores)
    largest = scores.max()
    scores = MAX_NODE_SCORE * scores // largest if largest > 0 else np.zeros_like(scores)
    return MAX_NODE_SCORE - scores if plugin.normalize is Normalize.DEFAULT_REVERSE else scores


def checked(plugin: ScoreNodesPlugin, scores: Scores) -> Scores:
    """Return normalised scores; PluginError if one is out of range."""
    if scores.min() < 0 or scores.max() > MAX_NODE_SCORE:
        raise invalid_score(plugin.name, int(scores[(scores < 0) | (scores > MAX_NODE_SCORE)][0]))
    return scores


def failed_pre_score(plugin: str, status: Status) -> PluginError:
    text = f'running PreScore plugin "{plugin}": {status.message}'
    return PluginError(Status(status.code, (text,), plugin), PRE_SCORE.label)


def invalid_score(plugin: str, score: int) -> PluginError:
    text = f'plugin "{plugin}" returns an invalid score {score}, it should in the range of [0, 100] after normalizing'
    return PluginError(Status(Code.ERROR, (text,), plugin), SCORE.label)
