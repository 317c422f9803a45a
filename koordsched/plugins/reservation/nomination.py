"""Which of its reservations a pod is given on the node that was chosen for it (reservation.md §9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koordsched._core.table import Request
    from koordsched.plugins.reservation.info import ReservationInfo
    from koordsched.plugins.reservation.matching import Matcher
    from koordsched.plugins.reservation.state import ReservationState


def nominate(state: ReservationState, matcher: Matcher, request: Request, row: int, node_name: str) -> ReservationInfo | None:
    """Return the reservation for a pod of the matcher that the row counts already; None: it goes without.

    The only one that a pod with affinity matches is given to it as it is; of others those that fit: the smallest order, the highest score,
    the oldest, the first name. O(reservations of the node).
    """
    matched = [info for info in state.on_node(node_name) if info.uid in matcher.matched]
    if not matched:
        return None
    required = matcher.demand.required
    if required and len(matched) == 1:
        return matched[0]
    table = state.table
    skips_fit = table.skips_fit and len(matched) == 1
    fitting = []
    for info in matched:
        if required or table.touches(info.slot, request):
            node, inside = table.fits(info.slot, request, row, counted=True)
            if not inside and (skips_fit or not node):
                fitting.append(info)
    if not fitting:
        return None
    ordered = [info for info in fitting if info.order]
    if ordered:
        return min(ordered, key=lambda info: (info.order, info.created, info.name))
    return min(fitting, key=lambda info: (-table.score(info.slot, request), info.created, info.name))
