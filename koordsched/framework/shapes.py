"""Shapes: filter and score columns for each class of equal pods, kept exact by asking only about rows that changed.

What they are for: docs/internals.md "The hot path".

Pods whose signatures are equal share a `Shape`. It keeps what PreFilter prepared, each filter's code and each scorer's raw score for every
node, and the totals (`_core.Evaluation`). `Shapes` has a method for each extension point, in the order of a cycle:

    shape = shapes.pre_filter(pod)   PreFilter is answered for the pod
    shapes.filter(shape, pod)        every node's verdict is up to date; the number of feasible nodes
    shapes.pre_score(shape, pod)     PreScore is answered for the feasible nodes
    shapes.score(shape, pod)         the totals of the feasible nodes are up to date

A pod that is restricted to some nodes (`shape.restriction`) goes another way, whose cost is in proportion to these nodes:

    shapes.filter_restricted(shape, pod)   the verdicts of its rows
    shapes.totals(shape, pod, rows)        the totals of those among them that are feasible

Each brings its part up to date with the node table's change log and the versions that plugins name, so the result is that of asking every
plugin about every node; a property test holds this (tests/property/test_shapes.py). A plugin that fails raises, PluginError if it answers
with an error, and the shape is then prepared anew for its next pod. Called by the scheduling cycle and by the queue's probes; nothing
awaits.
"""

from __future__ import annotations

from array import array
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from koordsched._core.evaluation import Evaluation
from koordsched._core.scratch import Scratch
from koordsched.config.extension_points import FILTER, PRE_FILTER, PRE_SCORE, SCORE
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import UNSIGNABLE
from koordsched.framework.kept_shapes import DEFAULT_BUDGET, KeptShapes
from koordsched.framework.pre_filter import run_pre_filter
from koordsched.framework.restriction import NO_KEYS, Restrictions
from koordsched.framework.row_evaluation import RowEvaluator, checked, failed_pre_score, invalid_score, normalized
from koordsched.framework.row_refusals import NO_REFUSALS, Rows
from koordsched.framework.row_verdicts import RowVerdicts
from koordsched.framework.shape import RestrictedShapeKey, Shape, ShapeKey, columns_key, signed_owner
from koordsched.framework.shape_diagnoses import Diagnoses
from koordsched.framework.shape_simulation import AS_THEY_ARE, ShapeSimulation, SimulatedFilters
from koordsched.framework.status import SKIPS, PluginError, Status
from koordsched.framework.timings import NORMALIZE, CycleTimings, discarded_timings
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Hashable
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.credits import OwnerView
    from koordsched.framework.evaluation_plan import EvaluationPlan
    from koordsched.framework.interface import CreditPlugin, FilterNodesPlugin
    from koordsched.framework.restriction import Restriction, RestrictionKeys
    from koordsched.framework.row_verdicts import FilterVerdicts
    from koordsched.framework.simulation import NodeSimulation
    from koordsched.metrics import CounterChild

    ActiveFilters = tuple[list[FilterNodesPlugin], array[int], list[CounterChild]]
    """Filters that are not skipped, what each reads, and where each counts the nodes it is asked about. Shared: not to be changed."""

__all__ = ["Shape", "ShapeKey", "Shapes"]

MOST_SHARED_ROWS = 8  # of an owner's placeholders: with more of them its own columns are less work than asking about these rows each time
FEW_ROWS = 16  # of an owner's placeholders: to hide all of them is less work than to look which rows are asked about
NO_NAMES: frozenset[str] = frozenset()

log = get_logger(__name__)


