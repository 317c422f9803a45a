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

from koordsched._core.counts import Domains, RowCounts, count_eligible
from koordsched._core.shares import Shares, normalize_to_least
from koordsched.plugins.podtopologyspread.constraints import HOSTNAME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Scores
    from koordsched.plugins.podtopologyspread.spread import Spread


class Ground(msgspec.Struct, frozen=True):
    """Where one soft constraint counts its pods, until nodes change. domains: None where each node is a domain of its own."""

    attribute: int  # of the topology key
    counts: RowCounts
    offset: float
    domains: Domains | None = None  # in which the feasible nodes may be
    counted: Domains | None = None  # in which pods are counted, as the policies have it


class Grounds(msgspec.Struct, frozen=True):
    """Those of all soft constraints. scored: rows (by flag) that take part; None: all."""

    each: list[Ground]
    scored: NDArray[np.uint8] | None


class Crowding(msgspec.Struct, frozen=True):
    """How crowded nodes are for one pod. scored: rows (by flag) that take part; None: all."""

    shares: Shares
    scored: NDArray[np.uint8] | None


def grounds(spread: Spread) -> Grounds:
    """Return where the soft constraints count, found out anew after nodes changed."""
    kept = spread.places.grounds()
    found = kept.get(spread)
    if found is None:
        found = kept[spread] = _find_grounds(spread)
    return found


def _find_grounds(spread: Spread) -> Grounds:
    places = spread.places
    keys = spread.soft_keys if spread.demand.all_keys else ()
    found = []
    for constraint, counts in zip(spread.demand.soft, spread.soft_counts, strict=True):
        key, offset = constraint.topology_key, float(constraint.max_skew - 1)
        attribute, domains, counted = places.attribute(key), places.domains(key, keys), places.domains(key, keys, constraint)
        if attribute is None or domains is None or counted is None:
            continue  # no node has the key: nobody gets anything
        if key == HOSTNAME:
            found.append(Ground(attribute, counts, offset))  # the node's pods, whatever the policies say
        else:
            found.append(Ground(attribute, counts, offset, domains, counted))
    return Grounds(found, places.rows_with_all(keys) if keys else None)


def crowding(spread: Spread, feasible: Nodes) -> Crowding:
    """Count the pods of each soft constraint as they are now, given which nodes are feasible."""
    found = grounds(spread)
    shares = Shares(feasible.table)
    for ground in found.each:
        if ground.domains is None or ground.counted is None:
            considered = len(feasible) if found.scored is None else count_eligible(feasible.rows, found.scored)
            shares.add_rows(ground.counts, ground.attribute, log(considered + 2), ground.offset)
            continue
        size, absent = ground.domains.among(feasible.rows)
        # Without all_keys nodes that lack the key are one more domain; with it they do not take part.
        size += absent and found.scored is None
        shares.add_domains(ground.counted.sum(ground.counts), log(size + 2), ground.offset)
    return Crowding(shares, found.scored)


def score(found: Crowding, nodes: Nodes) -> Scores:
    """Return each row's raw score, 0 for those that do not take part."""
    return found.shares.scores(nodes.rows, found.scored)


def normalize(found: Crowding, nodes: Nodes, scores: Scores) -> Scores:
    """Return 100 for the least crowded node and less for others, 0 for those that do not take part."""
    return normalize_to_least(scores, nodes.rows, found.scored)
