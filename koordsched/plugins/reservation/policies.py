"""On which nodes there are reservations of which policy: one of Default must not be beside one of another (reservation.md §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.restriction import rows_named
from koordsched.plugins.reservation.info import DEFAULT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from koordsched.cache.cache import Cache
    from koordsched.plugins.reservation.info import ReservationInfo

    Rows = NDArray[np.int32]


class PoliciesOfNodes:
    """Counts matchable reservations by node, those of policy Default apart from others."""

    def __init__(self) -> None:
        self._nodes: dict[bool, dict[str, int]] = {True: {}, False: {}}  # by whether the policy is Default: by node, > 0
        self._counted: dict[str, bool] = {}  # by uid: among which of both a reservation is counted
        self._version = 0  # counts changes of which nodes there are
        self._rows: dict[bool, tuple[tuple[int, int], Rows]] = {}  # as of which version, and of which nodes in the cache

    def note(self, info: ReservationInfo) -> None:
        """Take over whether a reservation is matchable now."""
        now = info.policy == DEFAULT if info.matchable else None
        before = self._counted.get(info.uid)
        if now is before:
            return
        if before is not None:
            del self._counted[info.uid]
            self._count(before, info.node_name, -1)
        if now is not None:
            self._counted[info.uid] = now
            self._count(now, info.node_name, 1)

    def _count(self, default: bool, node: str, amount: int) -> None:  # a key
        nodes = self._nodes[default]
        before = nodes.get(node, 0)
        left = before + amount
        if left:
            nodes[node] = left
        else:
            del nodes[node]
        if not left or not before:
            self._version += 1

    def conflicting(self, policy: str, cache: Cache) -> Rows:
        """Return the rows of nodes with a reservation of Default where the policy is another, else of those with one of another."""
        default = policy != DEFAULT
        of = (self._version, cache.table.existence)
        known = self._rows.get(default)
        if known is None or known[0] != of:
            known = self._rows[default] = (of, rows_named(cache, self._nodes[default]))
        return known[1]
