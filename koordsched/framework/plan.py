"""Plan: a profile's filters and scorers in running order, lifted, with all that can be known before the first pod."""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from koordsched.framework.interface import (
    FilterNodesPlugin,
    FilterPlugin,
    Normalize,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScoreNodesPlugin,
    ScorePlugin,
)
from koordsched.framework.lift import lift_filter, lift_score

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from koordsched.api.podinfo import PodInfo

P = TypeVar("P", bound=Plugin)


class Evaluators(msgspec.Struct, frozen=True):
    """A profile's plugins at the points that a shape's columns come from, each in running order; scorers with their weights."""

    pre_enqueue: list[PreEnqueuePlugin] = []
    pre_filter: list[PreFilterPlugin] = []
    filter: list[FilterNodesPlugin | FilterPlugin] = []
    pre_score: list[PreScorePlugin] = []
    score: list[tuple[ScoreNodesPlugin | ScorePlugin, int]] = []


class Plan:
    """What `Shapes` runs. A plugin is one object at all its points."""

    def __init__(self, plugins: Evaluators) -> None:
        self.pre_filters = plugins.pre_filter
        self.filters = [lift_filter(plugin) for plugin in plugins.filter]
        self.pre_scorers = plugins.pre_score
        self.pre_scorer_names = frozenset(plugin.name for plugin in plugins.pre_score)
        self.scorers = [(lift_score(plugin), weight) for plugin, weight in plugins.score]
        # Plain numbers, since Enum members are slow to read, in arrays that an Evaluation takes as they are.
        self.filter_reads = {plugin.name: int(plugin.reads) for plugin in self.filters}
        self.scorer_reads = array("i", [int(plugin.reads) for plugin, _ in self.scorers])
        self.scorer_modes = array("i", [plugin.normalize.value for plugin, _ in self.scorers])
        self.scorer_weights = array("q", [weight for _, weight in self.scorers])
        self.custom_normalizers = [s for s, (plugin, _) in enumerate(self.scorers) if plugin.normalize is Normalize.CUSTOM]
        self.feasible_dependent = {plugin.name for plugin, _ in self.scorers if plugin.depends_on_feasible}
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
        self._attributes = _reader([name for plugin in signers if plugin not in computing for name in plugin.signs])

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
