"""Hard constraints: which nodes would make the pods too uneven.

Reference: plugins/podtopologyspread/filtering.go of Kubernetes v1.35. In a what-if it follows the two smallest domains only; here all
is counted again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from koordsched._core.counts import DomainSums
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.interface import Codes
    from koordsched.plugins.podtopologyspread.spread import Spread

MISSING_LABEL = 1  # reason codes
TOO_UNEVEN = 2


class Limit(msgspec.Struct, frozen=True):
    """A domain is full for this pod when its sum is above `most`; sums None: no node has the key."""

    sums: DomainSums | None
    most: int


def limits(spread: Spread) -> list[Limit]:
    """Count the pods of each hard constraint as they are now."""
    found = []
    for constraint, counts in zip(spread.demand.hard, spread.hard_counts, strict=True):
        domains = spread.places.domains(constraint.topology_key, spread.hard_keys, constraint)
        if domains is None:
            found.append(Limit(None, 0))
            continue
        sums = domains.sum(counts)
        least = 0 if domains.present < constraint.min_domains else sums.least
        found.append(Limit(sums, constraint.max_skew + least - constraint.counts_itself))
    return found


def refuse(found: list[Limit], nodes: Nodes) -> Codes:
    """Return each row's code: that of the first constraint that refuses it."""
    codes = np.zeros(len(nodes.rows), np.int32)
    for limit in found:
        if limit.sums is None:
            codes[codes == 0] = MISSING_LABEL
        else:
            limit.sums.refuse_above(nodes.rows, codes, limit.most, TOO_UNEVEN, MISSING_LABEL)
    return codes
