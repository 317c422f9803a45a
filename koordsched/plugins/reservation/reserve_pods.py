"""The end of a reserve pod's way: its Reservation gets the node, and what it holds there, by a patch of its status (reservation.md §5).

A patch whose answer was lost may have been carried out, so the Reservation is read until it is known: what is not undone in the cluster
must not be undone here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from msgspec import field

from koordsched.api.core import PodTemplateSpec, ResourceList
from koordsched.api.kinds import RESERVATION
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.koordinator.reservation_status import available
from koordsched.api.koordinator.reserve_pods import FAILED, RESIZE_ALLOCATABLE, SUCCEEDED, is_available, template_requests
from koordsched.api.meta import Api
from koordsched.api.quantity import NegativeQuantityError, QuantityError, nano
from koordsched.backoff import Backoff
from koordsched.clock import rfc3339
from koordsched.cluster.port import ClusterError, Conflict, NotFound, OutcomeUnknown, Patch, PatchType, Ref, ServerError, TooManyRequests
from koordsched.framework.status import Status, error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle

TRIES = 10
FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0  # seconds between two requests
MAY_PASS = (Conflict, OutcomeUnknown, ServerError, TooManyRequests)

NOT_ACTIVE = "reservation is not active"
NOTHING_REQUESTED = "nothing is reserved: the template requests nothing, and its limits do not count"


class _Resized(Api):
    resources: ResourceList = field(default_factory=dict)


class ReservationBinder:
    """Gives Reservations their nodes."""

    def __init__(self, handle: Handle) -> None:
        self._cluster = handle.cluster
        self._clock = handle.clock
        self._random = handle.random
        self._store: Mapping[str, Reservation] = handle.informer(RESERVATION).store

    async def bind(self, pod: PodInfo, node: str) -> Status | None:
        """Make the Reservation of a reserve pod Available on the node."""
        assert pod.reservation is not None
        name, uid = pod.reservation.metadata.name, pod.uid
        reservation, ref = self._store.get(name), Ref(RESERVATION, "", name)
        backoff = Backoff(self._random, first=FIRST_DELAY, cap=LONGEST_DELAY)
        left, unsure = TRIES, False
        while True:
            refusal: ClusterError | None = None
            try:
                if reservation is None:
                    reservation = cast("Reservation", await self._cluster.get(ref))
                outcome = _outcome(reservation, uid, node)
                if outcome is not None:
                    return error(outcome) if outcome else None
                if not left:
                    return error("the Reservation could not be given its node")
                left -= 1
                await self._cluster.patch(ref, Patch(self._body(reservation, node), PatchType.MERGE, "status"))
            except NotFound as gone:
                return error(gone.message)
            except MAY_PASS as passing:
                refusal = passing
                unsure = unsure or isinstance(passing, OutcomeUnknown | ServerError)
            except (Malformed, QuantityError) as mistake:
                return error(str(mistake))
            except ClusterError as final:
                return error(final.message)
            if refusal is None:
                return None
            if not left and not unsure:
                return error(refusal.message)
            if reservation is None or not isinstance(refusal, Conflict):
                await asyncio.sleep(max(backoff.delay(), getattr(refusal, "retry_after", 0.0)))
            reservation = None

    def _body(self, reservation: Reservation, node: str) -> dict[str, object]:
        """Return the patch. Malformed or QuantityError: what the Reservation holds cannot be read."""
        requests, template = template_requests(reservation), reservation.spec.template or PodTemplateSpec()
        resized = read_annotation(reservation.metadata.annotations, RESIZE_ALLOCATABLE, _Resized)
        for resource, amount in (resized.resources if resized is not None else {}).items():
            if nano(amount) < 0:
                raise NegativeQuantityError(amount, f"{RESIZE_ALLOCATABLE}: resources[{resource}]")
            requests[resource] = amount
        limits = any(container.resources.limits for container in (*template.spec.containers, *template.spec.init_containers))
        scheduled = NOTHING_REQUESTED if limits and not requests else ""
        return available(reservation, node, requests, rfc3339(self._clock.now()), scheduled=scheduled)


def _outcome(reservation: Reservation, uid: str, node: str) -> str | None:
    """Return why the Reservation cannot get the node, "" if it has it, None if it is still to be given."""
    if reservation.metadata.uid != uid:
        return f'reservation "{reservation.metadata.name}" is another one by now'
    if reservation.status.phase in {FAILED, SUCCEEDED} or reservation.metadata.deletion_timestamp is not None:
        return NOT_ACTIVE
    if is_available(reservation):
        return "" if reservation.status.node_name == node else f"it has the node {reservation.status.node_name} already"
    return None
