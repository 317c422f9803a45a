"""The exact victims on one node, found by asking all filters (framework.md §7.4)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from koordsched.framework.status import unresolvable
from koordsched.plugins.defaultpreemption.choice import Candidate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.simulation import NodeSimulation
    from koordsched.framework.status import Status
    from koordsched.plugins.defaultpreemption.budgets import Budgets
    from koordsched.plugins.defaultpreemption.occupants import Occupants
    from koordsched.queue.nominator import Nominator

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


class DryRun:
    """Plays evictions on one node after the other, for one pod."""

    def __init__(self, pod: PodInfo, simulation: NodeSimulation, cache: Cache) -> None:
        self._pod = pod
        self._simulation = simulation
        self._cache = cache

    def on(self, node: NodeInfo, facts: Facts) -> Candidate | Status:
        """Return the node with the least victims, each in its turn, or why evicting all lower pods does not help. PluginError."""
        lower = facts.lower(self._pod, node)
        if not lower:
            return NO_VICTIMS
        ahead = facts.nominator.ahead(self._pod, node.name)
        beyond = facts.budgets.beyond([pod.pod for pod in lower])
        with self._cache.simulate(node, remove=lower):
            refusal = self._refusal(node, ahead)
            if refusal is not None:
                return refusal
            return self._spare(node, ahead, lower, beyond)

    def _spare(self, node: NodeInfo, ahead: Sequence[PodInfo], lower: Sequence[PodInfo], beyond: Sequence[bool]) -> Candidate | Status:
        """Put back who can be, first those whose eviction would violate a budget; the others are the victims."""
        order = [i for i in range(len(lower)) if beyond[i]] + [i for i in range(len(lower)) if not beyond[i]]
        gone = set()
        with ExitStack() as back:
            for i in order:
                with ExitStack() as tried:
                    tried.enter_context(self._cache.simulate(node, add=[lower[i]]))
                    if self._refusal(node, ahead) is None:
                        back.push(tried.pop_all())
                    else:
                        gone.add(i)
        if not gone:
            return NO_VICTIMS
        victims = [lower[i] for i in sorted(gone)]
        return Candidate(node.row, victims, sum(beyond[i] for i in gone))

    def _refusal(self, node: NodeInfo, ahead: Sequence[PodInfo]) -> Status | None:
        """Return why the pod could not go there now, with and without the pods that are nominated for the node before it."""
        if ahead:
            refusal = self._simulation.simulate_on_node(self._pod, node, add=ahead)
            if refusal is not None:
                return refusal
        return self._simulation.filter_node(self._pod, node)


class Facts:
    """What a dry run has to know besides the filters. The occupants must be up to date."""

    def __init__(self, nominator: Nominator, budgets: Budgets, occupants: Occupants) -> None:
        self.nominator = nominator
        self.budgets = budgets
        self._occupants = occupants

    def lower(self, pod: PodInfo, node: NodeInfo) -> list[PodInfo]:
        """Return who may be evicted from the node for the pod, the most important first: by priority, then who started earlier."""
        everybody = self._occupants.occupancy.items(node.row)
        return [other for other, priority in everybody if priority < pod.priority and not self._occupants.is_pinned(other.uid)]