class Shapes:
    """The shapes of one profile. budget: about how many bytes they may take."""

    def __init__(self, plan: EvaluationPlan, cache: Cache, budget: int = DEFAULT_BUDGET, timings: CycleTimings | None = None) -> None:
        self.have_owners = plan.owner_of is not None  # whether any pod may have credits
        self._plan = plan
        self._cache = cache
        self._timings = timings = timings or discarded_timings()
        self._pre_filters = {plugin.name: (plugin, timings.evaluations(plugin.name, PRE_FILTER.label)) for plugin in plan.pre_filters}
        self._filter_counters = {plugin.name: timings.evaluations(plugin.name, FILTER.label) for plugin in plan.filters}
        self._active_filters: dict[frozenset[str], ActiveFilters] = {}  # by the names of plugins that skip
        self._pre_scorers = [(plugin, timings.evaluations(plugin.name, PRE_SCORE.label)) for plugin in plan.pre_scorers]
        self._score_counters = [timings.evaluations(plugin.name, SCORE.label) for plugin, _ in plan.scorers]
        self._asked = cache.nodes()  # what filters and scorers are asked about; its rows are set for each call
        self._simulated_filters = SimulatedFilters(plan, cache)
        self.diagnoses = Diagnoses(cache, self.simulation)
        self._scratch = Scratch()
        self._kept = KeptShapes(budget)
        cache.columns.call_when_renewed(self._kept.clear)
        self._keys: WeakValueDictionary[tuple[Hashable, ...], ShapeKey] = WeakValueDictionary()
        self._restrictions = Restrictions(plan.restricting, cache, timings)
        self._restricts = bool(plan.restricting)
        self._restricted_keys: WeakValueDictionary[tuple[ShapeKey, Hashable], RestrictedShapeKey] = WeakValueDictionary()
        self._rows = RowEvaluator(cache, timings, self._pre_scorers, self._score_counters)

    def __len__(self) -> int:
        return len(self._kept)

    def apart(self) -> Shapes:
        """Return others of the same plugins for questions beside decisions: no columns are shared, nothing is counted or timed."""
        return Shapes(self._plan, self._cache)

    def put_back(self, shape: Shape) -> None:
        """Let the columns of a shape without a key be used again: it is not to be asked about any more."""
        self._kept.put_back(shape.evaluation)

    def key(self, pod: PodInfo) -> ShapeKey | None:
        """Return the pod's shape key: the same object for pods that every plugin treats alike; None when a plugin does not sign."""
        parts = self._plan.sign(pod)
        found = self._keys.get(parts)
        if found is None:
            if UNSIGNABLE in parts:
                return None
            found = self._keys[parts] = ShapeKey(parts, is_large=pod.names_much)
            if self.have_owners and parts[-1] is not None:
                self._share_columns(found)
        if self._restricts:
            keys = self._restrictions.keys(pod)
            if keys is not None:
                return self._restricted_key(found, keys)
        return found

    def _share_columns(self, key: ShapeKey) -> None:
        """Give the key that of columns for all owners that are alike (`CreditPlugin.alike`), for pods that are equal otherwise."""
        plugin, owner = self._plan.credits, key.parts[-1]
        assert plugin is not None
        alike = plugin.alike(owner)
        if alike is None:
            return
        parts = (*key.parts[:-1], alike)
        found = self._keys.get(parts)
        if found is None:
            found = self._keys[parts] = ShapeKey(parts)
        if plugin.names_placeholder(owner):
            key.without_amounts = found
        else:
            key.shared = found

    def _restricted_key(self, columns: ShapeKey, keys: RestrictionKeys | Status) -> RestrictedShapeKey:
        found = self._restricted_keys.get((columns, keys))
        if found is None:
            found = self._restricted_keys[columns, keys] = RestrictedShapeKey(columns, keys)
        return found

    def view(self, pod: PodInfo) -> AbstractContextManager[None]:
        """Return what shows the nodes as the pod's owner of credits sees them. The shape of its pods is to be used in there alone."""
        owner = self.owner(pod)
        return AS_THEY_ARE if owner is None else self._cache.view(owner)

    def search_view(self, pod: PodInfo) -> AbstractContextManager[None]:
        """Return the same to find a node in, by the shape's columns alone: where few rows have to be asked about, no others are hidden."""
        owner, key = self.owner(pod), pod.shape
        view = None if owner is None else self._cache.credits.of(owner)
        if view is None or self._cache.credits.shown is not None or len(view.row_numbers) < FEW_ROWS:
            return self.view(pod)
        shape = self._kept.peek(key) if key.__class__ is ShapeKey else None
        if shape is None or not shape.prepared or shape.credits != view.version or not self._reads_rows_alone(shape, pod):
            return self.view(pod)
        pre_filtered = shape.pre_filtered
        return self.view(pod) if pre_filtered.refusal is not None or pre_filtered.node_names is not None else view.by_rows()

    def _reads_rows_alone(self, shape: Shape, pod: PodInfo) -> bool:
        """Answer whether what plugins say of a row depends on no pod of another one, versions included."""
        return all(plugin.reads_rows_alone(pod) for plugin in shape.versioned) and all(
            plugin.versions_of_nodes or plugin.score_version(pod) is None for plugin in shape.score_versioned
        )

    def show_all(self) -> None:
        """Let all rows be as the owner sees them whose view is shown, because others are read than those of the columns in question."""
        shown = self._cache.credits.shown
        if shown is not None and shown.is_partial:
            shown.show_all()

    def _partial_view(self) -> OwnerView | None:
        """Return the view that shows those rows alone that it is asked for; None: it shows all, or there is none."""
        shown = self._cache.credits.shown
        return shown if shown is not None and shown.is_partial else None

    def owner(self, pod: PodInfo) -> Hashable | None:
        """Return the pod's owner of credits as the pod was signed. Of a pod without a key it has to be held while its view is used."""
        owner_of = self._plan.owner_of
        if owner_of is None:
            return None
        key = columns_key(pod.shape)
        return owner_of(pod) if key is None else signed_owner(key)

    # PreFilter

    def pre_filter(self, pod: PodInfo) -> Shape:
        """Return the pod's shape with PreFilter answered: for the first pod of the shape, and again by plugins that have a new version.

        `shape.restriction` is the pod's then. PluginError.
        """
        key, keys = pod.shape, NO_KEYS
        if key.__class__ is not ShapeKey:  # it is restricted apart from its shape, or has none
            key, keys = self._keys_apart(pod)
        shape = None if key is None else self._kept.use(key)
        if shape is None:
            shape = self._new_shape(key)
        self._answer_pre_filter(shape, pod)
        if keys or shape.pre_filtered.node_names is not None:
            self._restrict(shape, pod, keys)
        else:
            shape.restriction = None
        return shape

    def named_row(self, pod: PodInfo) -> tuple[int, CycleState] | None:
        """Return the row of the placeholder that the pod names, and the state that Reserve reads; None: `pre_filter` has to find out.

        Nothing is hidden for that. Of a placeholder that holds amounts alone the plugin of credits compares these; what other filters say
        of the row is in columns that all pods share which name a placeholder and are equal otherwise. To be called outside of views.
        PluginError.
        """
        key, plugin = pod.shape, self._plan.credits
        if key.__class__ is not ShapeKey or key.without_amounts is None or plugin is None:
            return None
        owner, cache = key.parts[-1], self._cache
        placeholder = plugin.named_placeholder(owner)
        row = None if placeholder is None else cache.row_of(placeholder)
        if placeholder is None or row is None or not cache.holds_amounts_alone(placeholder):
            return None
        shape = self._kept.use(key.without_amounts)
        if shape is None:
            shape = self._new_shape(key.without_amounts)
            shape.without_amounts = True
        self._answer_pre_filter(shape, pod)
        if not shape.decides or shape.pre_filtered.refusal is not None or shape.pre_filtered.node_names is not None:
            return None
        state = shape.state.clone()
        if not plugin.fits_named(state, pod, owner, row):
            return None
        self.filter(shape, pod)
        return (row, state) if shape.evaluation.is_feasible(row) else None

    def shared(self, pod: PodInfo) -> Shape | None:
        """Return columns that the pod's owner of credits shares with others, with PreFilter answered; None: the pod has to have its own.

        They are what `pre_filter` has until another pod is looked at, so they serve to find a node: what is to be asked later of a pod that
        finds none is asked of columns of its own (`share_no_more`). To be called within the pod's view. PluginError.
        """
        key, view, plugin = pod.shape, self._cache.credits.shown, self._plan.credits
        if key.__class__ is not ShapeKey or key.shared is None or view is None:
            return None
        if len(view.row_numbers) > MOST_SHARED_ROWS or not view.counts_alone or plugin is None or not plugin.may_share(key.parts[-1]):
            return None
        shape = self._kept.use(key.shared)
        if shape is None:
            shape = self._new_shape(key.shared)
            shape.shared = True
        try:
            if shape.prepared:
                alike = self._change_owner(shape, key.parts[-1], pod, view, plugin)
            else:
                self._prepare(shape, pod)
                shape.shown_rows, shape.shown = view.row_numbers, view.stamp
                alike = shape.pre_filtered.refusal is None and all(plugin.versions_of_nodes for plugin in shape.versioned)
            if not alike or not all(each.versions_of_nodes or each.score_version(pod) is None for each in shape.score_versioned):
                shape.prepared = False
                self.share_no_more(pod)
                return None
            shape.restriction = None
            if shape.pre_filtered.node_names is not None:
                self._restrict(shape, pod, NO_KEYS)
        except BaseException:
            shape.prepared = False
            raise
        return shape

    def share_no_more(self, pod: PodInfo) -> None:
        """Let pods that are equal to this one have columns of their own."""
        assert isinstance(pod.shape, ShapeKey)
        pod.shape.shared = None

    def _change_owner(self, shape: Shape, owner: Hashable, pod: PodInfo, view: OwnerView, plugin: CreditPlugin) -> bool:
        """Let shared columns be those of another owner, or of another state of its placeholders; False when they cannot be."""
        if shape.owner is owner and shape.shown == view.stamp:
            return True
        evaluation = shape.evaluation
        evaluation.show_other(shape.shown_rows)
        evaluation.show_other(view.row_numbers)
        shape.shown_rows, shape.shown = view.row_numbers, view.stamp
        shape.owner, shape.credits = owner, view.version
        shape.state = shape.state.clone()
        found = self._pre_filters.get(plugin.name)
        if found is None:
            return True
        asked, evaluations = found
        outcome = asked.pre_filter(shape.state, pod, self._cache.nodes())
        evaluations.count += 1
        if isinstance(outcome, Status):
            return False
        shape.pre_filtered.restrict(plugin.name, outcome)
        return True

    def _keys_apart(self, pod: PodInfo) -> tuple[ShapeKey | None, RestrictionKeys]:
        """Return the key of the pod's shape, None if it has none, and what restrictions apart from the shape depend on. PluginError."""
        key = pod.shape
        if isinstance(key, RestrictedShapeKey):
            if key.error is not None:
                raise PluginError(key.error, PRE_FILTER.label)
            return key.columns, key.keys
        keys = self._restrictions.keys(pod) if self._restricts else None
        if isinstance(keys, Status):
            raise PluginError(keys, PRE_FILTER.label)
        return None, keys or NO_KEYS

    def _restrict(self, shape: Shape, pod: PodInfo, keys: RestrictionKeys) -> None:
        """Find out to which nodes PreFilter of the shape and restricting plugins restrict the pod. What was found is kept."""
        shape.restriction = None
        pre_filtered, key = shape.pre_filtered, pod.shape
        if pre_filtered.refusal is not None:
            return
        apart = key if isinstance(key, RestrictedShapeKey) else None
        known = apart.restriction if apart is not None else None if keys else shape.named
        if known is None or not self._restrictions.is_current(known, pod, keys, pre_filtered):
            known = self._restrictions.find(pod, keys, pre_filtered)
            if apart is not None:
                apart.restriction = known
            elif not keys:
                shape.named = known
        shape.restriction = known if known.plugins else None

    def versions(self, pod: PodInfo) -> object:
        """Return what filters' answers about the pod depend on besides the node table: something else as soon as any may be another."""
        key, owner = pod.shape, self.owner(pod)
        if key is None:
            return object()  # a plugin cannot say what it reads of the pod
        versions = [plugin.version(pod) for plugin in self._plan.versioned if plugin.has_version(pod)]
        if isinstance(key, RestrictedShapeKey):
            versions += self._restrictions.versions(pod, key.keys)
        return owner, self._cache.credits.version(owner), versions

    @property
    def pre_filter_names(self) -> list[str]:
        """Return the names of the PreFilter plugins in the order in which they run."""
        return list(self._pre_filters)

    def pre_filter_refusal(self, pod: PodInfo, plugins: int | None = None) -> Status | None:
        """Return the refusal of the pod's shape by the first so many PreFilter plugins (None: by all). No shape is made or changed."""
        key = columns_key(pod.shape)
        shape = None if key is None else self._kept.peek(key)
        asked = islice(self._pre_filters.values(), plugins)
        with self.view(pod):
            if shape is not None and shape.prepared and shape.pre_filtered.refusal is None:
                of_now = shape.owner is None or shape.credits == self._cache.credits.version(shape.owner)
                if of_now and shape.versions == [plugin.version(pod) for plugin in shape.versioned]:
                    return None
            return run_pre_filter(asked, CycleState(), pod, self._cache.nodes(), self._timings).refusal

    def _new_shape(self, key: ShapeKey | None) -> Shape:
        """Return a shape that nothing is known of; it is kept if it has a key."""
        if key is not None:
            self._kept.make_room()
        shape = Shape(self._kept.spare() or Evaluation(self._cache.table, self._scratch), self._plan.scorers)
        if key is not None:
            self._kept.add(key, shape)
        return shape

    def _answer_pre_filter(self, shape: Shape, pod: PodInfo) -> None:
        """Run PreFilter: of all plugins for the shape's first pod, or when its owner's placeholders changed; else where versions did."""
        try:
            if not shape.prepared or (shape.owner is not None and shape.credits != self._cache.credits.version(shape.owner)):
                self._prepare(shape, pod)
            elif shape.versioned:
                versions = [plugin.version(pod) for plugin in shape.versioned]
                if versions != shape.versions:
                    self._follow_versions(shape, pod, versions)
        except BaseException:
            shape.prepared = False  # whatever is half done is done again
            raise

    def _prepare(self, shape: Shape, pod: PodInfo) -> None:
        """Run PreFilter of all plugins and forget all verdicts and scores."""
        self.show_all()
        plan, pre_filters = self._plan, list(self._pre_filters.values())
        if shape.without_amounts:
            shape.owner, shape.credits = None, 0
            pre_filters = [entry for entry in pre_filters if plan.credits is None or entry[0].name != plan.credits.name]
        else:
            shape.owner = self.owner(pod)
            shape.credits = self._cache.credits.version(shape.owner)
        shape.state = CycleState()
        shape.versioned = [plugin for plugin in plan.versioned if plugin.has_version(pod)]
        shape.score_versioned = [plugin for plugin in plan.score_versioned if plugin.has_score_version(pod)]
        shape.versions = [plugin.version(pod) for plugin in shape.versioned]
        dependent = plan.feasible_dependent
        shape.feasible_dependent = {plugin.name for plugin in dependent if plugin.depends_on_feasible_for(pod)} if dependent else NO_NAMES
        shape.diagnosis = shape.restricted = None
        shape.apart = 0
        shape.pre_scored = False
        started = self._timings.perf()
        shape.pre_filtered = run_pre_filter(pre_filters, shape.state, pod, self._cache.nodes(), self._timings)
        self._timings.prepared(PRE_FILTER.label, shape.pre_filtered.refusal, started)
        shape.prepared = True
        if shape.pre_filtered.refusal is not None:
            return
        skipped = frozenset(shape.pre_filtered.skipped)
        if shape.without_amounts:
            skipped |= plan.by_amounts(shape.state, pod, skipped)
            versioned = {plugin.name for plugin in shape.versioned if not plugin.versions_of_nodes}
            others = plan.reading_usage - skipped
            shape.decides = not others and versioned <= skipped
        shape.filters, reads, shape.evaluated = self._active_filters.get(skipped) or self._filters_without(skipped)
        modes = plan.scorer_modes if pod.reservation is None else plan.scorer_modes_of_reservations
        shape.evaluation.configure(reads, plan.scorer_reads, modes, plan.scorer_weights)

    def _filters_without(self, skipped: frozenset[str]) -> ActiveFilters:
        """Work out which filters are left once these are skipped, once for all shapes: plugins skip in few combinations."""
        filters = [plugin for plugin in self._plan.filters if plugin.name not in skipped]
        reads = array("I", [self._plan.filter_reads[plugin.name] for plugin in filters])
        found = self._active_filters[skipped] = (filters, reads, [self._filter_counters[plugin.name] for plugin in filters])
        return found

    def _follow_versions(self, shape: Shape, pod: PodInfo, versions: list[Hashable]) -> None:
        """Run PreFilter of the plugins that have a new version, or of all plugins if that changes which filters run."""
        self.show_all()
        if shape.pre_filtered.refusal is not None:
            self._prepare(shape, pod)
            return
        for plugin, old, new in zip(shape.versioned, shape.versions, versions, strict=True):
            if old != new and not self._pre_filter_again(shape, pod, plugin.name):
                self._prepare(shape, pod)
                return
        shape.versions = versions

    def _pre_filter_again(self, shape: Shape, pod: PodInfo, name: str) -> bool:
        """Run the plugin's PreFilter and forget its filter's answers; False when it refuses, or skips otherwise, or leaves no node."""
        found = self._pre_filters.get(name)
        if found is not None:
            plugin, evaluations = found
            timed = self._timings.recording
            pre_filter = self._timings.timed(name, PRE_FILTER.label, plugin.pre_filter) if timed else plugin.pre_filter
            outcome = pre_filter(shape.state, pod, self._cache.nodes())
            skips = isinstance(outcome, Status) and outcome.code is SKIPS
            if not skips:
                evaluations.count += 1
            skipped = name in shape.pre_filtered.skipped
            if isinstance(outcome, Status):
                return skipped and skips
            if skipped:
                return False
            shape.pre_filtered.restrict(name, outcome)
            if shape.pre_filtered.node_names is not None and not shape.pre_filtered.node_names:
                return False
        for f, filter_plugin in enumerate(shape.filters):
            if filter_plugin.name == name:
                shape.evaluation.forget_filter(f)
        return True

    # Filter

    def filter(self, shape: Shape, pod: PodInfo) -> int:
        """Ask the filters about the rows that changed since the shape's last pod, unless PreFilter refused the pod.

        Return how many nodes are feasible.
        """
        evaluation = shape.evaluation
        if shape.pre_filtered.refusal is not None:
            if shape.diagnosis is not None and shape.diagnosis.total_nodes != self._cache.table.live_count:
                shape.diagnosis = None  # its text counts the nodes
            return 0
        try:
            f = evaluation.first_filter()
            if f >= 0:
                filters, evaluated, state, asked = shape.filters, shape.evaluated, shape.state, self._asked
                timed, partial = self._timings.recording, self._partial_view()
                while f >= 0:
                    asked.rows = rows = evaluation.work_rows()
                    evaluated[f].count += len(rows)
                    if partial is not None:
                        partial.show_rows(rows)
                    plugin = filters[f]
                    codes = self._timings.timed_filter(plugin, state, pod, asked) if timed else plugin.filter_nodes(state, pod, asked)
                    f = evaluation.store_codes(codes)
            if evaluation.verdict_changed:
                shape.diagnosis = None
                if evaluation.feasible_changed:
                    self._feasible_changed(shape)
            return evaluation.feasible_count
        except BaseException:
            shape.prepared = False
            raise

    def filter_restricted(self, shape: Shape, pod: PodInfo, restriction: Restriction) -> RowVerdicts:
        """Return what the filters say of the rows of a restriction of the pod, none if it refuses the pod as a whole.

        The filters are asked about these rows alone until that would have been as much work as bringing the columns up to date; shared
        columns are kept up to date.
        """
        rows, evaluation = restriction.rows, shape.evaluation
        try:
            if not shape.shared and shape.apart + len(rows) <= evaluation.behind():
                shape.apart += len(rows)
                return self._rows.verdicts(shape, pod, rows)
            self.filter(shape, pod)
            shape.apart = 0
            return RowVerdicts(rows, *evaluation.verdicts_of(rows))
        except BaseException:
            shape.prepared = False
            raise

    def filter_row(self, shape: Shape, pod: PodInfo, row: int) -> bool:
        """Answer whether the filters let a row pass, without its columns and whatever the pod is restricted to."""
        try:
            return bool(len(self._rows.verdicts(shape, pod, np.array([row], np.int32)).feasible))
        except BaseException:
            shape.prepared = False
            raise

    def overrule(self, shape: Shape, rows: Rows) -> None:
        """Leave these feasible rows out of scoring until `reinstate`."""
        shape.evaluation.overrule(rows)
        self._feasible_changed(shape)

    def reinstate(self, shape: Shape, rows: Rows) -> None:
        """Undo `overrule`."""
        shape.evaluation.reinstate(rows)
        self._feasible_changed(shape)

    def _feasible_changed(self, shape: Shape) -> None:
        """Forget what depends on which nodes are feasible."""
        shape.normalized = False
        if (shape.feasible_dependent or self._plan.skips_by_feasible) and shape.pre_scored:
            names = (shape.feasible_dependent - shape.score_skipped) | self._plan.skips_by_feasible
            if names:
                _forget_scores(shape, names)

    # PreScore

    def pre_score(self, shape: Shape, pod: PodInfo) -> None:
        """Run PreScore for the feasible nodes: of all plugins for the first pod, then of plugins that have a new version.

        Score versions are compared here and not in `pre_filter`: a waiting pod's probe needs no scores.
        """
        try:
            if shape.score_versioned:
                versions = [plugin.score_version(pod) for plugin in shape.score_versioned]
                if versions != shape.score_versions:
                    if shape.pre_scored:
                        pairs = zip(shape.score_versioned, shape.score_versions, versions, strict=True)
                        _forget_scores(shape, {plugin.name for plugin, old, new in pairs if old != new})
                    shape.score_versions = versions
            if not shape.pre_scored:
                self._run_pre_score(shape, pod, self._plan.pre_scorer_names)
            elif shape.stale_scores:
                self._run_pre_score(shape, pod, shape.stale_scores)
        except BaseException:
            shape.prepared = False
            raise

    def _run_pre_score(self, shape: Shape, pod: PodInfo, names: AbstractSet[str]) -> None:
        self.show_all()
        started = self._timings.perf()
        feasible = self._cache.select(shape.evaluation.feasible_rows())
        skipped = shape.score_skipped - names
        for plugin, evaluations in self._pre_scorers:
            name = plugin.name
            if name not in names:
                continue
            if self._timings.recording:
                status = self._timings.timed(name, PRE_SCORE.label, plugin.pre_score)(shape.state, pod, feasible)
            else:
                status = plugin.pre_score(shape.state, pod, feasible)
            if status is not None and status.code is SKIPS:
                skipped.add(name)
                continue
            evaluations.count += 1
            if status is not None:
                raise failed_pre_score(name, status)
        if not shape.pre_scored or skipped != shape.score_skipped:
            shape.score_skipped = skipped
            enabled = [plugin.name not in skipped for plugin, _ in shape.scorers]
            shape.custom = [s for s in self._plan.custom_normalizers if enabled[s]]
            shape.normalized = False
            shape.evaluation.enable_scorers(enabled)
        shape.stale_scores = set()
        shape.pre_scored = True
        self._timings.prepared(PRE_SCORE.label, None, started)

    # Score

    def score(self, shape: Shape, pod: PodInfo) -> None:
        """Ask the scorers about feasible rows that changed since the shape was last scored, normalise, and bring the totals up to date."""
        try:
            evaluation = shape.evaluation
            scorers, counters, state, asked = shape.scorers, self._score_counters, shape.state, self._asked
            timings, timed, partial = self._timings, self._timings.recording, self._partial_view()
            s = evaluation.first_scorer()
            while s >= 0:
                asked.rows = rows = evaluation.work_rows()
                counters[s].count += len(rows)
                if partial is not None:
                    partial.show_rows(rows)
                plugin = scorers[s][0]
                if timed:
                    scores = timings.timed(plugin.name, SCORE.label, plugin.score_nodes)(state, pod, asked)
                else:
                    scores = plugin.score_nodes(state, pod, asked)
                if s in shape.custom:
                    shape.normalized = False
                s = evaluation.store_scores(scores)
            if shape.custom and not shape.normalized:
                self._normalize(shape, pod)
            bad = evaluation.rank()
            if bad >= 0:
                raise invalid_score(shape.scorers[bad][0].name, evaluation.invalid_score)
        except BaseException:
            shape.prepared = False
            raise
        self._timings.scored = True

    def totals(self, shape: Shape, pod: PodInfo, rows: Rows) -> tuple[CycleState, NDArray[np.int64]]:
        """Return the totals of these feasible rows as if no other node was feasible, and the cycle's state after PreScore."""
        try:
            if shape.apart or not self._scores_are_of_rows(shape):
                return self._rows.totals(shape, pod, rows)
            # The verdicts were read from the columns: what the scorers say of the rows is in them too, or going to be needed again.
            self.pre_score(shape, pod)
            if not self._scores_are_of_rows(shape):  # a plugin has something to say now
                return self._rows.totals(shape, pod, rows)
            self.score(shape, pod)
            found, nodes = shape.evaluation.totals_among(rows), self._cache.select(rows)
            for s in shape.custom:
                plugin, weight = shape.scorers[s]
                raw = shape.evaluation.raw_scores(s, rows)
                found += weight * checked(plugin, normalized(plugin, shape.state, pod, nodes, raw))
            return shape.state, found
        except BaseException:
            shape.prepared = False
            raise

    def breakdown(self, shape: Shape, pod: PodInfo, rows: Rows) -> list[tuple[str, NDArray[np.int64]]]:
        """Return what each plugin gives these feasible rows, weighted, as if no other node was feasible; for people to look at."""
        try:
            return self._rows.breakdown(shape, pod, rows)[1]
        except BaseException:
            shape.prepared = False
            raise

    def _scores_are_of_rows(self, shape: Shape) -> bool:
        """Answer whether raw scores of a row stay the same whichever other rows are feasible, as far as is known before PreScore."""
        return not self._plan.skips_by_feasible and (not shape.pre_scored or shape.feasible_dependent <= shape.score_skipped)

    def _normalize(self, shape: Shape, pod: PodInfo) -> None:
        """Let plugins normalise that do it by themselves: over all feasible nodes."""
        self.show_all()
        rows = shape.evaluation.feasible_rows()
        nodes = self._cache.select(rows)
        for s in shape.custom:
            plugin, started = shape.scorers[s][0], self._timings.perf()
            scores = plugin.normalize_scores(shape.state, pod, nodes, shape.evaluation.raw_scores(s, rows))
            if self._timings.recording:
                self._timings.executed(plugin.name, NORMALIZE, None, self._timings.perf() - started)
            shape.evaluation.store_normalized(s, rows, scores)
        shape.normalized = True

    # Probes of waiting pods

    def why_infeasible(self, pod: PodInfo) -> Diagnosis | None:
        """Return why no node passes all filters now, nominated pods aside.

        None when one does, or a plugin fails: an attempt finds out then.
        """
        try:
            if self.have_owners:  # not `with` for all profiles: this is asked once an event and waiting shape
                with self.view(pod):
                    return self._why_infeasible(pod)
            return self._why_infeasible(pod)
        except PluginError:  # such as an annotation that cannot be read, which the pod's condition says
            return None
        except Exception:
            log.exception("could not find out whether a waiting pod would fit", pod=pod.key)
            return None

    def _why_infeasible(self, pod: PodInfo) -> Diagnosis | None:
        shape = self.pre_filter(pod)
        if shape.restriction is not None:
            verdicts = self.filter_restricted(shape, pod, shape.restriction)
            return None if len(verdicts.feasible) else self.diagnoses.of_restricted(shape, pod, shape.restriction, verdicts)
        feasible_count = self.filter(shape, pod)
        return shape.diagnosis or (None if feasible_count else self.diagnoses.of_shape(shape, pod, NO_REFUSALS))

    def unchanged_diagnosis(self, pod: PodInfo) -> Diagnosis | None:
        """Return why the pod's shape failed, if it did and no node's verdict has changed since."""
        key, columns = pod.shape, columns_key(pod.shape)
        if not isinstance(key, ShapeKey) or columns is None:
            return None
        shape = self._kept.peek(columns)
        failed = None if shape is None else shape.diagnosis if shape.restricted is None else shape.diagnosis or shape.restricted.get(key)
        if failed is None:
            return None
        try:
            with self.view(pod):
                shape = self.pre_filter(pod)
                if shape.restriction is not None:
                    known = None if shape.restricted is None else shape.restricted.get(key)
                    verdicts = self.filter_restricted(shape, pod, shape.restriction)
                    repeated = known is not None and known.repeats(shape.restriction, verdicts, self._cache.table.live_count)
                    return known.diagnosis if repeated and known is not None else None
                self.filter(shape, pod)
                return shape.diagnosis
        except Exception:
            log.exception("could not find out whether a waiting pod's reasons changed", pod=pod.key)
            return None

    def simulation(self, shape: Shape, verdicts: FilterVerdicts | None = None) -> NodeSimulation:
        """Return what asks the filters about nodes with other pods on them, as long as the shape is what it is now.

        verdicts: those of a restricted pod; None: the shape's columns.
        """
        return ShapeSimulation(self._simulated_filters, shape, verdicts or shape.evaluation)

    def simulation_for(self, pod: PodInfo) -> NodeSimulation:
        """Return the same for a pod whose shape may not be prepared yet, or whose columns not be up to date."""
        with self.view(pod):
            shape = self.pre_filter(pod)
            if shape.restriction is not None:
                return self.simulation(shape, self.filter_restricted(shape, pod, shape.restriction))
            self.filter(shape, pod)
            return self.simulation(shape)


def _forget_scores(shape: Shape, names: AbstractSet[str]) -> None:
    """Let PreScore and Score of these plugins be asked again."""
    shape.stale_scores |= names
    for s, (plugin, _) in enumerate(shape.scorers):
        if plugin.name in names:
            shape.evaluation.forget_scorer(s)
