"""What-ifs: what filters would say of single nodes if other pods were there, or some of those that are there were not.

The cache plays the supposition (`Cache.what_if`): columns and counts follow it while it lasts. What a plugin prepared for the whole cycle
does not, so inside a supposition the PreFilter of every plugin that depends on more than the row (it names versions) is run again on a
copy of the shape's state. That is what PreFilter's AddPod and RemovePod are for in kube-scheduler, but it also reaches plugins that had
nothing to do before: a nominated pod that wants no neighbours counts (framework.md §5.1, [FIX]). Which nodes PreFilter names stays as it
was. Callers: selection, for nominated pods; preemption. Nothing awaits, nothing is kept.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from koordsched._core.change import Change
from koordsched._core.table import Request
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.lift import PluginError
from koordsched.framework.row_refusals import NO_ROWS, RowRefusals, Rows
from koordsched.framework.status import Code, Status
from koordsched.framework.stopwatch import PRE_FILTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import Codes, FilterNodesPlugin, Flags
    from koordsched.framework.plan import Plan
    from koordsched.framework.shape import Shape

OF_PODS = Change.USAGE | Change.PORTS


class Fit(NamedTuple):
    """The filter that compares a request with what is free."""

    f: int  # its place among the shape's filters
    request: Request
    alone: bool  # pods on nodes matter to no other filter


class Beyond(msgspec.Struct):
    """What other filters than the one that refuses say of its rows, whoever of the pods there goes."""

    passing: Rows = NO_ROWS
    refused: list[RowRefusals] = msgspec.field(default_factory=list)
    unsure: list[Rows] = msgspec.field(default_factory=list)  # pods there matter to one of them


class WhatIf:
    """Supposes for one profile."""

    def __init__(self, plan: Plan, cache: Cache) -> None:
        self.cache = cache
        self.filters = plan.filters
        versioned = {plugin.name for plugin in plan.versioned}
        self.prepared_anew = [plugin for plugin in plan.pre_filters if plugin.name in versioned]
        self._of_pods = {plugin.name for plugin in plan.filters if plugin.name in versioned or plugin.reads & OF_PODS}

    def about(self, shape: Shape) -> Supposition:
        """Return what can be supposed for the pods of a shape, as long as it is what it is now."""
        return Supposition(self, shape)

    def depends_on_pods(self, plugin: FilterNodesPlugin) -> bool:
        """Answer whether a filter's verdict may differ when pods come or go."""
        return plugin.name in self._of_pods


class Supposition:
    """Asks a profile's filters about single nodes, for the pods of one shape."""

    __slots__ = ("_what_if", "refused", "shape")

    def __init__(self, what_if: WhatIf, shape: Shape) -> None:
        self._what_if = what_if
        self.shape = shape
        self.refused: dict[tuple[int, int], NDArray[np.int32]] | None = None  # room for who sorts the shape's refused rows: see outlook

    def refusal(self, pod: PodInfo, node: NodeInfo, add: Iterable[PodInfo] = (), remove: Iterable[PodInfo] = ()) -> Status | None:
        """Return why the pod could not go to the node with these pods more and those less, None if it could. PluginError."""
        with self._what_if.cache.what_if(node, add=add, remove=remove):
            return self.refusal_now(pod, node)

    def refusal_now(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return why the pod cannot go to the node as the cache has it now, supposing or not. PluginError."""
        state, skipped = self.shape.state, self.shape.pre_filtered.skipped
        refusal = self.shape.pre_filtered.refusal
        if self._what_if.cache.trying:
            state = state.clone()
            skipped, refusal = self._prepare(state, pod)
        if refusal is not None:
            return refusal
        nodes = self._what_if.cache.select(np.array([node.row], np.int32))
        for plugin in self._what_if.filters:
            if plugin.name in skipped:
                continue
            codes = plugin.filter_nodes(state, pod, nodes)
            if codes is not None and codes[0]:
                return plugin.explain(state, pod, int(codes[0])).with_plugin(plugin.name)
        return None

    def _prepare(self, state: CycleState, pod: PodInfo) -> tuple[set[str], Status | None]:
        """Run PreFilter again where it may have another outcome: the plugins whose filters are off, and a refusal of the pod as a whole."""
        skipped, refusal = self.shape.pre_filtered.skipped, self.shape.pre_filtered.refusal
        if not self._what_if.prepared_anew:
            return skipped, refusal
        skipped, nodes = set(skipped), self._what_if.cache.nodes()
        for plugin in self._what_if.prepared_anew:
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
                raise PluginError(Status(outcome.code, (text,), plugin.name), PRE_FILTER)
        return skipped, refusal

    # For all nodes at once

    def fit(self, pod: PodInfo) -> Fit | None:
        """Return the filter that compares a request with what is free; None when the shape has none."""
        for f, plugin in enumerate(self.shape.filters):
            request = plugin.fit_request(self.shape.state, pod)
            if request is not None:
                others = (other for g, other in enumerate(self.shape.filters) if g != f)
                return Fit(f, request, alone=not any(map(self._what_if.depends_on_pods, others)))
        return None

    def beyond(self, f: int, pod: PodInfo, rows: NDArray[np.int32]) -> Beyond:
        """Tell what the other filters say of rows that filter f is the first to refuse, if pods there go until f lets them pass."""
        found = Beyond()
        for g, plugin in enumerate(self.shape.filters):
            if g == f or not len(rows) or (g < f and not self._what_if.depends_on_pods(plugin)):
                continue
            codes = plugin.filter_nodes(self.shape.state, pod, self._what_if.cache.select(rows)) if g > f else None
            if codes is None:
                codes = np.zeros(len(rows), np.int32)
            swayed = self.swayed(g, pod, rows, codes)
            if not codes.any() and not swayed.any():
                continue  # as a rule
            found.unsure.append(rows[swayed])
            refused = ~swayed & (codes != 0)
            found.refused.append(RowRefusals.of_codes(rows[refused], codes[refused], partial(self.explain, g, pod)))
            rows = rows[~swayed & (codes == 0)]
        found.passing = rows
        return found

    def swayed(self, g: int, pod: PodInfo, rows: NDArray[np.int32], codes: Codes) -> Flags:
        """Return on which rows filter g, which answers codes now, could answer otherwise if pods that run there were gone."""
        plugin = self.shape.filters[g]
        if not self._what_if.depends_on_pods(plugin):
            return np.zeros(len(rows), np.bool_)
        swayed = plugin.swayed_by_departures(self.shape.state, pod, self._what_if.cache.select(rows), codes)
        return np.ones(len(rows), np.bool_) if swayed is None else swayed

    def explain(self, f: int, pod: PodInfo, code: int) -> Status:
        """Return the refusal that a filter's code stands for."""
        plugin = self.shape.filters[f]
        return plugin.explain(self.shape.state, pod, code).with_plugin(plugin.name)


def takes_only_room(pod: PodInfo) -> bool:
    """Answer whether all that the pod, once on a node, takes from others is room: it repels nobody and holds no port, volume or claim."""
    spec = pod.pod.spec
    return spec.affinity is None and not spec.volumes and not spec.resource_claims and not pod.ports
