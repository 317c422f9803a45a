"""Where the members of a gang go in the network: near each other, as their gang asks (coscheduling.md §7.2).

1. slots of each node for the members, class by class          `framework.slots`
2. sums over the domains, rounded down to podCountMultiple     `MemberPlacement.roll_up`
3. the smallest domain below the layer of MustGather that takes all members, those near existing pods first, and in it nodes,
   the largest parts first                                     `MemberPlacement.find`
4. members to nodes, by index or name                          here

A node that refuses a member when it is placed (its CPUs, devices or the like leave less than amounts say) has fewer slots from then on.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.topology_tree import MemberPlacement
from koordsched.api.koordinator.gang_membership import rank_of
from koordsched.framework.diagnosis import fit_error
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
LISTED_DOMAINS = 32
"""Domains that a refusal lists; the sum of the others is one item."""


class PlacedPods(msgspec.Struct, frozen=True, eq=False):
    """Pods that are placed already. existing: how many pods attract the members, by row. bound: the rows of members of the group."""

    existing: Mapping[int, int]
    bound: Sequence[int]


def gather_level(tree: NetworkTree, spec: TopologySpec) -> tuple[int, str]:
    """Return the level, and its layer, in one domain of which all members have to be: of several the one nearest to the nodes.

    Without one the root. UNKNOWN_LEVEL: the topology has no such layer.
    """
    if not spec.must_gather:
        return 0, ""
    layer = max(spec.must_gather, key=lambda layer: tree.levels.get(layer, UNKNOWN_LEVEL))
    return tree.levels.get(layer, UNKNOWN_LEVEL), layer


class _Class:
    """Equal members. `rows` are those with slots for them."""

    def __init__(self, members: list[PodInfo], slots: NodeSlots) -> None:
        self.members = members
        self.slots = slots
        self.total = int(slots.slots.sum())


class TopologyPlan:
    """The plan for some members of one group (`GroupPlan`)."""

    def __init__(
        self, cache: Cache, tree: NetworkTree, spec: TopologySpec, members: Sequence[PodInfo], refused_as: tuple[str, str]
    ) -> None:
        """members: in the order of `in_order`. refused_as: the member, by key, and the plugin that a refusal of the group names."""
        self._cache = cache
        self._tree = tree
        self._arrays = tree.arrays
        self._spec = spec
        self._members = members
        self._first, self._plugin = refused_as
        self.level, self.layer = gather_level(tree, spec)
        self._classes: list[_Class] = []
        self._class_of: dict[str, int] = {}  # by key of the member
        self._rows: dict[str, int] = {}  # by key of the member: of the last plan
        self._refused: dict[int, Status] = {}  # by row: why it has fewer slots than amounts say
        self._allowed: NDArray[np.uint8] | None = None
        self._placement: MemberPlacement | None = None

    def prepare(self, count: SlotCount, placed: PlacedPods) -> GroupRefusal | None:
        """Count slots; return the refusal if a member is refused whatever the node. PluginError."""
        uids = {pod.uid for pod in self._members}
        by_class: dict[Hashable, list[PodInfo]] = {}
        for pod in self._members:
            by_class.setdefault(pod_class(pod), []).append(pod)
        for pods in by_class.values():
            slots = count(pods[0], len(pods), uids)
            if slots.refused.pre_filter is not None:
                return GroupRefusal("", pods[0].key, slots.refused.message, 0, slots.refused.rejectors.all)
            self._class_of |= dict.fromkeys((pod.key for pod in pods), len(self._classes))
            self._classes.append(_Class(pods, slots))
        multiples = [1] * (self._arrays.depth + 2)
        for layer, multiple in self._spec.multiples:
            if layer in self._tree.levels and not placed.bound:  # what is left of a gang is any number
                multiples[self._tree.levels[layer]] = multiple
        classes = self._classes
        placement = MemberPlacement(
            self._arrays,
            self._cache.table,
            [each.slots.request for each in classes],
            [len(each.members) for each in classes],
            sorted(range(len(classes)), key=lambda klass: classes[klass].total),  # what few nodes take comes first
            multiples,
        )
        for klass, each in enumerate(classes):
            placement.set_most(klass, each.slots.rows, each.slots.slots)
        if placed.existing:
            rows = np.fromiter(placed.existing.keys(), np.int32, len(placed.existing))
            placement.set_existing(rows, np.fromiter(placed.existing.values(), np.int64, len(rows)))
        self._allowed = self._where_bound(placed.bound)
        self._placement = placement
        return None

    def _where_bound(self, bound: Sequence[int]) -> NDArray[np.uint8] | None:
        """Return flags of the domains of the level that most of the bound members are in; None: none is bound in the tree."""
        if self.level <= 0:
            return None
        domains = Counter(domain for row in bound if (domain := self._tree.domain_of(row, self.level)) != OUTSIDE)
        if not domains:
            return None
        most = max(domains.values())
        flags = np.zeros(self._arrays.rows if self.level > self._arrays.depth else self._arrays.domains, np.uint8)
        flags[[domain for domain, members in domains.items() if members == most]] = 1
        return flags

    # GroupPlan

    def nodes(self) -> Mapping[str, str] | GroupRefusal:
        """Return the node of each member in the order in which nodes are filled. O(nodes + tree)."""
        placement = self._placement
        assert placement is not None, "it was prepared"
        placement.roll_up()
        found = None if self.level == UNKNOWN_LEVEL else placement.find(self.level, self._allowed)
        if found is None:
            return self._refusal(placement)
        waiting = [iter(each.members) for each in self._classes]
        self._rows = {next(waiting[klass]).key: row for row, klass, count in found for _ in range(count)}
        names = {row: self._tree.name_of(self._arrays.depth + 1, row) for row, _, _ in found}
        return {key: names[row] for key, row in self._rows.items()}

    def refused(self, member: str, before: int, status: Status) -> None:
        assert self._placement is not None, "it was prepared"
        row = self._rows[member]
        self._placement.lower(self._class_of[member], row, before)
        self._refused[row] = status

    # Texts

    def _refusal(self, placement: MemberPlacement) -> GroupRefusal:
        """Return that no domain takes all members: the slots of each that came into question, and why nodes have no more."""
        total = self._cache.table.live_count
        reasons: Counter[str] = Counter()
        plugins = {self._plugin}
        for each in self._classes:
            counts, of_class = each.slots.reasons(self._cache.table, len(each.members))
            reasons |= counts  # of several classes the one that most nodes refuse
            plugins |= of_class
        for status in self._refused.values():
            reasons.update(status.reasons)
            plugins.add(status.plugin)
        multiples = [f"{layer}={multiple}" for layer, multiple in self._spec.multiples]
        message = no_candidates(len(self._members), self._slots(placement), fit_error(total, reasons), multiples)
        return GroupRefusal("", self._first, fit_error(total, {}, message), 0, frozenset(plugins - {""}))

    def _slots(self, placement: MemberPlacement) -> list[str]:
        """Return the domains of the layer with their slots, as texts: those with the most slots if there are many."""
        if self.level == UNKNOWN_LEVEL:
            return []
        domains, slots = placement.slots_of_level(self.level)
        if self._allowed is not None:
            allowed = self._allowed[domains] != 0
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
