"""The topology manager: from which NUMA nodes of a node a pod's CPUs, memory and devices come together (nodenumaresource.md §9).

    NodeNUMAResource, on a node with a NUMA policy
        | check (Filter, Score), admit (Reserve)
        v
    TopologyManager -- hints --> every NumaHintProvider of the profile, itself among them
        |  merge: `_core.numa_merge.merge_hints`
        |-- allocate, as a trial, with what came out --> every provider
        v
    NumaAffinity, or the refusal

A plugin takes part by inheriting `NumaHintProvider`; the profile hands all of its providers the one manager they share. What a provider
allocates later, in Reserve, lies within `TopologyManager.affinity`. The one that knows policies and zones, NodeNUMAResource, is the
`NumaAligner`. It aligns pods on all nodes at once (`_core.numa_filter`) where it alone has hints for the pod, or besides it one provider
with a `NumaHintSource` for the pod. Otherwise providers are asked node by node here. The result is the same.

`check` keeps nothing, so that it may be asked on a state that many cycles share, as those of Filter and Score are; `admit` keeps the
affinity in the cycle's own state. While the cache simulates (`Cache.simulate`) `check` sees it, as PostFilter's answers must. Nothing
awaits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import msgspec

from koordsched._core.change import NodeChange
from koordsched._core.numa_merge import merge_hints
from koordsched.framework.interface import Plugin
from koordsched.framework.status import Status, unschedulable
from koordsched.queue.events import EventHint, QueueingHint
from koordsched.queue.hints import hints_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koordsched._core.hint_source import NumaHintSource
    from koordsched._core.numa_facts import Hint, Machine, Merged
    from koordsched._core.numa_joint import NumaAlignment
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.queue.events import HintFn

    Masks = NDArray[np.uint64]
    """The NUMA nodes of each row that a pod's resources come from: bit i, NUMA node i; 0: no affinity."""
    Aligned = NDArray[np.uint8]
    """1 for each row on which providers were tried together."""

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

    topology_manager: TopologyManager  # that of the profile; set by `share_topology_manager` once all its plugins are made
    reads: NodeChange = NodeChange.ALL
    """All kinds of change of a node after which its hints may be others, its own Filter and Score included."""
    versioned_others: Sequence[NumaHintProvider] = ()
    """The profile's other providers that have a `version`, which this one's answers then depend on as well."""

    @abstractmethod
    def wants(self, pod: PodInfo) -> bool:
        """Answer whether this plugin has hints for pods like this one. Asked once a shape and node selection: O(1), covered by `sign`."""

    def hint_source(self, state: CycleState, pod: PodInfo) -> NumaHintSource | None:
        """Return what kernels ask instead of `hints` and `allocate`, with the same answers; None: the provider is asked node by node.

        Called after all PreFilters, for each call of Filter and Score: keep it with the pod's state. Its rows are those of the node table,
        and what it reads of a row is among `reads` of the provider.
        """
        return None

    def explain_hint(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """Return the refusal that a code of the pod's source stands for."""
        raise LookupError(f"{self.name}: code {code} of a source of NUMA hints, of which there is none")

    @abstractmethod
    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        """Return by resource name which sets of NUMA nodes would do.

        No entry and None: any would do; an empty list: none. Preferred should be those that are no wider than need be (under Restricted:
        all). A Status is a reason to refuse the node.
        """

    @abstractmethod
    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        """Try to allocate within the affinity, without taking anything; return why it cannot be done, if so."""

    def lend(self, uid: str) -> None:
        """Give hints until `share` as if this reservation, or a pod that one takes over, held nothing, since another pod may use that."""

    def share(self, uid: str) -> None:
        """Let the reservation hold again what the pods that draw on it have left."""


class NumaAligner(NumaHintProvider):
    """The provider that knows the NUMA policy of each node and aligns the others in Filter: NodeNUMAResource."""

    @abstractmethod
    def aligned(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Aligned | None:
        """Return on which rows Filter aligns the pod's providers; None: on none."""

    @abstractmethod
    def alignment(self, state: CycleState, pod: PodInfo) -> NumaAlignment | None:
        """Return the same for kernels to ask."""

    @abstractmethod
    def masks(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Masks | None:
        """Return the affinity that Filter has found on each row; None: there is none on any."""


class TopologyManager:
    """Merges the hints of one profile's providers. filters: the profile's filters in running order."""

    def __init__(self, providers: Collection[NumaHintProvider], filters: Sequence[Plugin] = ()) -> None:
        self._providers = sorted(providers, key=lambda provider: not isinstance(provider, NumaAligner))
        self._others = {id(provider): [other for other in self._providers if other is not provider] for provider in providers}
        self._aligner = next((plugin for plugin in filters if isinstance(plugin, NumaAligner)), None)
        after = [] if self._aligner is None else filters[filters.index(self._aligner) + 1 :]
        self._filter_after = frozenset(id(plugin) for plugin in after)

    def others(self, provider: NumaHintProvider, pod: PodInfo) -> list[NumaHintProvider]:
        """Return the other providers that have hints for the pod."""
        return [other for other in self._others[id(provider)] if other.wants(pod)]

    def events_of_others(self, provider: NumaHintProvider) -> list[EventHint]:
        """Return what helps pods that the provider refuses because of others' hints: what these have registered, for pods they want."""
        return [
            EventHint(known.event, _of_wanted(other, known.hint))
            for other in self._others[id(provider)]
            for known in hints_for([other])[other.name]
        ]

    def aligned(self, provider: NumaHintProvider, state: CycleState, pod: PodInfo, nodes: Nodes) -> Aligned | None:
        """Return on which rows the provider was tried already, within an affinity, by a filter before its own; None: on none.

        There its own filter has nothing to add, and might be wrong: it would look at the whole node (deviceshare.md §5 item 3).
        """
        return None if self._aligner is None or not self._is_aligned(provider, pod) else self._aligner.aligned(state, pod, nodes)

    def alignment(self, provider: NumaHintProvider, state: CycleState, pod: PodInfo) -> NumaAlignment | None:
        """Return the same for kernels to ask."""
        return None if self._aligner is None or not self._is_aligned(provider, pod) else self._aligner.alignment(state, pod)

    def is_followed(self, provider: NumaHintProvider, pod: PodInfo) -> bool:
        """Answer whether the aligner asks what the provider has on rows that `alignment` does not name, since it filters after it."""
        return self._aligner not in (None, provider) and provider.wants(pod) and id(provider) not in self._filter_after

    def _is_aligned(self, provider: NumaHintProvider, pod: PodInfo) -> bool:
        return id(provider) in self._filter_after and provider.wants(pod)

    def masks(self, provider: NumaHintProvider, state: CycleState, pod: PodInfo, nodes: Nodes) -> Masks | None:
        """Return the affinity that Filter has found on each of these feasible rows; None: there is none on any. BestEffort has none yet."""
        if self._aligner is None or not provider.wants(pod):
            return None
        return self._aligner.masks(state, pod, nodes)

    # One node

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


def _of_wanted(provider: NumaHintProvider, hint: HintFn | None) -> HintFn:
    def after(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        if not provider.wants(pod):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE if hint is None else hint(pod, old, new)

    return after


def share_topology_manager(plugins: Iterable[Plugin], filters: Sequence[Plugin] = ()) -> None:
    """Give all providers among a profile's plugins the one manager that they share, and let each read what the others do.

    The aligner's answer about a row depends on all of them, and theirs on its affinity.
    """
    providers = [plugin for plugin in plugins if isinstance(plugin, NumaHintProvider)]
    manager = TopologyManager(providers, filters)
    reads = NodeChange(0)
    for provider in providers:
        reads |= provider.reads
    versioned = [provider for provider in providers if type(provider).version is not Plugin.version]
    for provider in providers:
        provider.reads = reads
        provider.topology_manager = manager
        provider.versioned_others = [other for other in versioned if other is not provider]


def merged_status(merged: Merged) -> Status | None:
    """Return the refusal that a merge came to, in the reference's words (nodenumaresource.md §9, §15); None when it admits."""
    if merged.admitted:
        return None
    if merged.unsatisfied:
        return unschedulable(*(UNSATISFIED.format(resource=resource) for resource in merged.unsatisfied))
    return unschedulable(UNALIGNED.format(summary=merged.summary))
