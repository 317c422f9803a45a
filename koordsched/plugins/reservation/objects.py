"""Follows Reservations: what the plugin knows of those that have a node, and of those that have ended (reservation.md §4).

Called before the scheduler's own handler, which moves pods: by then the capacity that came or went is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.koordinator.reserve_pods import has_ended, is_active, problem_of

if TYPE_CHECKING:
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.cache.cache import Cache
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.plugins.reservation.state import ReservationState


class ReservationObjects:
    """A handler of Reservations."""

    def __init__(self, cache: Cache, state: ReservationState) -> None:
        self._cache = cache
        self._state = state

    def on_add(self, reservation: Reservation, _arrival: Arrival) -> None:
        self._take_in(reservation)

    def on_update(self, old: Reservation, new: Reservation) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._state.remove(old.metadata.uid)
        self._take_in(new)

    def on_delete(self, reservation: Reservation, _final_state: FinalState) -> None:
        self._state.remove(reservation.metadata.uid)

    def _take_in(self, reservation: Reservation) -> None:
        uid = reservation.metadata.uid
        if is_active(reservation) and problem_of(reservation) is None:
            self._state.put(reservation)
        elif has_ended(reservation) or not self._cache.is_assumed(uid):  # assumed: it is about to get its node
            self._state.remove(uid)
