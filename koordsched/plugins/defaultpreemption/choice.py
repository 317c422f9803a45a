"""What makes one candidate better than another (framework.md §7.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.plugins.defaultpreemption.occupants import started_at, tied_to_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo

Worth = tuple[int, int, int, int, int, float, int]
"""The smallest wins: violated budgets, priority of the most important victim, sum over victims of priority + 2^31, number of victims,
victims of DaemonSets (they can run nowhere else: kubernetes #141227), minus when the oldest of the most important victims started, place
in the order of nodes. As `_core.prospects.Prospects` has it, with the place added."""

WEIGHT = 1 << 31


class Candidate(msgspec.Struct, frozen=True):
    """A node with the pods that would have to leave it, the most important first."""

    row: int
    victims: Sequence[PodInfo]
    violations: int


def worth(candidate: Candidate, place: int) -> Worth:
    """Return what to compare a candidate by."""
    victims = candidate.victims
    top = victims[0].priority
    oldest = min(started_at(victim) for victim in victims if victim.priority == top)
    total = sum(victim.priority + WEIGHT for victim in victims)
    tied = sum(tied_to_node(victim.pod) for victim in victims)
    return candidate.violations, top, total, len(victims), tied, -oldest, place
