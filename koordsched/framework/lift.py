"""The lift: a plugin that looks at one node at a time becomes one that answers for many (docs/writing-plugins.md "The plain plugin").

The loop over nodes in here is the plugin author's choice; thanks to shapes it runs over changed nodes only, if the plugin signs its pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched.framework.interface import Codes, FilterNodesPlugin, FilterPlugin, ScoreNodesPlugin, ScorePlugin, Scores
from koordsched.framework.status import Status
from koordsched.framework.stopwatch import FILTER, SCORE

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState


class PluginError(Exception):
    """A plugin answered with an error instead of a verdict at this extension point: the cycle fails with this status."""

    def __init__(self, status: Status, point: str) -> None:
        super().__init__(status.message)
        self.status = status
        self.point = point


class LiftedFilter(FilterNodesPlugin):
    """A FilterPlugin as a columnar filter. Refusals are numbered as they appear."""

    def __init__(self, plugin: FilterPlugin) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.reads = plugin.reads
        self._codes: dict[Status, int] = {}
        self._statuses: list[Status] = []

    def sign(self, pod: PodInfo) -> Hashable:
        return self.plugin.sign(pod)

    def version(self, pod: PodInfo) -> Hashable:
        return self.plugin.version(pod)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        codes = np.zeros(len(nodes.rows), np.int32)
        for i, row in enumerate(nodes.rows.tolist()):
            status = self.plugin.filter(state, pod, nodes.info(row))
            if status is not None:
                codes[i] = self._code(status)
        return codes

    def _code(self, status: Status) -> int:
        if not status.rejected:
            raise PluginError(Status(status.code, (f'running "{self.name}" filter plugin: {status.message}',), self.name), FILTER)
        found = self._codes.get(status)
        if found is None:
            self._statuses.append(status)
            found = self._codes[status] = len(self._statuses)
        return found

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self._statuses[code - 1]


class LiftedScore(ScoreNodesPlugin):
    """A ScorePlugin as a columnar scorer."""

    def __init__(self, plugin: ScorePlugin) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.reads = plugin.reads
        self.normalize = plugin.normalize
        self.depends_on_feasible = plugin.depends_on_feasible

    def sign(self, pod: PodInfo) -> Hashable:
        return self.plugin.sign(pod)

    def version(self, pod: PodInfo) -> Hashable:
        return self.plugin.version(pod)

    def score_version(self, pod: PodInfo) -> Hashable:
        return self.plugin.score_version(pod)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        scores = np.zeros(len(nodes.rows), np.int64)
        for i, row in enumerate(nodes.rows.tolist()):
            score = self.plugin.score(state, pod, nodes.info(row))
            if isinstance(score, Status):
                text = f'running Score plugins: plugin "{self.name}" failed with: {score.message}'
                raise PluginError(Status(score.code, (text,), self.name), SCORE)
            scores[i] = score
        return scores

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        return self.plugin.normalize_scores(state, pod, nodes, scores)


def lift_filter(plugin: FilterNodesPlugin | FilterPlugin) -> FilterNodesPlugin:
    return plugin if isinstance(plugin, FilterNodesPlugin) else LiftedFilter(plugin)


def lift_score(plugin: ScoreNodesPlugin | ScorePlugin) -> ScoreNodesPlugin:
    return plugin if isinstance(plugin, ScoreNodesPlugin) else LiftedScore(plugin)
