"""PreFilter of one shape: which filters are off, and to which nodes the cycle is restricted (framework.md §2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import NodeChange
from koordsched.config.extension_points import PRE_FILTER
from koordsched.framework.interface import Codes, FilterNodesPlugin, PreFilterPlugin, PreFilterResult
from koordsched.framework.status import SKIPS, Code, PluginError, Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.timings import CycleTimings
    from koordsched.metrics import CounterChild


class PreFiltered:
    """What PreFilter decided."""

    __slots__ = ("node_names", "refusal", "restricting", "skipped")

    def __init__(self) -> None:
        self.skipped: set[str] = set()  # plugins whose Filter is off
        self.node_names: frozenset[str] | None = None  # None: all nodes
        self.restricting: set[str] = set()  # plugins that named nodes
        self.refusal: Status | None = None

    def restrict(self, plugin: str, result: PreFilterResult) -> None:
        if result.node_names is None:
            return
        self.restricting.add(plugin)
        self.node_names = result.node_names if self.node_names is None else self.node_names & result.node_names


def run_pre_filter(
    plugins: Iterable[tuple[PreFilterPlugin, CounterChild]], state: CycleState, pod: PodInfo, nodes: Nodes, timings: CycleTimings
) -> PreFiltered:
    """Run the plugins in order, each with the counter of calls that it did not skip. PluginError.

    UnschedulableAndUnresolvable stops, Unschedulable is remembered while the rest runs.
    """
    result = PreFiltered()
    for plugin, evaluations in plugins:
        name = plugin.name
        if timings.recording:
            outcome = timings.timed(name, PRE_FILTER.label, plugin.pre_filter)(state, pod, nodes)
        else:
            outcome = plugin.pre_filter(state, pod, nodes)
        if isinstance(outcome, Status) and outcome.code is SKIPS:
            result.skipped.add(name)
            continue
        evaluations.count += 1
        if outcome is None:
            continue
        if isinstance(outcome, PreFilterResult):
            result.restrict(name, outcome)
            if result.node_names is not None and not result.node_names:
                result.refusal = _nowhere(result.restricting)
                return result
        elif outcome.rejected:
            result.refusal = outcome.with_plugin(name)
            if outcome.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result
        else:
            text = f'running PreFilter plugin "{name}": {outcome.message}'
            raise PluginError(Status(outcome.code, (text,), name), PRE_FILTER.label)
    return result


def _nowhere(plugins: set[str]) -> Status:
    names = sorted(plugins)
    if len(names) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")


class NodeNamesFilter(FilterNodesPlugin):
    """The restriction to named nodes, as the first filter of a shape: other nodes count as refused by the plugins that named them."""

    name = "PreFilterResult"
    reads = NodeChange.LABELS  # the name column

    def __init__(self, result: PreFiltered) -> None:
        self._names = result.node_names or frozenset()
        self._status = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(result.restricting))}]")

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        ids = nodes.columns.name_column.values.ids
        allowed = np.array([ids[name] for name in self._names if name in ids], np.int32)
        return (~np.isin(nodes.table.attributes_of(nodes.columns.name_column.attribute, nodes.rows), allowed)).astype(np.int32)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self._status
