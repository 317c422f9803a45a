"""The simulation for the pods of one shape: its filters, asked on a node table that the cache changes for a moment (`Cache.simulate`).

Columns and counts follow the cache while it simulates. What a plugin prepared for the whole cycle does not, so inside a simulation the
PreFilter of every plugin that depends on more than the row (it names versions) runs again on a copy of the shape's state. That is what
PreFilter's AddPod and RemovePod are for in kube-scheduler, but it also reaches plugins that had nothing to do before: a nominated pod that
wants no neighbours counts (framework.md §5.1, [FIX]).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import NodeChange
from koordsched.config.extension_points import PRE_FILTER
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.row_refusals import NO_ROWS, RowRefusals, Rows
from koordsched.framework.simulation import DryRunFilters, FitFilter, NodeSimulation, OtherVerdicts
from koordsched.framework.status import Code, PluginError, Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from koordsched._core.pod_index import PodIndex
    from koordsched._core.removal_filter import RemovalFilter
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.evaluation_plan import EvaluationPlan
    from koordsched.framework.interface import Codes, FilterNodesPlugin, Flags
    from koordsched.framework.row_verdicts import FilterVerdicts
    from koordsched.framework.shape import Shape

AS_THEY_ARE = nullcontext()
CHANGES_OF_PODS = NodeChange.USAGE | NodeChange.PORTS


class SimulatedFilters:
    """The filters of one profile, and which of them pods on nodes matter to."""

    def __init__(self, plan: EvaluationPlan, cache: Cache) -> None:
        self.cache = cache
        self.filters = plan.filters
        self.pre_filters = plan.pre_filters
        self.versioned = versioned = frozenset(plugin.name for plugin in plan.versioned)
        self.pre_filters_to_repeat = [plugin for plugin in plan.pre_filters if plugin.name in versioned]
        self._dependent = {
            plugin.name for plugin in plan.filters if plugin.name in versioned or plugin.reads & CHANGES_OF_PODS or plugin.follows_pods
        }

    def depend_on_pods(self, plugin: FilterNodesPlugin) -> bool:
        """Answer whether a filter's verdict on a node may differ when pods there come or go."""
        return plugin.name in self._dependent


