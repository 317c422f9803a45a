"""PreFilter and Filter for shapes: prepares a shape once; afterwards asks only about rows that changed and plugins with a new version."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from koordsched.framework.cycle_state import CycleState
from koordsched.framework.prefilter import NodeNamesFilter, run_pre_filter
from koordsched.framework.status import Code, Status
from koordsched.framework.stopwatch import FILTER, PRE_FILTER, Stopwatch
from koordsched.framework.timed import CountedPreFilter, TimedFilter
from koordsched.metrics import CounterChild

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.interface import FilterNodesPlugin
    from koordsched.framework.plan import Plan
    from koordsched.framework.shape import Shape

    TakingPart = tuple[list[FilterNodesPlugin], array[int], list[CounterChild]]
    """Filters that were not skipped, what each reads, and where it counts the nodes it was asked about. Shared: not to be changed."""


class Filtering:
    """Keeps the verdicts of shapes true."""

    def __init__(self, plan: Plan, cache: Cache, watch: Stopwatch) -> None:
        self._plan = plan
        self._cache = cache
        self._watch = watch
        self._pre_filters = [CountedPreFilter(plugin, watch) for plugin in plan.pre_filters]
        self._by_name = {plugin.name: plugin for plugin in self._pre_filters}
        self._counters = {plugin.name: watch.evaluations(plugin.name, FILTER) for plugin in plan.filters}
        self._taking_part: dict[frozenset[str], TakingPart] = {}  # by the names of plugins that skip
        self._asked = cache.nodes()  # what plugins are asked about; its rows are set for each call

    def update(self, shape: Shape, pod: PodInfo) -> bool:
        """Bring verdicts up to date with the node table and the plugins' versions. Whether other rows are feasible than before."""
        if not shape.prepared:
            self._prepare(shape, pod)
        elif shape.versioned:
            self._follow_versions(shape, pod)
        return shape.pre_filtered.refusal is None and self._filter(shape, pod)

    # PreFilter

    def _prepare(self, shape: Shape, pod: PodInfo) -> None:
        shape.state = CycleState()
        shape.versioned = [plugin for plugin in self._plan.versioned if plugin.has_version(pod)]
        shape.score_versioned = [plugin for plugin in self._plan.score_versioned if plugin.has_score_version(pod)]
        shape.versions = [plugin.version(pod) for plugin in shape.versioned]
        shape.diagnosis = None
        shape.pre_scored = False
        started = self._watch.perf()
        shape.pre_filtered = run_pre_filter(self._pre_filters, shape.state, pod, self._cache.nodes())
        self._watch.prepared(PRE_FILTER, shape.pre_filtered.refusal, started)
        shape.prepared = True
        if shape.pre_filtered.refusal is None:
            self._configure(shape)

    def _configure(self, shape: Shape) -> None:
        plan, skipped = self._plan, frozenset(shape.pre_filtered.skipped)
        shape.filters, reads, shape.evaluated = self._taking_part.get(skipped) or self._without(skipped)
        if shape.pre_filtered.node_names is not None:
            shape.filters = [NodeNamesFilter(shape.pre_filtered), *shape.filters]
            reads = array("i", [int(NodeNamesFilter.reads), *reads])
            shape.evaluated = [CounterChild(), *shape.evaluated]
        shape.evaluation.configure(reads, plan.scorer_reads, plan.scorer_modes, plan.scorer_weights)

    def _without(self, skipped: frozenset[str]) -> TakingPart:
        """Work out what is left of the filters once these are skipped, once for all shapes: plugins skip in few combinations."""
        filters = [plugin for plugin in self._plan.filters if plugin.name not in skipped]
        reads = array("i", [self._plan.filter_reads[plugin.name] for plugin in filters])
        found = self._taking_part[skipped] = (filters, reads, [self._counters[plugin.name] for plugin in filters])
        return found

    def _follow_versions(self, shape: Shape, pod: PodInfo) -> None:
        versions = [plugin.version(pod) for plugin in shape.versioned]
        if versions == shape.versions:
            return
        if shape.pre_filtered.refusal is not None:
            self._prepare(shape, pod)
            return
        for plugin, old, new in zip(shape.versioned, shape.versions, versions, strict=True):
            if old != new and not self._ask_again(shape, pod, plugin.name):
                self._prepare(shape, pod)
                return
        shape.versions = versions

    def _ask_again(self, shape: Shape, pod: PodInfo, name: str) -> bool:
        """Run the plugin's PreFilter and forget its filter's answers; False when it plays another part than before in choosing nodes."""
        plugin = self._by_name.get(name)
        if plugin is not None:
            outcome = plugin.pre_filter(shape.state, pod, self._cache.nodes())
            skipped = name in shape.pre_filtered.skipped
            if isinstance(outcome, Status):
                return skipped and outcome.code is Code.SKIP
            if skipped or name in shape.pre_filtered.restricting or (outcome is not None and outcome.node_names is not None):
                return False
        for f, filter_plugin in enumerate(shape.filters):
            if filter_plugin.name == name:
                shape.evaluation.forget_filter(f)
        return True

    # Filter

    def _filter(self, shape: Shape, pod: PodInfo) -> bool:
        evaluation = shape.evaluation
        if evaluation.is_current():
            return False
        evaluation.catch_up()
        filters, evaluated, state, asked = shape.filters, shape.evaluated, shape.state, self._asked
        if self._watch.recording:
            filters = [TimedFilter(plugin, self._watch) for plugin in filters]
        f = evaluation.next_filter(0)
        while f >= 0:
            asked.rows = rows = evaluation.work_rows()
            evaluated[f].count += len(rows)
            evaluation.store_codes(filters[f].filter_nodes(state, pod, asked))
            f = evaluation.next_filter(f + 1)
        evaluation.settle()
        if evaluation.verdict_changed:
            shape.diagnosis = None
        return evaluation.feasible_changed
