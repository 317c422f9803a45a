"""Sampling: looking at part of the nodes because the operator said so (`percentageOfNodesToScore` 1..99; framework.md §5.2).

The columns answer for all nodes anyway; sampling only limits which feasible ones may win, as kube-scheduler's does: nodes are examined in
zone order from where the last pod's search ended, until enough are feasible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched.framework.row_evaluation import normalized

if TYPE_CHECKING:
    from random import Random

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.shapes import Shape

MIN_FEASIBLE_NODES = 100
ALL = 100


def nodes_to_find(nodes: int, percentage: int) -> int | None:
    """Return how many feasible nodes are enough, None for all. 0 % is all nodes here, not adaptive (framework.md §5.2, [NEW])."""
    if percentage in {0, ALL} or nodes < MIN_FEASIBLE_NODES:
        return None
    return max(MIN_FEASIBLE_NODES, nodes * percentage // 100)


def uniform_index(random: Random, count: int) -> int:
    """Return one of 0..count-1, each with equal chance: what `random.randrange(count)` returns, at half its cost."""
    if count == 1:
        return 0
    bits = count.bit_length()
    index = random.getrandbits(bits)
    while index >= count:
        index = random.getrandbits(bits)
    return index


class Sampler:
    """Remembers where the last search ended."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._next_start = 0

    def sample(self, feasible_rows: NDArray[np.int32], wanted: int, among: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
        """Return the first `wanted` feasible rows from where the last search ended, in zone order. among: what was asked about."""
        order = self._cache.order.rows()
        if among is not None:
            order = order[np.isin(order, among, assume_unique=True)]
        start = self._next_start % len(order)
        order = np.concatenate((order[start:], order[:start]))
        feasible = np.flatnonzero(np.isin(order, feasible_rows, assume_unique=True))
        examined = int(feasible[wanted]) if len(feasible) > wanted else len(order)
        self._next_start = (start + examined) % len(order)
        return order[feasible[:wanted]]

    def totals(self, shape: Shape, pod: PodInfo, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the totals of these rows of a scored shape, normalised over them alone."""
        totals = np.zeros(len(rows), np.int64)
        nodes = self._cache.select(rows)
        for s, (plugin, weight) in enumerate(shape.scorers):
            if not shape.evaluation.is_enabled(s):
                continue
            totals += weight * normalized(plugin, shape.state, pod, nodes, shape.evaluation.raw_scores(s, rows))
        return totals