class ShapeSimulation(NodeSimulation):
    """Asks a profile's filters about nodes, for the pods of one shape. verdicts: what they say of the nodes that come into question."""

    __slots__ = ("_all", "_shape", "_unschedulable", "_verdicts", "rows")

    def __init__(self, filters: SimulatedFilters, shape: Shape, verdicts: FilterVerdicts) -> None:
        self._all = filters
        self._shape = shape
        self._verdicts = verdicts
        self.rows = None if shape.restriction is None else shape.restriction.rows
        self._unschedulable: Mapping[tuple[int, int], Rows] | None = None

    def simulate_on_node(self, pod: PodInfo, node: NodeInfo, add: Iterable[PodInfo] = (), remove: Iterable[PodInfo] = ()) -> Status | None:
        with self._view(), self._all.cache.simulate(node, add=add, remove=remove):
            return self._filter_node(pod, node)

    def filter_node(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        with self._view():
            return self._filter_node(pod, node)

    def _view(self) -> AbstractContextManager[None]:
        """Return what shows the nodes as the shape's owner of credits sees them."""
        return AS_THEY_ARE if self._shape.owner is None else self._all.cache.view(self._shape.owner)

    def _filter_node(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        cache, state = self._all.cache, self._shape.state
        skipped, refusal = self._shape.pre_filtered.skipped, self._shape.pre_filtered.refusal
        if cache.simulating:
            state = state.clone()
            skipped, refusal = self._repeat_pre_filter(state, pod)
        if refusal is not None:
            return refusal
        nodes = cache.select(np.array([node.row], np.int32))
        for plugin in self._all.filters:
            if plugin.name in skipped:
                continue
            codes = plugin.filter_nodes(state, pod, nodes)
            if codes is not None and codes[0]:
                return plugin.explain(state, pod, int(codes[0])).with_plugin(plugin.name)
        return None

    def _repeat_pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[set[str], Status | None]:
        """Run PreFilter again where it may have another outcome; return the plugins whose filters are off, and a refusal of the pod."""
        skipped, refusal = set(self._shape.pre_filtered.skipped), self._shape.pre_filtered.refusal
        nodes = self._all.cache.nodes()
        # One that refuses the pod may have kept those after it from being run.
        for plugin in self._all.pre_filters if refusal is not None else self._all.pre_filters_to_repeat:
            outcome = plugin.pre_filter(state, pod, nodes)
            skipped.discard(plugin.name)
            if refusal is not None and refusal.plugin == plugin.name:
                refusal = None
            if outcome is None or isinstance(outcome, PreFilterResult):
                continue
            if outcome.code is Code.SKIP:
                skipped.add(plugin.name)
            elif outcome.rejected:
                refusal = refusal or outcome.with_plugin(plugin.name)
            else:
                text = f'running PreFilter plugin "{plugin.name}": {outcome.message}'
                raise PluginError(Status(outcome.code, (text,), plugin.name), PRE_FILTER.label)
        return skipped, refusal

    # For all nodes at once

    @property
    def local(self) -> bool:
        return not any(plugin.name in self._all.versioned for plugin in self._shape.filters)

    def possible_rows(self, pod: PodInfo) -> Rows:
        refusal = self._shape.pre_filtered.refusal
        if refusal is None:
            return np.concatenate((self._verdicts.feasible_rows(), *self.unschedulable_rows(pod).values()))
        if refusal.code is not Code.UNSCHEDULABLE:
            return NO_ROWS
        return self._all.cache.table.live_rows() if self.rows is None else self.rows

    def explain(self, f: int, pod: PodInfo, code: int) -> Status:
        plugin = self._shape.filters[f]
        return plugin.explain(self._shape.state, pod, code).with_plugin(plugin.name)

    def unschedulable_rows(self, pod: PodInfo) -> Mapping[tuple[int, int], Rows]:
        if self._unschedulable is None:
            verdicts = [(f, code) for f, code, _ in self._verdicts.histogram() if self.explain(f, pod, code).code is Code.UNSCHEDULABLE]
            if verdicts:
                rows, filters, codes = self._verdicts.refusals()
                self._unschedulable = {(f, code): rows[(filters == f) & (codes == code)] for f, code in verdicts}
            else:
                self._unschedulable = {}
        return self._unschedulable

    def fit_filter(self, pod: PodInfo, *, besides_credits: bool = False) -> FitFilter | None:
        if self._shape.owner is not None and not besides_credits:
            return None  # what `FitFilter` is for compares amounts of the nodes as they are
        for f, plugin in enumerate(self._shape.filters):
            request = plugin.fit_request(self._shape.state, pod)
            if request is not None:
                others = (other for g, other in enumerate(self._shape.filters) if g != f)
                return FitFilter(f, plugin.name, request, alone=not any(map(self._all.depend_on_pods, others)))
        return None

    def dry_run_filters(self, pod: PodInfo, fit: FitFilter, victims: PodIndex) -> DryRunFilters:
        kernels: dict[int, RemovalFilter] = {}
        for f, plugin in enumerate(self._shape.filters):
            if f > fit.f and self._all.depend_on_pods(plugin):
                kernel = plugin.removal_filter(self._shape.state, pod, victims)
                if kernel is not None:
                    kernels[f] = kernel
        known = list(kernels.values())
        kernels = {f: kernel for f, kernel in kernels.items() if all(needed in known for needed in kernel.needs)}
        others = (other for g, other in enumerate(self._shape.filters) if g != fit.f and g not in kernels)
        return DryRunFilters(tuple(kernels), tuple(kernels.values()), alone=not any(map(self._all.depend_on_pods, others)))

    def rows_with_credits(self) -> list[int]:
        owned, rows = self._all.cache.credits.of(self._shape.owner), []
        for uid in () if owned is None else owned.placeholders:
            row = self._all.cache.row_of(uid)
            if row is not None:
                rows.append(row)
        return rows

    def other_verdicts(self, f: int, pod: PodInfo, rows: Rows, known: Collection[int] = (), until: int | None = None) -> OtherVerdicts:
        found = OtherVerdicts()
        for g, plugin in enumerate(self._shape.filters[:until]):
            if g == f or g in known or not len(rows) or (g < f and not self._all.depend_on_pods(plugin)):
                continue
            with self._view():
                codes = plugin.filter_nodes(self._shape.state, pod, self._all.cache.select(rows)) if g > f else None
            if codes is None:
                codes = np.zeros(len(rows), np.int32)
            affected = self.affected_by_removals(g, pod, rows, codes)
            if not codes.any() and not affected.any():
                continue  # as a rule
            found.uncertain.append(rows[affected])
            refused = ~affected & (codes != 0)
            found.refused.append(RowRefusals.of_codes(rows[refused], codes[refused], partial(self.explain, g, pod)))
            rows = rows[~affected & (codes == 0)]
        found.passing = rows
        return found

    def affected_by_removals(self, f: int, pod: PodInfo, rows: Rows, codes: Codes) -> Flags:
        plugin = self._shape.filters[f]
        if not self._all.depend_on_pods(plugin):
            return np.zeros(len(rows), np.bool_)
        with self._view():
            affected = plugin.affected_by_removals(self._shape.state, pod, self._all.cache.select(rows), codes)
        return np.ones(len(rows), np.bool_) if affected is None else affected
