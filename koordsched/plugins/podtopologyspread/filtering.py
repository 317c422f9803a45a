"""Hard constraints: which nodes would make the spread of pods too uneven.

Reference: plugins/podtopologyspread/filtering.go of Kubernetes v1.35. In a simulation it follows the two smallest domains only; here all
is counted again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koordsched._core.counts import DomainSums
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Codes, Flags
    from koordsched.plugins.podtopologyspread.eligible_domains import SpreadCounts

MISSING_LABEL = 1  # reason codes
TOO_UNEVEN = 2


class DomainLimit(msgspec.Struct, frozen=True):
    """A domain is full for a pod when its sum is above `most`; sums None: no node has the key."""

    sums: DomainSums | None
    most: int


def domain_limits(counts: SpreadCounts) -> list[DomainLimit]:
    """Sum the pods of each hard constraint by domain as they are now."""
    limits = []
    for constraint, row_counts in zip(counts.constraints.hard, counts.hard, strict=True):
        domains = counts.domains.of(constraint.topology_key, counts.hard_keys, constraint)
        if domains is None:
            limits.append(DomainLimit(None, 0))
            continue
        sums = domains.sum(row_counts)
        least = 0 if domains.present < constraint.min_domains else sums.least
        limits.append(DomainLimit(sums, constraint.max_skew + least - constraint.counts_itself))
    return limits


def refuse(limits: list[DomainLimit], nodes: Nodes) -> Codes:
    """Return each row's code: that of the first constraint that refuses it."""
    codes = np.zeros(len(nodes.rows), np.int32)
    for limit in limits:
        if limit.sums is None:
            codes[codes == 0] = MISSING_LABEL
        else:
            limit.sums.refuse_above(nodes.rows, codes, limit.most, TOO_UNEVEN, MISSING_LABEL)
    return codes


def affected_by_removals(counts: SpreadCounts, rows: NDArray[np.int32], codes: Codes) -> Flags:
    """Return on which rows the code could change if some of their pods went: the uneven ones that have pods which count.

    A node that passes goes on passing: its domain loses as many as went, and the smallest domain no more than that.
    """
    uneven: Flags = codes == TOO_UNEVEN
    if not uneven.any():
        return uneven
    counted = np.zeros(len(rows), np.bool_)
    for row_counts in counts.hard:
        counted |= row_counts.array()[rows] > 0
    return uneven & counted
