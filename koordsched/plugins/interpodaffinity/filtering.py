"""Which nodes an interest's counters refuse.

A counter of a topology key that many nodes share is reduced to one flag a domain, and these flags are all that a pod depends on besides
rows: as long as they stay, other pods may come and go. A key whose values are each one node's own (the host name) needs no flags: only the
row of a pod that came or went can get another answer, so its count is looked at when the row is asked about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.affinity import any_with, occupied, refuse_own, refuse_unless, refuse_where

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    from koordsched._core.counts import RowCounts
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Codes, Flags
    from koordsched.plugins.interpodaffinity.interest import Counter, Interest
    from koordsched.plugins.interpodaffinity.interests import Interests

BY_AFFINITY = 1  # reason codes
BY_ANTI_AFFINITY = 2
BY_EXISTING = 3


class Filtering:
    """The counters that filter, as they are at one moment. With equal keys and node labels a row that did not change is answered alike."""

    def __init__(self, known: Interests, interest: Interest) -> None:
        table = known.cache.table
        self._unreachable = interest.unreachable
        self._wanted: list[tuple[int, bytes | None]] = []  # topology key, its flags; None: the key is enough
        self._wanted_own: list[Counter] = []
        self._refusing: list[tuple[int, int, bytes]] = []  # reason, topology key, flags
        self._refusing_own: list[tuple[int, Counter]] = []
        for counter in interest.together:
            if known.is_unique(counter.attribute):
                self._wanted_own.append(counter)
            else:
                self._wanted.append((counter.attribute, occupied(table, counter.attribute, [counter.counts])))
        if interest.matches_itself and self._nobody():  # the first of its group needs nobody to be there
            self._wanted, self._wanted_own = [(counter.attribute, None) for counter in interest.together], []
        for reason, counters in ((BY_ANTI_AFFINITY, interest.apart), (BY_EXISTING, interest.existing)):
            for attribute, counts in _by_key(counters):
                if known.is_unique(attribute):
                    self._refusing_own += [(reason, counter) for counter in counters if counter.attribute == attribute]
                else:
                    self._refusing.append((reason, attribute, occupied(table, attribute, counts)))
        # Whether no node can be refused. Terms that mean the pod may be known without anybody having them.
        wants = interest.unreachable or bool(interest.together) or bool(interest.apart)
        self.idle = not wants and not any(counter.counts.total for counter in interest.existing)
        self.key: Hashable = (self.idle, self._unreachable, tuple(self._wanted), tuple(self._refusing))

    def _nobody(self) -> bool:
        if any(flags is not None and any(flags) for _, flags in self._wanted):
            return False
        return not any(any_with(counter.counts, counter.attribute) for counter in self._wanted_own)

    def refuse(self, nodes: Nodes) -> Codes:
        """Return a code per row. The pod's affinity is the first reason, then its anti-affinity, then that of the pods that are there."""
        table, rows = nodes.table, nodes.rows
        if self._unreachable:
            return np.full(len(rows), BY_AFFINITY, np.int32)
        codes = np.zeros(len(rows), np.int32)
        for attribute, flags in self._wanted:
            refuse_unless(table, attribute, flags, rows, codes, BY_AFFINITY)
        for counter in self._wanted_own:
            refuse_own(counter.counts, counter.attribute, rows, codes, BY_AFFINITY, holding=False)
        for reason in (BY_ANTI_AFFINITY, BY_EXISTING):
            for its_reason, attribute, found in self._refusing:
                if its_reason == reason:
                    refuse_where(table, attribute, found, rows, codes, reason)
            for its_reason, counter in self._refusing_own:
                if its_reason == reason:
                    refuse_own(counter.counts, counter.attribute, rows, codes, reason, holding=True)
        return codes


def swayed(interest: Interest, rows: NDArray[np.int32], codes: Codes) -> Flags:
    """Return on which rows the code could change if some of their pods went: such as the pod wants near, or such as keep it out."""
    found = _any_on((*interest.apart, *interest.existing), rows)
    found &= codes != 0
    found |= _any_on(interest.together, rows)
    return found


def _any_on(counters: Iterable[Counter], rows: NDArray[np.int32]) -> Flags:
    found = np.zeros(len(rows), np.bool_)
    for counter in counters:
        found |= counter.counts.array()[rows] > 0
    return found


def _by_key(counters: Iterable[Counter]) -> list[tuple[int, list[RowCounts]]]:
    """Return the counts in one list a topology key: whether a domain has any need only be known of all together."""
    found: dict[int, list[RowCounts]] = {}
    for counter in counters:
        found.setdefault(counter.attribute, []).append(counter.counts)
    return list(found.items())
