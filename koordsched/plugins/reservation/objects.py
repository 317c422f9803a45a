"""The objects' side of reservations, one for all profiles (reservation.md §4).

Follows Reservations: what the plugin knows of those that have a node, and of those that have ended; and pods in operating mode. Called
before the scheduler's own handlers, which move pods: by then the capacity that came or went is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import POD, RESERVATION
from koordsched.api.koordinator.operating_pods import is_operating, problem_of_operating
from koordsched.api.koordinator.reserve_pods import has_ended, is_active, problem_of
from koordsched.cluster.event_series import EventText
from koordsched.log import get_logger
from koordsched.plugins.reservation.check import ReservationCheck
from koordsched.plugins.reservation.controller import ReservationKeeper
from koordsched.plugins.reservation.endpoint import ReservationEndpoint
from koordsched.plugins.reservation.gauges import register
from koordsched.plugins.reservation.reserve_pods import ReservationBinder
from koordsched.plugins.reservation.state import reservation_state

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.config.koordinator_args import ReservationArgs
    from koordsched.framework.handle import Handle
    from koordsched.plugins.reservation.state import ReservationState

log = get_logger(__name__)


def reservation_objects(handle: Handle, args: ReservationArgs) -> ReservationObjects:
    """Return what all profiles share, with the arguments of the first one. To be called while the plugin is made."""
    return handle.cache.shared.one(ReservationObjects, lambda: ReservationObjects(handle, args))


class OperatingPods:
    """A handler of pods: those in operating mode that are on nodes are reservations (reservation.md §16).

    Called before the scheduler's own handler, which counts them as the state says.
    """

    def __init__(self, handle: Handle, state: ReservationState) -> None:
        self._handle = handle
        self._state = state
        self._problems: dict[str, str] = {}  # by uid: what was last reported of a pod's annotations

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        if is_operating(pod):
            self._take_in(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        if is_operating(new):
            self._take_in(new)
        elif is_operating(old):
            self._drop(old.metadata.uid)

    def on_delete(self, pod: Pod, _final_state: FinalState) -> None:
        if is_operating(pod):
            self._drop(pod.metadata.uid)

    def _take_in(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        problem = problem_of_operating(pod.metadata.annotations)
        if problem != self._problems.get(uid, ""):
            self._problems[uid] = problem
            if problem:
                self._report(pod, problem)
        if pod.spec.node_name:
            self._state.put_pod(pod)
            info = self._state.by_uid.get(uid)
            if info is not None and info.problem and info.problem != problem:
                self._problems[uid] = info.problem
                self._report(pod, info.problem)

    def _report(self, pod: Pod, problem: str) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        log.warning("what a pod in operating mode says cannot be read", pod=key, problem=problem)
        self._handle.malformed_object("Pod")
        self._handle.event_on(pod, EventText("Warning", "InvalidOperatingMode", "Scheduling", problem))

    def _drop(self, uid: str) -> None:
        self._problems.pop(uid, None)
        self._state.remove(uid)


class ReservationObjects:
    """A handler of Reservations, and what else is done with the objects: giving them nodes, keeping them true, showing them."""

    def __init__(self, handle: Handle, args: ReservationArgs) -> None:
        self._handle = handle
        self._cache = handle.cache
        self._state = state = reservation_state(handle)
        self._problems: dict[str, str] = {}  # by uid: what was last reported of a Reservation's amounts
        informer = handle.informer(RESERVATION)
        informer.add_handler(self)
        handle.informer(POD).add_handler(OperatingPods(handle, state))
        self.binder = ReservationBinder(handle)
        self.controller = ReservationKeeper(handle, args, state)
        self.endpoint = ReservationEndpoint(state)
        register(handle.metrics, informer.store)
        handle.cache.checked.append(ReservationCheck(handle.cache, state, informer.store))

    def on_add(self, reservation: Reservation, _arrival: Arrival) -> None:
        self._take_in(reservation)

    def on_update(self, _old: Reservation, new: Reservation) -> None:
        self._take_in(new)

    def on_delete(self, reservation: Reservation, _final_state: FinalState) -> None:
        self._problems.pop(reservation.metadata.uid, None)
        self._state.remove(reservation.metadata.uid)

    def _take_in(self, reservation: Reservation) -> None:
        uid, problem = reservation.metadata.uid, ""
        if is_active(reservation) and problem_of(reservation) is None:
            problem = self._state.put(reservation)
        elif has_ended(reservation) or not self._cache.is_assumed(uid):  # assumed: it is about to get its node
            self._state.remove(uid)
        if problem != self._problems.get(uid, ""):
            self._report(reservation, problem)

    def _report(self, reservation: Reservation, problem: str) -> None:
        uid = reservation.metadata.uid
        self._problems.pop(uid, None)
        if problem:
            self._problems[uid] = problem
            log.warning("what a Reservation holds cannot be read and is not held", reservation=reservation.metadata.name, problem=problem)
            self._handle.malformed_object("Reservation")
            text = f"nothing is reserved, since the amounts cannot be read: {problem}"
            self._handle.event_on(reservation, EventText("Warning", "InvalidReservation", "Scheduling", text))
