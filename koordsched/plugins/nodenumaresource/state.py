"""The allocations of CPUs and NUMA resources on every node, kept up to date with pods, nodes and topologies (nodenumaresource.md §3).

The annotations of pods are the only store: a restart reads them again and comes to the same. An allocation lives as long as the cache
counts its pod, whatever becomes of the node and its topology meanwhile (D6). `NumaState.table` shows each change at once, and the row is
marked; what the cache only simulates (`Cache.simulating`) is shown too, but leaves no mark and is undone exactly. One state serves the
plugins of all profiles.

`NumaCheck` compares it with the pods' annotations and the node's description, and mends what differs. What an assumed pod holds is written
nowhere yet, and a pod keeps what was reserved for it until it goes, also when its annotation cannot be read or was taken away: there
`NumaState` itself is right. All else follows from objects: which pods hold anything, what bound pods hold, and every sum of it, down to the
columns of the table.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from koordsched._core.cpu_reserved import LeftCpus
from koordsched._core.numa import NumaTable
from koordsched._core.numa_removals import NumaHoldings
from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.cpulist import cpu_ids, format_cpus
from koordsched.api.koordinator.nodes import node_policy
from koordsched.api.koordinator.pods import RESOURCE_SPEC, RESOURCE_STATUS
from koordsched.api.koordinator.reading import Malformed
from koordsched.cache.plugin_state import StateDifference
from koordsched.framework.pod_holdings import PodHoldings
from koordsched.log import get_logger
from koordsched.plugins.nodenumaresource.node_allocations import NodeAllocations, PodAllocation, written_allocation
from koordsched.plugins.nodenumaresource.node_topology import NO_POLICY, follow_topologies, read_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from koordsched._core.numa import NumaCells
    from koordsched._core.numa_removals import HeldInZones
    from koordsched._core.pod_index import PodIndex
    from koordsched._core.view import Part
    from koordsched.api.core import Node
    from koordsched.api.koordinator.nodes import NodePolicy
    from koordsched.api.meta import Unstructured
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.plugin_state import PodsByRow
    from koordsched.framework.handle import Handle
    from koordsched.plugins.nodenumaresource.node_topology import TopologyOptions

log = get_logger(__name__)

RESTRICTED = "Restricted"


class NumaState(PodHoldings[PodAllocation]):
    """The allocations of all nodes. Also a `TopologyFollower`."""

    annotation = RESOURCE_STATUS

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle.cache)
        self._resource = handle.columns.resource
        self._names = handle.columns.name_column.values  # held for every node of which something is known
        self.table = NumaTable(handle.cache.table, handle.columns.name_column.attribute)
        self._nodes: dict[str, NodeAllocations] = {}
        self._holdings: dict[PodIndex, NumaHoldings] = {}
        self.change = handle.cache.change_kinds.register("NodeNUMAResource")  # with which the row is marked
        self._pod_level = False
        follow_topologies(handle, self)
        handle.cache.follow(self)
        handle.cache.checked.append(NumaCheck(self, handle))

    # Reading

    @property
    def nodes(self) -> dict[str, NodeAllocations]:
        """Return the nodes of which something is known. To be read only."""
        return self._nodes

    @property
    def pod_level(self) -> bool:
        """Return whether kubelet's pod level policies count."""
        return self._pod_level

    def node(self, name: str) -> NodeAllocations:
        """Return the node; one without topology and pods when nothing is known of it. Valid until something changes."""
        return self._nodes.get(name) or NodeAllocations(name, self._names.ids.get(name, 0), self._resource)

    def held_by(self, uid: str) -> PodAllocation | None:
        name = self._where.get(uid)
        return None if name is None else self._nodes[name].pods.get(uid)

    def holdings(self, pods: PodIndex) -> NumaHoldings:
        """Return what the pods of an index of victims hold, compiled. Indexes are there as long as the cache."""
        found = self._holdings.get(pods)
        if found is None:
            found = self._holdings[pods] = NumaHoldings(self.table, pods, self._held_on)
        return found

    def _held_on(self, row: int, pods: Sequence[PodInfo]) -> Sequence[HeldInZones] | None:
        """Return what each of these pods of a row holds; None where more happens when one leaves than that this is free.

        CPUs of their own are counted by cores and zones, and what a pod has drawn of a reservation is the reservation's again.
        """
        info = self._cache.infos[row]
        node = None if info is None else self._nodes.get(info.name)
        if node is None or not node.pods:
            return [()] * len(pods)
        if any(held.cpus for held in node.pods.values()):
            return None
        drawn_from = self._cache.credits.drawn_from
        if self.given and any(drawn_from(uid) is not None for uid in node.pods):
            return None
        return [() if (held := node.pods.get(pod.uid)) is None else node.in_zones(held) for pod in pods]

    # Deciding

    def _hold(self, node_name: str, allocation: PodAllocation) -> None:
        before = self._where.get(allocation.uid)
        if before is not None:
            if before == node_name and self._nodes[before].pods[allocation.uid] == allocation:
                return
            self._take(before, allocation.uid)
            self._forget_unknown(before)
        if not self._is_nothing(allocation):
            self._put(node_name, allocation)

    def _is_nothing(self, allocation: PodAllocation) -> bool:
        return not (allocation.cpus or allocation.amounts)

    def left_of(self, whole: PodAllocation) -> PodAllocation:
        cpus, amounts = whole.cpus, {zone: dict(resources) for zone, resources in whole.amounts.items()}
        for uid in self._cache.credits.drawers(whole.uid):
            held = self.held_by(uid)
            if held is None:
                continue
            cpus &= ~held.cpus
            for zone, resources in held.amounts.items():
                at = amounts.get(zone, {})
                for resource, amount in resources.items():
                    if resource in at:
                        at[resource] = max(at[resource] - amount, 0)
        left = {zone: kept for zone, at in amounts.items() if (kept := {name: amount for name, amount in at.items() if amount})}
        return replace(whole, cpus=cpus, amounts=left)

    def compile_left(self, uid: str) -> LeftCpus:
        left = self.left(uid)
        return LeftCpus(*((0, 0) if left is None else (left.cpus, left.exclusive)), restricted=self.is_restricted(uid))

    def is_restricted(self, placeholder: str) -> bool:
        """Answer whether the owners of a reservation get the CPUs that it has, and no others."""
        counted = self._cache.pods.get(placeholder)
        reservation = None if counted is None else counted.info.reservation
        return reservation is not None and reservation.spec.allocate_policy == RESTRICTED

    @contextmanager
    def offering(self, name: str, cpus: int) -> Iterator[None]:
        """Let the table count of the free CPUs of a node, of which something is known, these alone."""
        node = self._nodes[name]
        cells = self.table.save_usage(node.index)
        self.table.set_counts(node.index, node.counts(withheld=~cpus))
        try:
            yield
        finally:
            self.table.restore_usage(cells)

    def set_max_ref_count(self, name: str, count: int) -> None:
        """Let so many pods be bound to each CPU of the node from now on. Only code in the process can ask for it. ValueError below 1."""
        if count < 1:
            raise ValueError(f"node {name}: a CPU cannot be shared by {count} pods")
        node = self._entry(name)
        self._describe(node, node.options, node.policy, count)
        self._drop_unknown(node)

    def honour_pod_level(self) -> None:
        """Let kubelet's pod level policies count (D11). A node's policy is the same for all profiles: one that asks for it asks for all."""
        if not self._pod_level:
            self._pod_level = True
            for node in self._nodes.values():
                self._show(node)

    # Pods

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        self.compiled_left.pop(new.uid, None)  # its policy may be another one
        after = new.pod.metadata.annotations
        if RESOURCE_STATUS not in after:
            return  # what was reserved for it holds until it goes
        before = old.pod.metadata.annotations
        same = before.get(RESOURCE_STATUS) == after[RESOURCE_STATUS] and before.get(RESOURCE_SPEC) == after.get(RESOURCE_SPEC)
        if not (same and old.pod.spec.node_name):  # else it has been read
            self._read(new, row)

    def without(self, pods: PodsByRow) -> Iterable[tuple[int, Part]]:
        where = self._where
        for row in dict.fromkeys([row for row, of_row in pods.items() for pod in of_row if pod.uid in where]):
            name = self._name(row, pods[row][0])
            uids = [pod.uid for pod in pods[row] if where.get(pod.uid) == name]
            if uids:
                yield row, HiddenAllocations(self, self._nodes[name], uids)

    def show(self, node: NodeAllocations, cells: NumaCells) -> None:
        """Let a node be known by this object, whose usage these cells have. Only for views."""
        self._nodes[node.name] = node
        self.table.restore_usage(cells)

    def _read(self, pod: PodInfo, row: int) -> None:
        """Account the allocation in the pod's annotations, if there is one that can be read."""
        try:
            written = written_allocation(pod)
        except Malformed as error:
            log.warning("what a pod was given cannot be read and is not counted", pod=pod.key, problem=str(error))
            return
        if written is None:
            return
        if not pod.lends:
            self.reserve(self._name(row, pod), written)
        else:
            self._set_given(pod.uid, written)
            self._hold(self._name(row, pod), self.left_of(written))

    # Nodes

    def set_options(self, name: str, options: TopologyOptions | None) -> None:
        node = self._entry(name)
        if node.options != options:  # koordlet writes what it wrote before every now and then
            self._describe(node, options, node.policy, node.max_ref_count)
        self._drop_unknown(node)

    def set_policy(self, name: str, policy: NodePolicy) -> None:
        node = self._entry(name)
        if node.policy != policy:
            self._describe(node, node.options, policy, node.max_ref_count)
        self._drop_unknown(node)

    def _describe(self, node: NodeAllocations, options: TopologyOptions | None, policy: NodePolicy, max_ref_count: int) -> None:
        node.describe(options, policy, max_ref_count)
        self._show(node)

    def _entry(self, name: str) -> NodeAllocations:
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = NodeAllocations(name, self._names.hold(name), self._resource)
            self.table.clear_node(found.index)
        return found

    def _forget_unknown(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is not None:
            self._drop_unknown(node)

    def _drop_unknown(self, node: NodeAllocations) -> None:
        if node.unknown and not self._cache.simulating and self._nodes.pop(node.name, None) is not None:
            self.table.clear_node(node.index)
            self._names.release(node.index)

    # Mending

    def rebuild(self, name: str, described: tuple[TopologyOptions | None, NodePolicy], allocations: Iterable[PodAllocation]) -> None:
        """Forget all that is kept of a node, whatever it is, and account these allocations to what it is described as."""
        old = self._nodes.pop(name, None)
        self.compiled_left.clear()
        for uid in [uid for uid, node in self._where.items() if node == name]:
            del self._where[uid]
        node = self._entry(name)
        if old is not None:
            self._names.release(old.index)
        self._describe(node, *described, 1 if old is None else old.max_ref_count)
        for allocation in allocations:
            self.release(allocation.uid)
            self._put(name, allocation)
        self._drop_unknown(node)

    # Changes

    def _put(self, name: str, allocation: PodAllocation) -> None:
        node = self._entry(name)
        node.put(allocation)
        self._where[allocation.uid] = name
        self._show_change(node, allocation)

    def _take(self, name: str, uid: str) -> PodAllocation:
        node = self._nodes[name]
        allocation = node.take(uid)
        del self._where[uid]
        self._show_change(node, allocation)
        return allocation

    def _show(self, node: NodeAllocations) -> None:
        """Bring all of the node into the table."""
        self.table.set_node(node.index, node.facts(pod_level=self._pod_level))
        self._show_usage(node)

    def _show_change(self, node: NodeAllocations, allocation: PodAllocation) -> None:
        """Bring into the table what is another with this allocation: without CPUs of its own only the amounts of its zones are."""
        if allocation.cpus:
            self._show_usage(node)
            return
        for numa in allocation.amounts:
            self.table.set_allocated(node.index, numa, node.sums(numa))
        self._mark(node)

    def _show_usage(self, node: NodeAllocations) -> None:
        self.table.set_usage(node.index, node.usage())
        self._mark(node)

    def _mark(self, node: NodeAllocations) -> None:
        if not self._cache.simulating:
            info = self._cache.nodes_by_name.get(node.name)
            if info is not None:
                self._cache.table.mark(info.row, self.change)


class HiddenAllocations:
    """The allocations of some pods of a node, in views: the node is known by another object then, which does not have them."""

    counts_alone = False

    def __init__(self, state: NumaState, node: NodeAllocations, uids: Sequence[str]) -> None:
        self._state = state
        self._node = node
        self._without = node.without(uids)
        table = state.table
        self._cells = table.save_usage(node.index)
        table.set_usage(node.index, self._without.usage())
        self._cells_without = table.save_usage(node.index)
        table.restore_usage(self._cells)

    def hide(self) -> None:
        self._state.show(self._without, self._cells_without)

    def restore(self) -> None:
        self._state.show(self._node, self._cells)


class NumaCheck:
    """A `CheckedState`: the check of one `NumaState`."""

    name = "NodeNUMAResource"

    def __init__(self, state: NumaState, handle: Handle) -> None:
        self._state = state
        self._cache = handle.cache
        self._resource = handle.columns.resource
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._topologies: Mapping[str, Unstructured] = handle.informer(NODE_RESOURCE_TOPOLOGY).store

    def names(self) -> Iterable[str]:
        return self._state.nodes.keys()

    def differences(self, node: str) -> Iterable[StateDifference]:
        """Compare allocations, description and sums of a node. Pods of the same CPUs are no difference: their annotations have them."""
        kept, expected = self._state.nodes.get(node), self._expected(node)
        options, policy = self._described(node)
        if kept is None:
            if expected or options is not None or policy != NO_POLICY:
                yield StateDifference("known", False, True)
            return
        for uid in kept.pods.keys() | expected.keys():
            held, given = kept.pods.get(uid), expected.get(uid)
            if held != given:
                yield StateDifference(f"allocation of {_pod_text(held or given)}", _text(held), _text(given))
            if self._state.location(uid) != node:
                yield StateDifference(f"node of {_pod_text(held or given)}", self._state.location(uid), node)
        if kept.options != options:
            yield StateDifference("topology", str(kept.options), str(options))
        if kept.policy != policy:
            yield StateDifference("policy", str(kept.policy), str(policy))
        yield from self._sums(kept)

    def rebuild(self, node: str) -> None:
        self._state.rebuild(node, self._described(node), self._expected(node).values())

    def _expected(self, node: str) -> dict[str, PodAllocation]:
        """Return what the pods on a node hold, by uid."""
        kept, info = self._state.nodes.get(node), self._cache.nodes_by_name.get(node)
        found: dict[str, PodAllocation] = {}
        for uid, pod in () if info is None else info.pods.items():
            written = None
            if pod.pod.spec.node_name and RESOURCE_STATUS in pod.pod.metadata.annotations:
                try:
                    written = written_allocation(pod)
                except Malformed:
                    written = None
            if written is not None and pod.lends:
                written = self._state.left_of(written)
            allocation = written or (None if kept is None else kept.pods.get(uid))
            if allocation is not None and (allocation.cpus or allocation.amounts):
                found[uid] = allocation
        return found

    def _described(self, name: str) -> tuple[TopologyOptions | None, NodePolicy]:
        topology, node = self._topologies.get(name), self._nodes.get(name)
        return None if topology is None else read_options(topology), NO_POLICY if node is None else node_policy(node)

    def _sums(self, kept: NodeAllocations) -> Iterator[StateDifference]:
        """Compare all that is derived of the allocations that are kept."""
        anew = NodeAllocations(kept.name, kept.index, self._resource)
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
                yield StateDifference(column, str(ours), str(theirs))


def _holders(node: NodeAllocations) -> dict[int, tuple[int, int]]:
    """Return how many pods hold each CPU that is held, and under which exclusive policy."""
    cpus = node.cpus
    return {} if cpus is None else {cpu: (cpus.ref_count(cpu), int(cpus.exclusive_of(cpu))) for cpu in cpu_ids(cpus.bound)}


def _plain(facts: Any) -> Any:
    """Return facts without amounts of 0 and empty mappings, as the table gives them back."""
    if isinstance(facts, tuple):
        return tuple(_plain(each) for each in facts)
    if hasattr(facts, "items"):
        return {key: value for key, each in facts.items() if (value := _plain(each))}
    return facts


def _pod_text(allocation: PodAllocation | None) -> str:
    return "" if allocation is None else f"{allocation.namespace}/{allocation.name} ({allocation.uid})"


def _text(allocation: PodAllocation | None) -> str:
    """Write what a pod holds."""
    if allocation is None:
        return ""
    parts = [f"CPUs {format_cpus(allocation.cpus)}"] if allocation.cpus else []
    parts += [f"NUMA node {numa}: {amounts}" for numa, amounts in sorted(allocation.amounts.items())]
    return "; ".join([*parts, *([allocation.exclusive.name] if allocation.exclusive else [])])


def numa_state(handle: Handle) -> NumaState:
    """Return the state that all plugins on this cache share. To be called while the plugin is made."""
    return handle.cache.shared.one(NumaState, lambda: NumaState(handle))
