"""PreFilter of one shape: which filters are off, and to which nodes the cycle is restricted (framework.md §2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.config.extension_points import PRE_FILTER
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.status import SKIPS, Code, PluginError, Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import PreFilterPlugin
    from koordsched.framework.timings import CycleTimings
    from koordsched.metrics import CounterChild


class PreFiltered:
    """What PreFilter decided."""

    __slots__ = ("named", "node_names", "refusal", "skipped")

    def __init__(self) -> None:
        self.skipped: set[str] = set()  # plugins whose Filter is off
        self.named: dict[str, frozenset[str]] = {}  # the nodes to which plugins restrict the shape
        self.node_names: frozenset[str] | None = None  # what is in all of them; None: all nodes
        self.refusal: Status | None = None

    def restrict(self, plugin: str, result: PreFilterResult | None) -> None:
        """Let the plugin restrict the shape to these nodes instead of those that it named before."""
        if result is not None and result.node_names is not None:
            self.named[plugin] = result.node_names
        elif self.named.pop(plugin, None) is None:
            return
        names = self.named.values()
        self.node_names = frozenset.intersection(*names) if names else None


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
                result.refusal = nowhere(result.named)
                return result
        elif outcome.rejected:
            result.refusal = outcome.with_plugin(name)
            if outcome.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result
        else:
            text = f'running PreFilter plugin "{name}": {outcome.message}'
            raise PluginError(Status(outcome.code, (text,), name), PRE_FILTER.label)
    return result


def nowhere(plugins: Iterable[str]) -> Status:
    """Return PreFilter's refusal of a pod to which these plugins together leave no node."""
    names = sorted(plugins)
    if len(names) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")
