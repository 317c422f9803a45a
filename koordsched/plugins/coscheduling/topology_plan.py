"""Where the members of a gang go in the network: near each other, as their gang asks (coscheduling.md §7.2).

1. slots of each node for the members, class by class          `framework.slots`
2. sums over the domains, rounded down to podCountMultiple     `MemberPlacement.roll_up`
3. the smallest domain below the layer of MustGather that takes all members, those near existing pods first, and in it nodes,
   the largest parts first                                     `MemberPlacement.find`
4. members to nodes, by index or name                          here

A node that refuses a member when it is placed (its CPUs, devices or the like leave less than amounts say) has fewer slots from then on.
Where that leads nowhere, members that are nominated go to their nodes if these are such a domain: preemption found room there for all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.topology_tree import MemberPlacement
from koordsched.api.koordinator.gang_membership import rank_of
from koordsched.framework.diagnosis import count_reasons, fit_error
from koordsched.framework.interface import GroupRefusal
from koordsched.framework.slots import pod_class
from koordsched.plugins.coscheduling.network_tree import OUTSIDE
from koordsched.plugins.coscheduling.reasons import no_candidates

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.api.koordinator.network_topology import TopologySpec
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.group_plan import SlotCount
    from koordsched.framework.slots import NodeSlots
    from koordsched.framework.status import Status
    from koordsched.plugins.coscheduling.network_tree import NetworkTree

UNKNOWN_LEVEL = -1
NODES_A_PLACEMENT = 1_000
"""A plan over so many nodes takes as long as placing one member."""
LISTED_DOMAINS = 32
"""Domains that a refusal lists; the sum of the others is one item."""


class PlacedPods(msgspec.Struct, frozen=True, eq=False):
    """Pods that are placed already. existing: how many pods attract the members, by row. bound: the rows of members of the group."""

    existing: Mapping[int, int]
    bound: Sequence[int]


class Gathering:
    """What a topology spec asks for in the tree as it is now."""

    def __init__(self, tree: NetworkTree, spec: TopologySpec, placed: PlacedPods) -> None:
        self.tree = tree
        self.spec = spec
        self.placed = placed
        self.level = gather_level(tree, spec)
        """In one domain of which all members have to be; UNKNOWN_LEVEL if there is no such layer."""
        self.multiples = [1] * (tree.arrays.depth + 2)
        """For each level, rows included, what the number of members of a domain has to be a multiple of."""
        for layer, multiple in spec.multiples:
            if layer in tree.levels and not placed.bound:  # what is left of a gang is any number
                self.multiples[tree.levels[layer]] = multiple
        self.allowed = self._where_bound()
        """Flags of the domains of the level, those that most of the bound members are in; None: none is bound in the tree."""
        self.spared: list[tuple[NDArray[np.int32], int]] = []
        """Rows of a domain, and how many slots there members of a half-bound gang need: left to them if there is other room."""

    def spare(self, bound: Sequence[int], level: int, members: int) -> None:
        """Leave room for so many members of another gang in the domain of the level where it has members on these rows."""
        domains = Counter(domain for row in bound if (domain := self.tree.domain_of(row, max(level, 0))) != OUTSIDE)
        if level <= 0 or not domains:
            return
        domain, _ = domains.most_common(1)[0]
        if level > self.tree.arrays.depth:
            rows = np.array([domain], np.int32)
        else:
            rows = np.flatnonzero(self.tree.ancestors(self.tree.row_domains)[level] == domain).astype(np.int32)
        self.spared.append((rows, members))

    def _where_bound(self) -> NDArray[np.uint8] | None:
        if self.level <= 0:
            return None
        domains = Counter(domain for row in self.placed.bound if (domain := self.tree.domain_of(row, self.level)) != OUTSIDE)
        if not domains:
            return None
        most, arrays = max(domains.values()), self.tree.arrays
        flags = np.zeros(arrays.rows if self.level > arrays.depth else arrays.domains, np.uint8)
        flags[[domain for domain, members in domains.items() if members == most]] = 1
        return flags

    def allows(self, rows: Sequence[int]) -> bool:
        """Answer whether members may be on these rows, a row for each of them."""
        if self.level == UNKNOWN_LEVEL:
            return False
        domains = {self.tree.domain_of(row, self.level) for row in rows}
        if len(domains) != 1 or OUTSIDE in domains or (self.allowed is not None and not self.allowed[domains.pop()]):
            return False
        return all(
            members % multiple == 0
            for level, multiple in enumerate(self.multiples)
            for members in Counter(self.tree.domain_of(row, level) for row in rows).values()
            if multiple > 1
        )


def gather_level(tree: NetworkTree, spec: TopologySpec) -> int:
    """Return the level in one domain of which all members have to be: of several the one nearest to the nodes, without any the root's.

    UNKNOWN_LEVEL: the topology has no such layer.
    """
    return max((tree.levels.get(layer, UNKNOWN_LEVEL) for layer in spec.must_gather), default=0)


class _Class:
    """Equal members. `rows` are those with slots for them."""

    def __init__(self, members: list[PodInfo], slots: NodeSlots) -> None:
        self.members = members
        self.slots = slots
        self.total = int(slots.slots.sum())


class TopologyPlan:
    """The plan for some members of one group (`GroupPlan`)."""

    def __init__(
        self,
        cache: Cache,
        gathering: Gathering,
        members: Sequence[PodInfo],
        refused_as: tuple[str, str],
        nominated: Mapping[str, str],
    ) -> None:
        """members: in the order of `in_order`. refused_as: the member, by key, and the plugin that a refusal of the group names.

        nominated: nodes of members, by key.
        """
        self._cache = cache
        self._gathering = gathering
        self._tree = gathering.tree
        self._arrays = self._tree.arrays
        self._members = members
        self._first, self._plugin = refused_as
        self._nominated = nominated
        self.level = gathering.level
        self._classes: list[_Class] = []
        self._class_of: dict[str, int] = {}  # by key of the member
        self._rows: dict[str, int] = {}  # by key of the member: of the last plan
        self._refused: dict[int, Status] = {}  # by row: why it has fewer slots than amounts say
        self._lowered: list[tuple[int, int, int]] = []  # (class, row, most): what rows take less than amounts say
        self._is_sparing = False  # whether room is left to other gangs
        self._placement: MemberPlacement | None = None
        self.cost = 1 + self._arrays.rows // NODES_A_PLACEMENT

    def prepare(self, count: SlotCount) -> GroupRefusal | None:
        """Count slots; return the refusal if a member is refused whatever the node. PluginError."""
        uids = {pod.uid for pod in self._members}
        by_class: dict[Hashable, list[PodInfo]] = {}
        for pod in self._members:
            by_class.setdefault(pod_class(pod), []).append(pod)
        for pods in by_class.values():
            slots = count(pods[0], len(pods), uids)
            if slots.refused.pre_filter is not None:
                refused = slots.refused
                return GroupRefusal("", pods[0].key, refused.message, 0, refused.rejectors.all, quoted=refused.quoted)
            self._class_of |= dict.fromkeys((pod.key for pod in pods), len(self._classes))
            self._classes.append(_Class(pods, slots))
        classes, placed = self._classes, self._gathering.placed
        placement = MemberPlacement(
            self._arrays,
            self._cache.table,
            [each.slots.request for each in classes],
            [len(each.members) for each in classes],
            sorted(range(len(classes)), key=lambda klass: classes[klass].total),  # what few nodes take comes first
            self._gathering.multiples,
        )
        if placed.existing:
            rows = np.fromiter(placed.existing.keys(), np.int32, len(placed.existing))
            placement.set_existing(rows, np.fromiter(placed.existing.values(), np.int64, len(rows)))
        self._placement = placement
        self._set_slots(sparing=True)
        return None

    def _set_slots(self, *, sparing: bool) -> None:
        """Set how many members rows take. sparing: without the room that is left to other gangs, in members of this one."""
        placement = self._placement
        assert placement is not None, "it was prepared"
        self._is_sparing = sparing and bool(self._gathering.spared)
        for klass, each in enumerate(self._classes):
            slots = each.slots.slots
            if self._is_sparing:
                by_row = np.zeros(self._arrays.rows, np.int32)
                known = each.slots.rows < len(by_row)
                by_row[each.slots.rows[known]] = slots[known]
                for rows, members in self._gathering.spared:
                    before = np.cumsum(by_row[rows]) - by_row[rows]
                    by_row[rows] -= np.clip(members - before, 0, by_row[rows]).astype(np.int32)
                slots = np.where(known, by_row[np.where(known, each.slots.rows, 0)], slots).astype(np.int32)
            placement.set_most(klass, each.slots.rows, slots)
        for klass, row, most in self._lowered:
            placement.lower(klass, row, most)

    # GroupPlan

    def nodes(self) -> Mapping[str, str] | GroupRefusal:
        """Return the node of each member in the order in which nodes are filled. O(nodes + tree)."""
        placement = self._placement
        assert placement is not None, "it was prepared"
        placement.roll_up()
        found = None if self.level == UNKNOWN_LEVEL else placement.find(self.level, self._gathering.allowed)
        if found is None and self._is_sparing:
            self._set_slots(sparing=False)
            return self.nodes()
        if found is None:
            return self._as_nominated() or self._refusal(placement)
        waiting = [iter(each.members) for each in self._classes]
        self._rows = {next(waiting[klass]).key: row for row, klass, count in found for _ in range(count)}
        names = {row: self._tree.name_of(self._arrays.depth + 1, row) for row, _, _ in found}
        return {key: names[row] for key, row in self._rows.items()}

    def _as_nominated(self) -> Mapping[str, str]:
        """Return the nodes for which the members are nominated, if these are a place for all; tried once."""
        nominated, self._nominated = self._nominated, {}
        nodes = {pod.key: self._cache.node(nominated.get(pod.key, "")) for pod in self._members}
        rows = {key: node.row for key, node in nodes.items() if node is not None}
        if len(rows) < len(nodes) or not self._gathering.allows(list(rows.values())):
            return {}
        self._rows = rows
        return {key: nominated[key] for key in rows}

    def refused(self, member: str, before: int, status: Status) -> None:
        assert self._placement is not None, "it was prepared"
        row = self._rows[member]
        self._lowered.append((self._class_of[member], row, before))
        self._placement.lower(*self._lowered[-1])
        self._refused[row] = status

    # Texts

    def _refusal(self, placement: MemberPlacement) -> GroupRefusal:
        """Return that no domain takes all members: the slots of each that came into question, and why nodes have no more."""
        total = self._cache.table.live_count
        reasons: Counter[str] = Counter()
        plugins = {self._plugin}
        short = [each.slots.short_of(len(each.members)) for each in self._classes]
        for of_class in short:
            reasons |= count_reasons(of_class.refusals)  # of several classes the one that most nodes refuse
            plugins |= of_class.plugins
        for status in self._refused.values():
            reasons.update(status.reasons)
            plugins.add(status.plugin)
        multiples = [f"{layer}={multiple}" for layer, multiple in self._gathering.spec.multiples]
        message = no_candidates(len(self._members), self._slots(placement), fit_error(total, reasons), multiples)
        first = self._class_of.get(self._first)
        diagnosis = None if first is None else short[first]
        whole, quoted = fit_error(total, {}, message), fit_error(total, {message: total})
        return GroupRefusal("", self._first, whole, 0, frozenset(plugins - {""}), diagnosis, quoted)

    def _slots(self, placement: MemberPlacement) -> list[str]:
        """Return the domains of the layer with their slots, as texts: those with the most slots if there are many."""
        if self.level == UNKNOWN_LEVEL:
            return []
        domains, slots = placement.slots_of_level(self.level)
        if self._gathering.allowed is not None:
            allowed = self._gathering.allowed[domains] != 0
            domains, slots = domains[allowed], slots[allowed]
        shown = np.argsort(-slots, kind="stable")[:LISTED_DOMAINS]
        layer = self._tree.layer_name(self.level)
        found = zip(domains[shown].tolist(), slots[shown].tolist(), strict=True)
        texts = sorted(f"{layer}/{self._tree.name_of(self.level, domain)}: {count}" for domain, count in found)
        left = len(domains) - len(shown)
        return texts if not left else [*texts, f"{left} more: {int(slots.sum() - slots[shown].sum())}"]


def in_order(members: Sequence[PodInfo]) -> list[PodInfo]:
    """Return members in the order in which nodes are filled with them: by index if each has one of its own, else by name (D3)."""
    ranks = {pod.uid: rank_of(pod.pod.metadata) for pod in members}
    if None not in ranks.values() and len(set(ranks.values())) == len(members):
        return sorted(members, key=lambda pod: ranks[pod.uid] or 0)
    return sorted(members, key=lambda pod: (pod.pod.metadata.name, pod.key))
