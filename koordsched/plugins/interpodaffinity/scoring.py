"""What an interest's counters are worth for each node: the sum, over topology keys, of the weighted pods in the node's domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.affinity import add_own
from koordsched._core.counts import DomainSums

if TYPE_CHECKING:
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Scores
    from koordsched.plugins.interpodaffinity.interest import Counter, Interest
    from koordsched.plugins.interpodaffinity.interests import Interests


class Scoring:
    """The counters that score: summed by domain at one moment, or looked at row by row where each value is one node's own."""

    def __init__(self, known: Interests, interest: Interest) -> None:
        self._own: list[Counter] = []
        self._sums: dict[int, DomainSums] = {}
        for counter in interest.wishes:
            if known.is_unique(counter.attribute):
                self._own.append(counter)  # without a count too: that it gets one is no reason to make this anew
                continue
            if not counter.counts.total:
                continue
            sums = self._sums.get(counter.attribute)
            if sums is None:
                sums = self._sums[counter.attribute] = DomainSums(known.cache.table, counter.attribute)
            sums.add(counter.counts, None, counter.weight)

    def score(self, nodes: Nodes) -> Scores:
        scores = np.zeros(len(nodes.rows), np.int64)
        for sums in self._sums.values():
            sums.add_to(nodes.rows, scores)
        for counter in self._own:
            add_own(counter.counts, counter.attribute, nodes.rows, scores, counter.weight)
        return scores
