"""The objects' side of reservations, one for all profiles (reservation.md §4).

Follows Reservations: what the plugin knows of those that have a node, and of those that have ended. Called before the scheduler's own
handler, which moves pods: by then the capacity that came or went is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import RESERVATION
from koordsched.api.koordinator.reserve_pods import has_ended, is_active, problem_of
from koordsched.plugins.reservation.check import ReservationCheck
from koordsched.plugins.reservation.controller import ReservationKeeper
from koordsched.plugins.reservation.endpoint import ReservationEndpoint
from koordsched.plugins.reservation.gauges import register
from koordsched.plugins.reservation.reserve_pods import ReservationBinder
from koordsched.plugins.reservation.state import reservation_state

if TYPE_CHECKING:
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.config.koordinator_args import ReservationArgs
    from koordsched.framework.handle import Handle


def reservation_objects(handle: Handle, args: ReservationArgs) -> ReservationObjects:
    """Return what all profiles share, with the arguments of the first one. To be called while the plugin is made."""
    return handle.cache.shared.one(ReservationObjects, lambda: ReservationObjects(handle, args))


class ReservationObjects:
    """A handler of Reservations, and what else is done with the objects: giving them nodes, keeping them true, showing them."""

    def __init__(self, handle: Handle, args: ReservationArgs) -> None:
        self._cache = handle.cache
        self._state = state = reservation_state(handle)
        informer = handle.informer(RESERVATION)
        informer.add_handler(self)
        self.binder = ReservationBinder(handle, self._problem_of)
        self.controller = ReservationKeeper(handle, args, state)
        self.endpoint = ReservationEndpoint(state)
        register(handle.metrics, informer.store)
        handle.cache.checked.append(ReservationCheck(handle.cache, state, informer.store))

    def _problem_of(self, uid: str) -> str:
        info = self._state.by_uid.get(uid)
        return "" if info is None else info.problem

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
