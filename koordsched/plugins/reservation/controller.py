"""The controller of Reservations: who has what of them, when they are used up or expire, and when they are deleted (reservation.md §14).

On the leader only. A Reservation is looked at when it or its owners change, at most once a second, and at the time at which something
is due: its expiry, or its deletion after it ended. What is written follows from the pods that the cluster shows on its node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import ObjectReference
from koordsched.api.kinds import NODE, POD, RESERVATION
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, RESTRICTED_OPTIONS, allocated_reservation
from koordsched.api.koordinator.reservation_status import EXPIRED, HAS_SUCCEEDED, expired, is_expired, of_no_use, owned
from koordsched.api.koordinator.reserve_pods import SUCCEEDED, has_ended
from koordsched.api.quantity import QuantityError, format_of, nano, quantity_text
from koordsched.api.resources import exact_requests
from koordsched.clock import parse_rfc3339, rfc3339
from koordsched.cluster.event_series import EventText
from koordsched.cluster.port import Conflict, NotFound, Patch, PatchType, Ref
from koordsched.config.duration import Duration, DurationError
from koordsched.framework.controllers import WorkQueue
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Node, Pod, ResourceList
    from koordsched.api.koordinator.reservations import Reservation, ReservationCondition
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.config.koordinator_args import ReservationArgs
    from koordsched.framework.handle import Handle
    from koordsched.plugins.reservation.state import ReservationState

log = get_logger(__name__)

LONGEST_SLEEP = 900.0  # seconds until what is due is looked at again: the clock may be set
DAY = 86400.0
WORKERS = 4
"""Reservations whose statuses are written at the same time: after a restart hundreds may be due, and each waits for the API server."""
UNLINK_GATE = "CleanExpiredReservationAllocated"
NODE_GONE = "its node is gone"


def key_of(reservation: Reservation) -> str:
    """Return what stands for a Reservation in the queue of work."""
    return f"{reservation.metadata.name}/{reservation.metadata.uid}"


class ReservationKeeper:
    """Keeps the status of every Reservation true, and deletes those that ended long ago."""

    def __init__(self, handle: Handle, args: ReservationArgs, state: ReservationState) -> None:
        self._handle = handle
        self._cluster = handle.cluster
        self._clock = handle.clock
        self._args = args
        self._state = state
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._pods: Mapping[str, Pod] = handle.informer(POD).store
        self._reservations: Mapping[str, Reservation] = handle.informer(RESERVATION).store
        self._work: WorkQueue[str] = WorkQueue("status of a Reservation")
        self._runs = False  # before it does, what there is need not be collected: it is all looked at then
        self._unreadable: dict[str, str] = {}  # by uid: the ttl or time that cannot be read and was reported
        handle.informer(RESERVATION).add_handler(self)
        handle.informer(NODE).add_handler(_NodeHandler(self))
        state.changed.append(self._owners_changed)

    # What may make a difference

    def on_add(self, reservation: Reservation, _arrival: Arrival) -> None:
        self._add(reservation)

    def on_update(self, old: Reservation, new: Reservation) -> None:
        """Look again at whatever may be another, its owners among them: what is written is compared with what the watch has shown, and so
        nothing is written where what is wanted was shown before the last write."""
        read = [reservation.metadata.annotations.get(RESTRICTED_OPTIONS) for reservation in (old, new)]
        if old.status != new.status or old.spec != new.spec or read[0] != read[1]:
            self._add(new)

    def on_delete(self, reservation: Reservation, _final_state: FinalState) -> None:
        self._unreadable.pop(reservation.metadata.uid, None)
        if self._handle.gates[UNLINK_GATE]:
            self._work.add(key_of(reservation))

    def node_deleted(self, name: str) -> None:
        for info in list(self._state.on_node(name)):
            if not info.operating:
                self._add(info.reservation)

    def _owners_changed(self, uid: str) -> None:
        info = self._state.by_uid.get(uid)
        if info is not None and not info.operating:
            self._add(info.reservation)

    def _add(self, reservation: Reservation) -> None:
        if self._runs:
            self._work.add(key_of(reservation))

    # The work

    async def run(self) -> None:
        self._runs = True
        for reservation in self._reservations.values():
            self._add(reservation)
        await self._work.run(self._look, WORKERS)

    async def _look(self, key: str) -> float | None:
        """Bring one Reservation up to date, and return in how many seconds something of it is due."""
        name, _, uid = key.rpartition("/")
        reservation = self._reservations.get(name)
        if reservation is None or reservation.metadata.uid != uid:
            if self._handle.gates[UNLINK_GATE]:
                await self._unlink_all(uid)
            return None
        try:
            if has_ended(reservation):
                return await self._delete_if_due(reservation)
            return await self._bring_up_to_date(reservation)
        except NotFound:
            return None
        except Conflict:
            return 0.0  # the watch has not shown yet what another writer did; once a second is often enough

    async def _bring_up_to_date(self, reservation: Reservation) -> float | None:
        node, now = reservation.status.node_name, self._clock.now()
        if not node and not self._args.expire_pending_reservations:
            return None
        due, why = self._expiry(reservation)
        if node and node not in self._nodes:
            due, why = now, NODE_GONE
        if due is not None and now >= due:
            await self._patch(reservation, expired(reservation, why, rfc3339(now)))
            log.info("a Reservation has expired", reservation=reservation.metadata.name, why=why)
            return None
        if node:
            if await self._write_problem(reservation):
                return 0.0  # the rest with the version that this has made
            await self._write_owners(reservation)
        return None if due is None else min(due - now, LONGEST_SLEEP)

    async def _write_owners(self, reservation: Reservation) -> None:
        info, status = self._state.by_uid.get(reservation.metadata.uid), reservation.status
        bound = [owner.pod for owner in info.owners.values() if owner.pod.spec.node_name == status.node_name] if info is not None else []
        pods = sorted(bound, key=lambda pod: pod.metadata.uid)
        owners = [ObjectReference(namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid) for pod in pods]
        allocated = _allocated(pods, status.allocatable)
        known = sorted(status.current_owners, key=lambda owner: owner.uid)
        same = [(owner.namespace, owner.name, owner.uid) for owner in known] == [(o.namespace, o.name, o.uid) for o in owners]
        if same and _amounts(status.allocated) == _amounts(allocated):
            return
        used_up = reservation.spec.allocate_once
        await self._patch(reservation, owned(reservation, owners, allocated, rfc3339(self._clock.now()), used_up=used_up))

    async def _write_problem(self, reservation: Reservation) -> bool:
        """Write why the Reservation is of no use, or that it is of use again; answer whether there was anything to write."""
        info, unreadable = self._state.by_uid.get(reservation.metadata.uid), self._unreadable.get(reservation.metadata.uid)
        problems = [] if info is None or not info.problem else [f"no pod can use it: {info.problem}"]
        problems += [] if unreadable is None else [f"it does not expire: {unreadable}"]
        body = of_no_use(reservation, "; ".join(problems), rfc3339(self._clock.now()))
        if body is not None:
            await self._patch(reservation, body)
        return body is not None

    async def _patch(self, reservation: Reservation, body: dict[str, object]) -> None:
        await self._cluster.patch(Ref(RESERVATION, "", reservation.metadata.name), Patch(body, PatchType.MERGE, "status"))

    def _expiry(self, reservation: Reservation) -> tuple[float | None, str]:
        """Return when the Reservation expires and why; None: never. `expires` counts only beside a ttl that is not 0."""
        spec, created = reservation.spec, reservation.metadata.creation_timestamp
        found: list[tuple[float, str]] = []
        reported = self._unreadable.pop(reservation.metadata.uid, "")
        try:
            ttl = None if spec.ttl is None else Duration.parse(spec.ttl)
            if ttl is not None and not ttl:
                return None, ""
            if ttl is not None and created is not None:
                found.append((parse_rfc3339(created) + ttl, f"its ttl of {spec.ttl} is over"))
            if spec.expires is not None:
                found.append((parse_rfc3339(spec.expires), f"it was to expire at {spec.expires}"))
        except (DurationError, ValueError) as mistake:
            self._report_unreadable(reservation, f"spec.ttl or spec.expires: {mistake}", reported)
        return min(found) if found else (None, "")

    def _report_unreadable(self, reservation: Reservation, problem: str, reported: str) -> None:
        self._unreadable[reservation.metadata.uid] = problem
        if problem != reported:
            log.warning("a Reservation's ttl or time of expiry cannot be read", reservation=reservation.metadata.name, problem=problem)
            self._handle.event_on(reservation, EventText("Warning", "InvalidExpiration", "Scheduling", problem))

    # After the end

    async def _delete_if_due(self, reservation: Reservation) -> float | None:
        """Delete a Reservation that expired or succeeded, when it is old or its node is gone (the garbage collection of v1.8)."""
        args, node = self._args, reservation.status.node_name
        ended = _ended_at(reservation)
        if args.disable_garbage_collection or ended is None:
            return None
        due = ended + (args.gc_duration_seconds or DAY)
        left = due - self._clock.now()
        if left <= 0 or (node and node not in self._nodes):
            meta = reservation.metadata
            await self._cluster.delete(Ref(RESERVATION, "", meta.name), uid=meta.uid)
            log.info("a Reservation that had ended is deleted", reservation=meta.name)
            return None
        return min(left, LONGEST_SLEEP)

    async def _unlink_all(self, uid: str) -> None:
        """Take the link to a deleted Reservation off the pods that have it (gate CleanExpiredReservationAllocated)."""
        for pod in [pod for pod in self._pods.values() if allocated_reservation(pod.metadata.annotations) == uid]:
            meta = pod.metadata
            body = {"metadata": {"uid": meta.uid, "annotations": {RESERVATION_ALLOCATED: None}}}
            try:
                await self._cluster.patch(Ref(POD, meta.namespace, meta.name), Patch(body, PatchType.STRATEGIC))
            except (Conflict, NotFound):
                continue  # it is another pod by now, or none


class _NodeHandler:
    """Lets the Reservations of a deleted node be looked at."""

    def __init__(self, controller: ReservationKeeper) -> None:
        self._controller = controller

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        """Do nothing: Reservations that ended for want of the node stay ended."""

    def on_update(self, old: Node, new: Node) -> None:
        """Do nothing."""

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        self._controller.node_deleted(node.metadata.name)


def _ended_at(reservation: Reservation) -> float | None:
    """Return since when the Reservation has been over; None for one that failed for another reason, which stays."""
    if is_expired(reservation):
        found = _with_reason(reservation, EXPIRED)
        text = None if found is None else found.last_transition_time
    else:
        found = _with_reason(reservation, HAS_SUCCEEDED) if reservation.status.phase == SUCCEEDED else None
        text = None if found is None else found.last_probe_time
    try:
        return None if text is None else parse_rfc3339(text)
    except ValueError:
        return None


def _with_reason(reservation: Reservation, reason: str) -> ReservationCondition | None:
    return next((condition for condition in reservation.status.conditions if condition.reason == reason), None)


def _allocated(pods: Iterable[Pod], allocatable: ResourceList) -> ResourceList:
    """Return what the pods request together of what the Reservation has."""
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in exact_requests(pod).items():
            if name in allocatable:
                total[name] = total.get(name, 0) + amount
    return {name: quantity_text(amount, format_of(allocatable[name])) for name, amount in total.items()}


def _amounts(amounts: ResourceList) -> dict[str, int]:
    """Return amounts to compare; what cannot be read equals nothing."""
    try:
        return {name: found for name, amount in amounts.items() if (found := nano(amount))}
    except QuantityError:
        return {"": -1}
