"""Pods counted by topology domain, and what the counts refuse and score.

Counts of a topology key that many nodes share are reduced to one flag a domain, and the answers for other rows depend on these flags alone:
as long as they stay, other pods may come and go. A key of which each value is one node's own (the host name) needs no flags: only the row
on which a pod came or went can get another answer, so its count is read when the row is asked about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.affinity import add_own, any_with, is_unique, occupied, refuse_own, refuse_unless, refuse_where
from koordsched._core.change import NodeChange
from koordsched._core.counts import Changes, DomainSums, RowCounts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.cache.cache import Cache
    from koordsched.cache.columns import LabelColumn
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Codes, Flags, Scores

BY_AFFINITY = 1  # reason codes
BY_ANTI_AFFINITY = 2
BY_EXISTING = 3


class TopologyKeys:
    """The columns of topology keys in a node table, and which of them have a value for each node."""

    def __init__(self, cache: Cache) -> None:
        self.table = cache.table
        self.changes = Changes(cache.table, int(NodeChange.LABELS))
        self._columns = cache.columns
        self._unique: dict[int, bool] = {}  # by column, as long as no node's labels change
        self._unique_at = 0

    def known(self) -> Mapping[str, LabelColumn]:
        """Return the keys that some node has. Pods may name any others, too; those have no domains, so there is nothing to count."""
        return self._columns.labels

    def attribute(self, key: str) -> int:
        """Return the column of a topology key that some node has."""
        return self._columns.labels[key].attribute

    def is_unique(self, attribute: int) -> bool:
        """Answer whether each value of a topology key is one node's own."""
        labels = self.changes.version()
        if labels != self._unique_at:
            self._unique_at = labels
            self._unique.clear()
        found = self._unique.get(attribute)
        if found is None:
            found = self._unique[attribute] = is_unique(self.table, attribute)
        return found

    def forget(self) -> None:
        """Forget all columns: they were renewed."""
        self._unique.clear()


class TopologyCounts(msgspec.Struct, frozen=True):
    """Pods by row, to be summed over the domains of a topology key (its column)."""

    attribute: int
    counts: RowCounts
    weight: int = 1

    def are_empty(self) -> bool:
        """Answer whether no node that has the key has any of the pods."""
        return not any_with(self.counts, self.attribute)


class FilterCounts(msgspec.Struct, frozen=True):
    """What required terms count for a pod."""

    affinity: tuple[TopologyCounts, ...] = ()  # pods that match all the pod's required affinity terms, once for each topology key
    anti_affinity: tuple[TopologyCounts, ...] = ()  # pods that match one of its required anti-affinity terms
    existing_anti_affinity: tuple[TopologyCounts, ...] = ()  # owners of a required anti-affinity term that matches the pod
    is_unreachable: bool = False  # no node has the topology key of some required affinity term
    matches_itself: bool = False  # the pod matches all its required affinity terms

    def distinct(self) -> tuple[RowCounts, ...]:
        every = (*self.affinity, *self.anti_affinity, *self.existing_anti_affinity)
        return tuple({id(each.counts): each.counts for each in every}.values())

    def affected_by_removals(self, rows: NDArray[np.int32], codes: Codes) -> Flags:
        """Return on which rows the code could change if some of their pods went: pods that keep this one out, or that it has to be near."""
        found = _any_on((*self.anti_affinity, *self.existing_anti_affinity), rows)
        found &= codes != 0
        found |= _any_on(self.affinity, rows)
        return found


