"""The topology manager: on which NUMA nodes of a node a pod's CPUs, memory and devices come from together (nodenumaresource.md §9).

    NodeNUMAResource, on a node with a NUMA policy
        | check (Filter, Score), admit (Reserve)
        v
    TopologyManager -- hints --> every NumaHintProvider of the profile, itself among them
        |  merge: `_core.numa_merge.merge_hints`
        |-- allocate, as a trial, with what came out --> every provider
        v
    NumaAffinity, or the refusal

A plugin takes part by inheriting `NumaHintProvider`; the profile hands all of its providers the one manager they share. What a provider
allocates later, in Reserve, lies within `TopologyManager.affinity`. Pods that no other provider wants never come here: NodeNUMAResource
answers for all nodes at once (`_core.numa_filter`), with the same result.

`check` keeps nothing, so that it may be asked on a state that many cycles share, as those of Filter and Score are; `admit` keeps the
affinity in the cycle's own state. While the cache simulates (`Cache.simulate`) `check` sees it, as PostFilter's answers must. Nothing
awaits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import msgspec

from koordsched._core.numa_merge import merge_hints
from koordsched.framework.interface import Plugin
from koordsched.framework.status import Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched._core.numa_facts import Hint, Machine, Merged
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.cycle_state import CycleState

UNSATISFIED = "Unsatisfied NUMA {resource}"
UNALIGNED = "Unaligned NUMA Hint cause {summary}"

KEPT = "framework/numa-affinities"  # in a cycle's state: dict of node name -> NumaAffinity


class NumaAffinity(msgspec.Struct, frozen=True):
    """The NUMA nodes that a pod's resources come from: bit i, NUMA node i. None: no NUMA node is chosen, nothing is recorded by them."""

    mask: int | None


class NumaHintProvider(Plugin):
    """A plugin with resources that lie in NUMA nodes.

    class Disks(NumaHintProvider):
        def wants(self, pod):
            return "example.com/disk" in pod.resources.requests

        def hints(self, state, pod, node):
            return {"example.com/disk": [Hint(1 << numa, 0, True) for numa in self._free(node.name)]}

        def allocate(self, state, pod, node, affinity):
            fits = affinity.mask is None or any(affinity.mask >> numa & 1 for numa in self._free(node.name))
            return None if fits else unschedulable("no disk on the NUMA nodes chosen")
    """

    topology_manager: TopologyManager  # that of the profile; set by `unite` once all plugins of the profile are made

    @abstractmethod
    def wants(self, pod: PodInfo) -> bool:
        """Answer whether this plugin has hints for pods like this one. Asked once a shape and node selection: O(1), covered by `sign`."""

    @abstractmethod
    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        """Return by resource name which sets of NUMA nodes would do.

        No entry and None: any would do; an empty list: none. Preferred should be those that are no wider than need be (under Restricted:
        all). A Status is a reason to refuse the node.
        """

    @abstractmethod
    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        """Try to allocate within the affinity, without taking anything; return why it cannot be done, if so."""


class TopologyManager:
    """Merges the hints of one profile's providers."""

    def __init__(self, providers: Sequence[NumaHintProvider]) -> None:
        self._providers = providers

    def others_want(self, provider: NumaHintProvider, pod: PodInfo) -> bool:
        """Answer whether another provider has hints for the pod."""
        return any(other is not provider and other.wants(pod) for other in self._providers)

    def check(self, state: CycleState, pod: PodInfo, node: NodeInfo, machine: Machine) -> NumaAffinity | Status:
        """Return what the pod's affinity on the node would be, tried with every provider, or why there is none."""
        hints: list[Mapping[str, Sequence[Hint] | None]] = []
        reasons: list[str] = []
        for provider in self._wanting(pod):
            found = provider.hints(state, pod, node)
            if isinstance(found, Status):
                reasons.append(found.message)
            else:
                hints.append(found)
        if reasons:
            return unschedulable(*reasons)
        merged = merge_hints(hints, machine)
        affinity = NumaAffinity(merged.mask)
        return merged_status(merged) or self._try(state, pod, node, affinity) or affinity

    def admit(self, state: CycleState, pod: PodInfo, node: NodeInfo, machine: Machine) -> NumaAffinity | Status:
        """As `check`, and keep the affinity in the cycle's own state; one that is kept there already is only tried again."""
        kept = self.affinity(state, node.name)
        if kept is not None:
            return self._try(state, pod, node, kept) or kept
        found = self.check(state, pod, node, machine)
        if isinstance(found, NumaAffinity):
            self.keep(state, node.name, found)
        return found

    def keep(self, state: CycleState, node: str, affinity: NumaAffinity) -> None:
        """Keep an affinity that a provider found by itself, as the only one with hints for the pod."""
        kept: dict[str, NumaAffinity] = state.read(KEPT) or {}
        state.write(KEPT, {**kept, node: affinity})

    def affinity(self, state: CycleState, node: str) -> NumaAffinity | None:
        """Return the affinity that the cycle keeps for a node (name), None when it has none."""
        kept: dict[str, NumaAffinity] = state.read(KEPT) or {}
        return kept.get(node)

    def _wanting(self, pod: PodInfo) -> list[NumaHintProvider]:
        return [provider for provider in self._providers if provider.wants(pod)]

    def _try(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        for provider in self._wanting(pod):
            refusal = provider.allocate(state, pod, node, affinity)
            if refusal is not None:
                return refusal
        return None


def share_topology_manager(plugins: Iterable[Plugin]) -> None:
    """Give all providers among a profile's plugins the one manager that they share."""
    providers = [plugin for plugin in plugins if isinstance(plugin, NumaHintProvider)]
    manager = TopologyManager(providers)
    for provider in providers:
        provider.topology_manager = manager


def merged_status(merged: Merged) -> Status | None:
    """Return the refusal that a merge came to, in the reference's words (nodenumaresource.md §9, §15); None when it admits."""
    if merged.admitted:
        return None
    if merged.unsatisfied:
        return unschedulable(*(UNSATISFIED.format(resource=resource) for resource in merged.unsatisfied))
    return unschedulable(UNALIGNED.format(summary=merged.summary))
