"""EvaluationPlan: a profile's filters and scorers in running order, with all that can be known before the first pod.

A plugin that looks at one node at a time stands in it as one that answers for many (docs/writing-plugins.md "The plain plugin"). Its loop
over nodes is the plugin author's choice; thanks to shapes it runs over changed nodes only, if the plugin signs its pods.
"""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from koordsched._core.change import NodeChange
from koordsched.config.extension_points import FILTER, SCORE
from koordsched.framework.interface import (
    Codes,
    CreditPlugin,
    FilterNodesPlugin,
    FilterPlugin,
    Normalize,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    RestrictNodesPlugin,
    ScoreNodesPlugin,
    ScorePlugin,
    Scores,
)
from koordsched.framework.row_refusals import StatusCodes
from koordsched.framework.status import PluginError, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState

P = TypeVar("P", bound=Plugin)


class Evaluators(msgspec.Struct, frozen=True):
    """A profile's plugins at the points that a shape's columns come from, each in running order; scorers with their weights."""

    pre_enqueue: list[PreEnqueuePlugin] = []
    pre_filter: list[PreFilterPlugin] = []
    restrict: list[RestrictNodesPlugin] = []
    filter: list[FilterNodesPlugin | FilterPlugin] = []
    pre_score: list[PreScorePlugin] = []
    score: list[tuple[ScoreNodesPlugin | ScorePlugin, int]] = []
    credits: CreditPlugin | None = None


class EvaluationPlan:
    """What `Shapes` runs. A plugin is one object at all its points.

    A filter needs what its PreFilter prepares, and a scorer its PreScore: these run before it even where the configuration leaves the
    plugin out at preFilter or preScore.
    """

    def __init__(self, plugins: Evaluators) -> None:
        self.pre_filters = _distinct([*plugins.pre_filter, *(plugin for plugin in plugins.filter if isinstance(plugin, PreFilterPlugin))])
        self.restricting = plugins.restrict
        self.filters = [plugin if isinstance(plugin, FilterNodesPlugin) else PerNodeFilter(plugin) for plugin in plugins.filter]
        self.pre_scorers = _distinct([*plugins.pre_score, *(plugin for plugin, _ in plugins.score if isinstance(plugin, PreScorePlugin))])
        self.pre_scorer_names = frozenset(plugin.name for plugin in self.pre_scorers)
        self.scorers = [
            (plugin if isinstance(plugin, ScoreNodesPlugin) else PerNodeScore(plugin), weight) for plugin, weight in plugins.score
        ]
        # Plain numbers, since Enum members are slow to read, in arrays that an Evaluation takes as they are.
        self.filter_reads = {plugin.name: int(plugin.reads) for plugin in self.filters}
        self.reading_usage = frozenset([plugin.name for plugin in self.filters if plugin.reads & NodeChange.USAGE])
        self.scorer_reads = array("I", [int(plugin.reads) for plugin, _ in self.scorers])
        self.scorer_modes = array("i", [plugin.normalize.value for plugin, _ in self.scorers])
        self.scorer_modes_of_reservations = array(
            "i", [(plugin.normalize if plugin.normalizes_reservations else Normalize.NONE).value for plugin, _ in self.scorers]
        )
        self.scorer_weights = array("q", [weight for _, weight in self.scorers])
        self.custom_normalizers = [s for s, (plugin, _) in enumerate(self.scorers) if plugin.normalize is Normalize.CUSTOM]
        self.feasible_dependent = [plugin for plugin, _ in self.scorers if plugin.depends_on_feasible]
        choosing: list[Plugin] = [*plugins.pre_filter, *plugins.filter]
        ranking: list[Plugin] = [*plugins.pre_score, *(plugin for plugin, _ in plugins.score)]
        self.skips_by_feasible = {plugin.name for plugin in self.pre_scorers if plugin.skips_by_feasible}
        self.versioned = [plugin for plugin in _distinct(choosing) if _overrides(plugin, "version")]
        self.score_versioned = [
            plugin for plugin in _distinct(ranking) if _overrides(plugin, "version") or _overrides(plugin, "score_version")
        ]
        signers = _distinct([*plugins.pre_enqueue, *choosing, *ranking])
        computing = [plugin for plugin in signers if _overrides(plugin, "sign") or not plugin.signs]
        self._signs = [plugin.sign for plugin in computing]
        self.credits = plugins.credits
        self.owner_of = None if plugins.credits is None else plugins.credits.owner_of
        if self.owner_of is not None:
            self._signs.append(self.owner_of)  # the last part of a shape's key
        self._attributes = _reader([name for plugin in signers if plugin not in computing for name in plugin.signs])

    def by_amounts(self, state: CycleState, pod: PodInfo, skipped: frozenset[str]) -> frozenset[str]:
        """Return the filters that compare a pod's amounts with a row's and do nothing else, and that of the plugin of credits."""
        found = [] if self.credits is None else [self.credits.name]
        asked = (plugin for plugin in self.filters if plugin.name in self.reading_usage and plugin.name not in (*skipped, *found))
        return frozenset((*found, *[plugin.name for plugin in asked if plugin.fit_request(state, pod) is not None]))

    def sign(self, pod: PodInfo) -> tuple[Hashable, ...]:
        """Return all that the plugins read of the pod; UNSIGNABLE is in it when one of them cannot say."""
        return (self._attributes(pod), *[sign(pod) for sign in self._signs])


def _overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)


def _reader(names: Iterable[str]) -> Callable[[PodInfo], Hashable]:
    """Return what reads these attributes, each once, in one call."""
    distinct = dict.fromkeys(names)
    return attrgetter(*distinct) if distinct else _nothing


def _nothing(_pod: PodInfo) -> Hashable:
    return ()


def _distinct(plugins: Iterable[P]) -> list[P]:
    return list({plugin.name: plugin for plugin in plugins}.values())


class PerNodeFilter(FilterNodesPlugin):
    """A FilterPlugin as a columnar filter."""

    def __init__(self, plugin: FilterPlugin) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.reads = plugin.reads
        self._codes = StatusCodes()

    def sign(self, pod: PodInfo) -> Hashable:
        return self.plugin.sign(pod)

    def version(self, pod: PodInfo) -> Hashable:
        return self.plugin.version(pod)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        codes = np.zeros(len(nodes.rows), np.int32)
        for i, row in enumerate(nodes.rows.tolist()):
            status = self.plugin.filter(state, pod, nodes.info(row))
            if status is not None:
                if not status.rejected:
                    raise PluginError(
                        Status(status.code, (f'running "{self.name}" filter plugin: {status.message}',), self.name), FILTER.label
                    )
                codes[i] = self._codes.code_of(status)
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self._codes.status_of(code)


class PerNodeScore(ScoreNodesPlugin):
    """A ScorePlugin as a columnar scorer."""

    def __init__(self, plugin: ScorePlugin) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.reads = plugin.reads
        self.normalize = plugin.normalize
        self.depends_on_feasible = plugin.depends_on_feasible

    def sign(self, pod: PodInfo) -> Hashable:
        return self.plugin.sign(pod)

    def depends_on_feasible_for(self, pod: PodInfo) -> bool:
        return self.plugin.depends_on_feasible_for(pod)

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
                raise PluginError(Status(score.code, (text,), self.name), SCORE.label)
            scores[i] = score
        return scores

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        return self.plugin.normalize_scores(state, pod, nodes, scores)
