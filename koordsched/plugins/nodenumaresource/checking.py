"""Compares who holds which CPUs and NUMA resources with the pods' annotations and the node's description, and mends what differs.

A `CheckedState`. What an assumed pod holds is written nowhere yet, and a pod keeps what was reserved for it until it goes, also when its
annotation cannot be read or was taken away: there `NumaState` itself is right. All else follows from objects: which pods hold anything,
what bound pods hold, and every sum that is kept of it, down to the columns of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched._core.cpulist import cpu_ids, format_cpus
from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.nodes import node_policy
from koordsched.api.koordinator.pods import RESOURCE_STATUS
from koordsched.api.koordinator.reading import Malformed
from koordsched.cache.checked_state import Difference
from koordsched.plugins.nodenumaresource.options import read_options
from koordsched.plugins.nodenumaresource.usage import NO_POLICY, Allocation, NodeNuma, written_allocation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koordsched.api.core import Node
    from koordsched.api.koordinator.nodes import NodePolicy
    from koordsched.api.meta import Unstructured
    from koordsched.framework.handle import Handle
    from koordsched.plugins.nodenumaresource.allocations import NumaState
    from koordsched.plugins.nodenumaresource.options import TopologyOptions


class NumaCheck:
    """The check of one state."""

    name = "NodeNUMAResource"

    def __init__(self, state: NumaState, handle: Handle) -> None:
        self._state = state
        self._cache = handle.cache
        self._resource = handle.columns.resource
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._topologies: Mapping[str, Unstructured] = handle.informer(NODE_RESOURCE_TOPOLOGY).store

    def names(self) -> Iterable[str]:
        return self._state.nodes.keys()

    def differences(self, node: str) -> Iterable[Difference]:
        """Compare allocations, description and sums of a node. Pods of the same CPUs are no difference: their annotations say so."""
        kept, expected = self._state.nodes.get(node), self._expected(node)
        options, policy = self._described(node)
        if kept is None:
            if expected or options is not None or policy != NO_POLICY:
                yield Difference("known", False, True)
            return
        for uid in kept.pods.keys() | expected.keys():
            held, given = kept.pods.get(uid), expected.get(uid)
            if held != given:
                yield Difference(f"allocation of {_who(held or given)}", _text(held), _text(given))
            if self._state.location(uid) != node:
                yield Difference(f"node of {_who(held or given)}", self._state.location(uid), node)
        if kept.options != options:
            yield Difference("topology", str(kept.options), str(options))
        if kept.policy != policy:
            yield Difference("policy", str(kept.policy), str(policy))
        yield from self._sums(kept)

    def rebuild(self, node: str) -> None:
        self._state.rebuild(node, self._described(node), self._expected(node).values())

    def _expected(self, node: str) -> dict[str, Allocation]:
        """Return what the pods on a node hold, by uid."""
        kept, info = self._state.nodes.get(node), self._cache.nodes_by_name.get(node)
        found: dict[str, Allocation] = {}
        for uid, pod in () if info is None else info.pods.items():
            written = None
            if pod.pod.spec.node_name and RESOURCE_STATUS in pod.pod.metadata.annotations:
                try:
                    written = written_allocation(pod)
                except Malformed:
                    written = None
            allocation = written or (None if kept is None else kept.pods.get(uid))
            if allocation is not None:
                found[uid] = allocation
        return found

    def _described(self, name: str) -> tuple[TopologyOptions | None, NodePolicy]:
        topology, node = self._topologies.get(name), self._nodes.get(name)
        return None if topology is None else read_options(topology), NO_POLICY if node is None else node_policy(node)

    def _sums(self, kept: NodeNuma) -> Iterator[Difference]:
        """Compare all that is derived of the allocations that are kept."""
        anew = NodeNuma(kept.name, kept.index, self._resource)
        anew.describe(kept.options, kept.policy, kept.max_ref_count)
        for allocation in kept.pods.values():
            anew.put(allocation)
        pod_level = self._state.pod_level
        table = self._state.table
        pairs: list[tuple[str, Any, Any]] = [
            ("zones", kept.zones, anew.zones),
            ("allocated amounts", kept.allocated, anew.allocated),
            ("pods of one NUMA node", kept.single, anew.single),
            ("pods of several NUMA nodes", kept.shared, anew.shared),
            ("holders of CPUs", _holders(kept), _holders(anew)),
            ("columns of its description", _plain(table.node_of(kept.index)), _plain(anew.facts(pod_level=pod_level))),
            ("columns of its usage", _plain(table.usage_of(kept.index)), _plain(anew.usage())),
        ]
        for column, ours, theirs in pairs:
            if ours != theirs:
                yield Difference(column, str(ours), str(theirs))


def _holders(node: NodeNuma) -> dict[int, tuple[int, int]]:
    """Return how many pods hold each CPU that is held, and under which exclusive policy."""
    cpus = node.cpus
    return {} if cpus is None else {cpu: (cpus.ref_count(cpu), int(cpus.exclusive_of(cpu))) for cpu in cpu_ids(cpus.bound)}


def _plain(facts: Any) -> Any:
    """Return facts without amounts of 0 and without what says nothing, as the table gives them back."""
    if isinstance(facts, tuple):
        return tuple(_plain(each) for each in facts)
    if hasattr(facts, "items"):
        return {key: value for key, each in facts.items() if (value := _plain(each))}
    return facts


def _who(allocation: Allocation | None) -> str:
    return "" if allocation is None else f"{allocation.namespace}/{allocation.name} ({allocation.uid})"


def _text(allocation: Allocation | None) -> str:
    """Write what a pod holds."""
    if allocation is None:
        return ""
    parts = [f"CPUs {format_cpus(allocation.cpus)}"] if allocation.cpus else []
    parts += [f"NUMA node {numa}: {amounts}" for numa, amounts in sorted(allocation.amounts.items())]
    return "; ".join([*parts, *([allocation.exclusive.name] if allocation.exclusive else [])])
