"""Shapes: filter and score columns per class of equal pods, kept exact by asking only about rows that changed (design.md, hot path 3).

Pods whose signatures are equal share a `Shape`. It keeps what PreFilter prepared, each filter's code and each scorer's raw score for
every node, and the totals (`_core.Evaluation`). Before it is used it is brought up to date with the node table's change log, so the
result is that of asking every plugin about every node; a property test holds this (tests/property/test_shapes.py). At most `budget` bytes
are kept, least recently used shapes go first. Called by the scheduling cycle, and by the queue to ask whether waking a pod can help.
Nothing awaits.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from koordsched._core.evaluation import Evaluation
from koordsched._core.scratch import Scratch
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis, Refusal
from koordsched.framework.lift import PluginError
from koordsched.framework.prefilter import NodeNamesFilter, PreFiltered, run_pre_filter
from koordsched.framework.status import Code, Status
from koordsched.framework.stopwatch import FILTER, NORMALIZE, PRE_FILTER, PRE_SCORE, SCORE, Stopwatch, Untold, unwatched
from koordsched.framework.timed import CountedPreFilter, CountedPreScore, TimedFilter, TimedScore
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.interface import FilterNodesPlugin, ScoreNodesPlugin
    from koordsched.framework.plan import Plan
    from koordsched.framework.stopwatch import Counter

log = get_logger(__name__)

DEFAULT_BUDGET = 64 << 20


class ShapeKey:
    """The identity of a shape: one object for equal signatures, so that looking it up hashes no strings."""

    __slots__ = ("__weakref__", "parts", "told")

    def __init__(self, parts: tuple[Hashable, ...]) -> None:
        self.parts = parts
        self.told = ""  # for who tells pods why they wait: what those of this shape were told last, or are being told


class Shape:
    """What is known about one class of equal pods."""

    __slots__ = (
        "diagnosis",
        "evaluated",
        "evaluation",
        "filters",
        "normalized",
        "pre_filtered",
        "pre_scored",
        "prepared",
        "scorers",
        "state",
        "versions",
    )

    def __init__(self, evaluation: Evaluation, scorers: list[tuple[ScoreNodesPlugin, int]]) -> None:
        self.evaluation = evaluation
        self.prepared = False  # PreFilter has run and the evaluation is configured
        self.pre_filtered = PreFiltered()
        self.pre_scored = False
        self.normalized = False  # custom normalisations are true for the feasible rows and their raw scores
        self.filters: list[FilterNodesPlugin] = []
        self.evaluated: list[Counter] = []  # of each filter: how many nodes it was asked about
        self.scorers = scorers
        self.state = CycleState()
        self.versions: list[Hashable] = []
        self.diagnosis: Diagnosis | None = None  # of the last failure, while no verdict has changed since

    @property
    def feasible_count(self) -> int:
        return 0 if self.pre_filtered.refusal is not None else self.evaluation.feasible_count


class Shapes:
    """The shapes of one profile."""

    def __init__(self, plan: Plan, cache: Cache, budget: int = DEFAULT_BUDGET, watch: Stopwatch | None = None) -> None:
        self._plan = plan
        self._watch = watch = watch or unwatched()
        self._perf = watch.perf
        self._pre_filters = [CountedPreFilter(plugin, watch) for plugin in plan.pre_filters]
        self._pre_scorers = [CountedPreScore(plugin, watch) for plugin in plan.pre_scorers]
        self._filtered = {plugin.name: watch.evaluations(plugin.name, FILTER) for plugin in plan.filters}
        self._scored = [watch.evaluations(plugin.name, SCORE) for plugin, _ in plan.scorers]
        self._cache = cache
        self._budget = budget
        self._scratch = Scratch()
        self._asked = cache.nodes()  # what plugins are asked about; its rows are set for each call
        self._shapes: OrderedDict[ShapeKey, Shape] = OrderedDict()
        self._spare: list[Evaluation] = []
        self._keys: WeakValueDictionary[tuple[Hashable, ...], ShapeKey] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._shapes)

    def key(self, pod: PodInfo) -> ShapeKey | None:
        """Return the pod's shape key: the same object for pods that every plugin treats alike; None when a plugin does not sign."""
        parts = self._plan.sign(pod)
        if parts is None:
            return None
        found = self._keys.get(parts)
        if found is None:
            found = self._keys[parts] = ShapeKey(parts)
        return found

    def find(self, pod: PodInfo) -> Shape:
        """Return the pod's shape with PreFilter and Filter answered for the node table as it is now. PluginError when a plugin failed."""
        shape = self._shape(pod)
        try:
            if self._outdated(shape, pod):
                self._prepare(shape, pod)
            if shape.pre_filtered.refusal is None:
                self._filter(shape, pod)
        except BaseException:
            shape.prepared = False  # whatever is half done is done again
            raise
        return shape

    def feasible(self, pod: PodInfo) -> bool:
        """Answer whether some node would pass all filters now, nominated pods aside; yes when a plugin fails, so that an attempt tells."""
        try:
            return self.find(pod).feasible_count > 0
        except Exception:
            log.exception("could not tell whether a waiting pod would fit", pod=pod.key)
            return True

    def unchanged_since_failure(self, pod: PodInfo) -> bool:
        """Answer whether the pod's shape failed and no node's verdict has changed since."""
        shape = self._shapes.get(pod.shape) if isinstance(pod.shape, ShapeKey) else None
        if shape is None or shape.diagnosis is None:
            return False
        try:
            return self.find(pod).diagnosis is not None
        except Exception:
            log.exception("could not tell whether a waiting pod's reasons changed", pod=pod.key)
            return False

    # Which shape, and whether it still holds

    def _shape(self, pod: PodInfo) -> Shape:
        key = pod.shape
        if not isinstance(key, ShapeKey):
            return self._new_shape()  # not signed: a shape of its own, not kept
        shape = self._shapes.get(key)
        if shape is None:
            self._evict()
            shape = self._shapes[key] = self._new_shape()
        else:
            self._shapes.move_to_end(key)
        return shape

    def _new_shape(self) -> Shape:
        evaluation = self._spare.pop() if self._spare else Evaluation(self._cache.table, self._scratch)
        return Shape(evaluation, self._plan.scorers)

    def _evict(self) -> None:
        # Evicted columns are used again: allocating anew costs page faults (bench_shapes.py, "pods that all differ").
        if not self._shapes:
            return
        newest = next(reversed(self._shapes.values()))
        while len(self._shapes) > max(1, self._budget // max(1, newest.evaluation.nbytes())):
            self._spare.append(self._shapes.popitem(last=False)[1].evaluation)

    def _outdated(self, shape: Shape, pod: PodInfo) -> bool:
        if not shape.prepared:
            return True
        if not self._plan.versioned:
            return False
        versions = [plugin.version(pod) for plugin in self._plan.versioned]
        if versions == shape.versions:
            return False
        stale = {plugin.name for plugin, new, old in zip(self._plan.versioned, versions, shape.versions, strict=True) if new != old}
        if stale & self._plan.choosing:
            return True
        shape.versions = versions
        self._score_again(shape, stale)
        return False

    def _score_again(self, shape: Shape, stale: set[str]) -> None:
        shape.pre_scored = shape.pre_scored and not any(plugin.name in stale for plugin in self._plan.pre_scorers)
        for s, (plugin, _) in enumerate(shape.scorers):
            if plugin.name in stale:
                shape.evaluation.forget_scorer(s)

    # PreFilter and Filter

    def _prepare(self, shape: Shape, pod: PodInfo) -> None:
        shape.state = CycleState()
        shape.versions = [plugin.version(pod) for plugin in self._plan.versioned]
        shape.diagnosis = None
        shape.pre_scored = False
        shape.pre_filtered = self._pre_filter(shape, pod)
        shape.prepared = True
        if shape.pre_filtered.refusal is not None:
            return
        plan, skipped = self._plan, shape.pre_filtered.skipped
        shape.filters = [plugin for plugin in plan.filters if plugin.name not in skipped] if skipped else plan.filters
        reads = [plan.filter_reads[plugin.name] for plugin in shape.filters]
        shape.evaluated = [self._filtered[plugin.name] for plugin in shape.filters]
        if shape.pre_filtered.node_names is not None:
            shape.filters = [NodeNamesFilter(shape.pre_filtered), *shape.filters]
            reads.insert(0, int(NodeNamesFilter.reads))
            shape.evaluated.insert(0, Untold())
        shape.evaluation.configure(
            array("i", reads),
            plan.scorer_reads,
            plan.scorer_modes,
            plan.scorer_weights,
        )

    def _pre_filter(self, shape: Shape, pod: PodInfo) -> PreFiltered:
        started = self._perf()
        found = run_pre_filter(self._pre_filters, shape.state, pod, self._cache.nodes())
        self._watch.prepared(PRE_FILTER, found.refusal, started)
        return found

    def _filter(self, shape: Shape, pod: PodInfo) -> None:
        evaluation = shape.evaluation
        if evaluation.is_current():
            return
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
        if evaluation.feasible_changed:
            self._feasible_changed(shape)

    def ask(self, shape: Shape, pod: PodInfo, row: int) -> tuple[int, int] | None:
        """Ask all filters about one row as it is now and keep nothing: (filter, code) of the first refusal. For what-ifs."""
        nodes = self._cache.select(np.array([row], np.int32))
        for f, plugin in enumerate(shape.filters):
            codes = plugin.filter_nodes(shape.state, pod, nodes)
            if codes is not None and codes[0]:
                return f, int(codes[0])
        return None

    # PreScore and Score

    def rank(self, shape: Shape, pod: PodInfo) -> None:
        """Run PreScore and Score, so that the totals of all feasible nodes are up to date. PluginError when a plugin failed."""
        try:
            if not shape.pre_scored:
                self._pre_score(shape, pod)
            self._score(shape, pod)
        except BaseException:
            shape.prepared = False
            raise
        self._watch.ranked = True

    def _pre_score(self, shape: Shape, pod: PodInfo) -> None:
        started = self._perf()
        feasible = self._cache.select(shape.evaluation.feasible_rows())
        skipped = set()
        for plugin in self._pre_scorers:
            status = plugin.pre_score(shape.state, pod, feasible)
            if status is None:
                continue
            if status.code is not Code.SKIP:
                raise PluginError(
                    Status(status.code, (f'running PreScore plugin "{plugin.name}": {status.message}',), plugin.name), PRE_SCORE
                )
            skipped.add(plugin.name)
        shape.evaluation.enable_scorers([plugin.name not in skipped for plugin, _ in shape.scorers])
        shape.pre_scored = True
        self._watch.prepared(PRE_SCORE, None, started)

    def _score(self, shape: Shape, pod: PodInfo) -> None:
        evaluation = shape.evaluation
        scorers, scored, state, asked = shape.scorers, self._scored, shape.state, self._asked
        if self._watch.recording:
            scorers = [(TimedScore(plugin, self._watch), weight) for plugin, weight in scorers]
        s = evaluation.next_scorer(0)
        while s >= 0:
            asked.rows = rows = evaluation.work_rows()
            scored[s].count += len(rows)
            evaluation.store_scores(scorers[s][0].score_nodes(state, pod, asked))
            shape.normalized = False
            s = evaluation.next_scorer(s + 1)
        if self._plan.custom_normalizers and not shape.normalized:
            self._normalize(shape, pod)
        bad = evaluation.rank()
        if bad >= 0:
            name = shape.scorers[bad][0].name
            text = (
                f'plugin "{name}" returns an invalid score {evaluation.invalid_score}, it should in the range of [0, 100] after normalizing'
            )
            raise PluginError(Status(Code.ERROR, (text,), name), SCORE)

    def _normalize(self, shape: Shape, pod: PodInfo) -> None:
        rows = shape.evaluation.feasible_rows()
        nodes = self._cache.select(rows)
        for s in self._plan.custom_normalizers:
            plugin, started = shape.scorers[s][0], self._perf()
            scores = plugin.normalize_scores(shape.state, pod, nodes, shape.evaluation.raw_scores(s, rows))
            if self._watch.recording:
                self._watch.executed(plugin.name, NORMALIZE, None, started)
            shape.evaluation.store_normalized(s, rows, scores)
        shape.normalized = True

    def overrule(self, shape: Shape, rows: list[int]) -> None:
        """Leave these feasible rows out of ranking until `reinstate`."""
        shape.evaluation.overrule(rows)
        self._feasible_changed(shape)

    def reinstate(self, shape: Shape, rows: list[int]) -> None:
        """Undo `overrule`."""
        shape.evaluation.reinstate(rows)
        self._feasible_changed(shape)

    def _feasible_changed(self, shape: Shape) -> None:
        shape.normalized = False
        if self._plan.feasible_dependent:
            self._score_again(shape, self._plan.feasible_dependent)

    # Why not

    def why_not(self, pod: PodInfo) -> Diagnosis | None:
        """Return why no node is feasible now, nominated pods aside; None when one is, or a plugin fails."""
        shape = self._shapes.get(pod.shape) if isinstance(pod.shape, ShapeKey) else None
        if shape is not None and shape.diagnosis is not None and shape.prepared and shape.evaluation.is_current():
            return shape.diagnosis  # the queue asks right after its probe
        try:
            shape = self.find(pod)
            return None if shape.feasible_count else self.diagnose(shape, pod, {})
        except Exception:
            log.exception("could not tell why a waiting pod does not fit", pod=pod.key)
            return None

    def diagnose(self, shape: Shape, pod: PodInfo, overruled: Mapping[int, tuple[int, int]]) -> Diagnosis:
        """Return why no node is feasible. overruled: rows that only nominated pods keep from it, with the filter and code they cause."""
        if shape.diagnosis is not None and not overruled:
            return shape.diagnosis
        total = self._cache.table.live_count
        refusal, restricting = shape.pre_filtered.refusal, shape.pre_filtered.restricting
        if refusal is not None:
            plugins = frozenset(restricting | {refusal.plugin} - {""})
            diagnosis = Diagnosis.of_pre_filter(total, plugins, refusal)
        else:
            diagnosis = self._diagnose_filters(shape, pod, overruled)
        shape.diagnosis = None if overruled else diagnosis
        return diagnosis

    def _diagnose_filters(self, shape: Shape, pod: PodInfo, overruled: Mapping[int, tuple[int, int]]) -> Diagnosis:
        def status(f: int, code: int) -> Status:
            return shape.filters[f].explain(shape.state, pod, code).with_plugin(shape.filters[f].name)

        def status_of(row: int) -> Status | None:
            f, code = overruled.get(row) or shape.evaluation.verdict(row)
            return None if f < 0 else status(f, code)

        refusals = [Refusal(status(f, code), count) for f, code, count in shape.evaluation.histogram()]
        refusals += [Refusal(status(f, code), 1) for f, code in overruled.values()]
        plugins = {refusal.status.plugin for refusal in refusals} - {NodeNamesFilter.name} | shape.pre_filtered.restricting
        return Diagnosis(self._cache.table.live_count, frozenset(plugins), refusals, status_of)
