"""Soft constraints: fewer pods in a node's domains score higher.

A constraint gives a node count * ln(domains + 2) + maxSkew - 1, where domains are those of the feasible nodes: a key with many domains has
few pods in each, and is to weigh as much as one with few. Sums are rounded once, half away from zero.
Reference: plugins/podtopologyspread/scoring.go of Kubernetes v1.35.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import msgspec

from koordsched._core.counts import count_eligible
from koordsched._core.shares import Shares, normalize_to_least

if TYPE_CHECKING:
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Scores
    from koordsched.plugins.podtopologyspread.eligible_domains import RowFlags, SpreadCounts


class SpreadScore(msgspec.Struct, frozen=True):
    """What the soft constraints of one pod score. scored: rows (by flag) that are scored, all others get 0; None: all."""

    shares: Shares
    scored: RowFlags | None

    def raw(self, nodes: Nodes) -> Scores:
        """Return each row's sum over the constraints: more for more pods."""
        return self.shares.scores(nodes.rows, self.scored)

    def normalize(self, nodes: Nodes, scores: Scores) -> Scores:
        """Return 100 for the rows with the least sum, and less for others."""
        return normalize_to_least(scores, nodes.rows, self.scored)


def spread_score(counts: SpreadCounts, feasible: Nodes) -> SpreadScore:
    """Sum the pods of each soft constraint by domain as they are now, given which nodes are feasible."""
    found = counts.domains.soft_constraints(counts)
    shares = Shares(feasible.table)
    for soft in found.each:
        if soft.domains is None or soft.counted is None:
            considered = len(feasible) if found.scored is None else count_eligible(feasible.rows, found.scored)
            shares.add_rows(soft.counts, soft.attribute, log(considered + 2), soft.offset)
            continue
        size, absent = soft.domains.among(feasible.rows)
        # Unless all keys are required, nodes that lack the key are one more domain.
        size += absent and found.scored is None
        shares.add_domains(soft.counted.sum(soft.counts), log(size + 2), soft.offset)
    return SpreadScore(shares, found.scored)
