"""The domains of the network as regions in which preemption makes room for a gang (coscheduling.md §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched.framework.preemption.regions import Region
from koordsched.plugins.coscheduling.network_tree import OUTSIDE
from koordsched.plugins.coscheduling.topology_plan import UNKNOWN_LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.plugins.coscheduling.topology_plan import Gathering


def regions_of(gathering: Gathering, members: int) -> Sequence[Region]:
    """Return the domains of which one has to take all members: those with more pods that attract them first, then by name. O(nodes)."""
    tree, level, multiples = gathering.tree, gathering.level, gathering.multiples
    if level == UNKNOWN_LEVEL or any(members % multiple for multiple in multiples):
        return ()
    depth = tree.arrays.depth
    rows = np.flatnonzero(tree.row_domains != OUTSIDE).astype(np.int32)
    above = [domains.tolist() for domains in tree.ancestors(tree.row_domains[rows])]  # for each level the domains of the rows
    parts: dict[int, list[int]] = {}  # by domain, the indexes of its rows
    for i, domain in enumerate(above[depth]):
        parts.setdefault(domain, []).append(i)
    if level > depth:
        found = {int(row): Region(rows[i : i + 1], multiple=multiples[level]) for i, row in enumerate(rows)}
    else:
        first = {domain: inside[0] for domain, inside in parts.items()}  # by domain, one of its rows
        found = {domain: Region(rows[inside], (), multiples[depth], multiples[depth + 1]) for domain, inside in parts.items()}
        for at in range(depth - 1, level - 1, -1):
            below: dict[int, list[int]] = {}
            for domain in sorted(found, key=lambda domain: tree.name_of(at + 1, domain)):
                below.setdefault(above[at][first[domain]], []).append(domain)
            made = {}
            for domain, inside in below.items():
                regions = [found[part] for part in inside]
                made[domain] = Region(np.sort(np.concatenate([region.rows for region in regions])), regions, multiples[at])
                first[domain] = first[inside[0]]
            found = made
    existing = np.zeros(tree.arrays.rows, np.int64)
    for row, pods in gathering.placed.existing.items():
        if row < len(existing):
            existing[row] += pods
    attracting = existing if level > depth else tree.arrays.sums(existing)
    allowed = gathering.allowed
    domains = sorted(
        (domain for domain in found if allowed is None or allowed[domain]),
        key=lambda domain: (-int(attracting[domain]), tree.name_of(level, domain)),
    )
    return [found[domain] for domain in domains]
