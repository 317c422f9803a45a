"""Soft constraints: how crowded each node's domains are; fewer pods score higher.

A constraint gives a node count * ln(domains + 2) + maxSkew - 1, where domains are those of the feasible nodes: a key with many domains has
few pods in each, and is to weigh as much as one with few. Sums are rounded once, half away from zero.
Reference: plugins/podtopologyspread/scoring.go of Kubernetes v1.35.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.counts import DomainSums, RowCounts, add_own_shares, count_eligible, normalize_to_least, round_half_away
from koordsched.plugins.podtopologyspread.constraints import HOSTNAME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Scores
    from koordsched.plugins.podtopologyspread.spread import Spread


class Share(msgspec.Struct, frozen=True):
    """What one constraint adds to a node's score."""

    attribute: int  # of the topology key
    counted: DomainSums | RowCounts  # a host name is a domain of its own: the node's pods, whatever the policies say
    weight: float
    offset: float


class Crowding(msgspec.Struct, frozen=True):
    """How crowded nodes are for one pod. scored: rows (by flag) that take part; None: all."""

    shares: list[Share]
    scored: NDArray[np.uint8] | None


def crowding(spread: Spread, feasible: Nodes) -> Crowding:
    """Count the pods of each soft constraint as they are now, given which nodes are feasible."""
    places = spread.places
    keys = spread.soft_keys if spread.demand.all_keys else ()
    scored = places.rows_with_all(keys) if keys else None
    considered = len(feasible) if scored is None else count_eligible(feasible.rows, scored)
    shares = []
    for constraint, counts in zip(spread.demand.soft, spread.soft_counts, strict=True):
        key, offset = constraint.topology_key, float(constraint.max_skew - 1)
        attribute, domains, counted = places.attribute(key), places.domains(key, keys), places.domains(key, keys, constraint)
        if attribute is None or domains is None or counted is None:
            continue  # no node has the key: nobody gets anything
        if key == HOSTNAME:
            shares.append(Share(attribute, counts, log(considered + 2), offset))
            continue
        size, absent = domains.among(feasible.rows)
        # Without all_keys nodes that lack the key are one more domain; with it they do not take part.
        size += absent and scored is None
        shares.append(Share(attribute, counted.sum(counts), log(size + 2), offset))
    return Crowding(shares, scored)


def score(found: Crowding, nodes: Nodes) -> Scores:
    """Return each row's raw score, 0 for those that do not take part."""
    total = np.zeros(len(nodes.rows), np.float64)
    for share in found.shares:
        if isinstance(share.counted, DomainSums):
            share.counted.add_shares(nodes.rows, total, share.weight, share.offset)
        else:
            add_own_shares(share.counted, share.attribute, nodes.rows, total, share.weight, share.offset)
    return round_half_away(total, nodes.rows, found.scored)


def normalize(found: Crowding, nodes: Nodes, scores: Scores) -> Scores:
    """Return 100 for the least crowded node and less for others, 0 for those that do not take part."""
    return normalize_to_least(scores, nodes.rows, found.scored)