class FilterState:
    """What counts refuse at one moment. With equal keys and node labels the answer for a row that did not change is equal."""

    def __init__(self, keys: TopologyKeys, counted: FilterCounts) -> None:
        self._is_unreachable = counted.is_unreachable
        self._required: list[tuple[int, bytes | None]] = []  # topology key, its flags; None: a node needs the key alone
        self._required_own: list[TopologyCounts] = []
        self._refusing: list[tuple[int, int, bytes]] = []  # reason, topology key, flags
        self._refusing_own: list[tuple[int, TopologyCounts]] = []
        for each in counted.affinity:
            if keys.is_unique(each.attribute):
                self._required_own.append(each)
            else:
                self._required.append((each.attribute, occupied(keys.table, each.attribute, [each.counts])))
        if counted.matches_itself and self._no_domain_is_occupied():  # the first pod of its group may go anywhere
            self._required, self._required_own = [(each.attribute, None) for each in counted.affinity], []
        for reason, counts in ((BY_ANTI_AFFINITY, counted.anti_affinity), (BY_EXISTING, counted.existing_anti_affinity)):
            by_key: dict[int, list[TopologyCounts]] = {}
            for each in counts:
                by_key.setdefault(each.attribute, []).append(each)
            for attribute, of_key in by_key.items():
                if keys.is_unique(attribute):
                    self._refusing_own += [(reason, each) for each in of_key]
                else:
                    self._refusing.append((reason, attribute, occupied(keys.table, attribute, [each.counts for each in of_key])))
        # Whether no node can be refused. Terms that match the pod may be known while no pod has them.
        has_terms = counted.is_unreachable or bool(counted.affinity) or bool(counted.anti_affinity)
        self.is_idle = not has_terms and not any(each.counts.total for each in counted.existing_anti_affinity)
        self.key: Hashable = (self.is_idle, self._is_unreachable, tuple(self._required), tuple(self._refusing))

    def _no_domain_is_occupied(self) -> bool:
        if any(flags is not None and any(flags) for _, flags in self._required):
            return False
        return all(each.are_empty() for each in self._required_own)

    def refuse(self, nodes: Nodes) -> Codes:
        """Return a code per row. The pod's affinity is the first reason, then its anti-affinity, then that of existing pods."""
        table, rows = nodes.table, nodes.rows
        if self._is_unreachable:
            return np.full(len(rows), BY_AFFINITY, np.int32)
        codes = np.zeros(len(rows), np.int32)
        for attribute, flags in self._required:
            refuse_unless(table, attribute, flags, rows, codes, BY_AFFINITY)
        for each in self._required_own:
            refuse_own(each.counts, each.attribute, rows, codes, BY_AFFINITY, holding=False)
        for reason in (BY_ANTI_AFFINITY, BY_EXISTING):
            for its_reason, attribute, found in self._refusing:
                if its_reason == reason:
                    refuse_where(table, attribute, found, rows, codes, reason)
            for its_reason, each in self._refusing_own:
                if its_reason == reason:
                    refuse_own(each.counts, each.attribute, rows, codes, reason, holding=True)
        return codes


class ScoreState:
    """What counts score at one moment: the sum, over topology keys, of the weighted pods in a node's domain."""

    def __init__(self, keys: TopologyKeys, counts: Sequence[TopologyCounts]) -> None:
        self._own: list[TopologyCounts] = []
        self._sums: dict[int, DomainSums] = {}
        for each in counts:
            if keys.is_unique(each.attribute):
                self._own.append(each)  # without a pod, too: the first one must be no reason to make this state anew
                continue
            if not each.counts.total:
                continue
            sums = self._sums.get(each.attribute)
            if sums is None:
                sums = self._sums[each.attribute] = DomainSums(keys.table, each.attribute)
            sums.add(each.counts, None, each.weight)

    def score(self, nodes: Nodes) -> Scores:
        scores = np.zeros(len(nodes.rows), np.int64)
        for sums in self._sums.values():
            sums.add_to(nodes.rows, scores)
        for each in self._own:
            add_own(each.counts, each.attribute, nodes.rows, scores, each.weight)
        return scores


def _any_on(counts: Iterable[TopologyCounts], rows: NDArray[np.int32]) -> Flags:
    found = np.zeros(len(rows), np.bool_)
    for each in counts:
        found |= each.counts.array()[rows] > 0
    return found
