"""What is scheduled has an origin: a Pod of the cluster, or a Reservation for which a reserve pod stands (reservation.md §3).

The way from the queue to a node is the same for both. Where the cluster has to be looked at or written to, the origin is asked: whether
the pod still exists (`LivePods`), what its status says of scheduling, and how that is written (`Origin`). Events and annotations name the
Reservation by themselves (`cluster.event_body`, `framework.cycle_state`), and it is bound by the plugins of the interface
`BindReservationPlugin`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

import msgspec

from koordsched.api.kinds import POD, RESERVATION
from koordsched.api.koordinator.reservation_status import SCHEDULED, condition_of, unschedulable
from koordsched.api.koordinator.reserve_pods import ReservePod, has_ended
from koordsched.clock import rfc3339
from koordsched.cluster.port import Conflict, Patch, PatchType, Ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod, PodCondition
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.api.podinfo import PodInfo
    from koordsched.cluster.port import Cluster

POD_SCHEDULED = "PodScheduled"
TRIES = 3  # of a Reservation's condition, while other writers are faster


class PodStatusUpdate(msgspec.Struct, frozen=True):
    """What a pod's status has, or is to have, of scheduling: reason and message of PodScheduled=False, and the nominated node.

    An empty reason leaves the condition alone; nominated None leaves the nomination alone, "" clears it.
    """

    reason: str = ""
    message: str = ""
    nominated: str | None = None


class LivePods:
    """The pods of both origins as the cluster has them, by key. pods: those that are watched; reserve_pods: of Reservations."""

    __slots__ = ("pods", "reserve_pods")

    def __init__(self, pods: Mapping[str, Pod], reserve_pods: Mapping[str, Pod]) -> None:
        self.pods = pods
        self.reserve_pods = reserve_pods

    def of(self, pod: PodInfo) -> Pod | None:
        """Return the pod as the cluster has it now, which may be another one of its name; None when there is none."""
        return (self.pods if pod.reservation is None else self.reserve_pods).get(pod.key)

    def at(self, key: str) -> Pod | None:
        """Return the pod of a key, of whatever origin."""
        return self.pods.get(key) or self.reserve_pods.get(key)


class Origin(ABC):
    """What the status of one origin's objects says of scheduling."""

    @abstractmethod
    def reported(self, pod: Pod) -> PodStatusUpdate:
        """Return what the status says."""

    @abstractmethod
    async def report(self, cluster: Cluster, pod: Pod, update: PodStatusUpdate, now: float) -> None:
        """Write the update to the status. ClusterError."""


class PodOrigin(Origin):
    """Pods of the cluster: the condition PodScheduled and status.nominatedNodeName."""

    def reported(self, pod: Pod) -> PodStatusUpdate:
        condition = _pod_scheduled(pod)
        if condition is None or condition.status != "False":
            return PodStatusUpdate(nominated=pod.status.nominated_node_name)
        return PodStatusUpdate(condition.reason, condition.message, pod.status.nominated_node_name)

    async def report(self, cluster: Cluster, pod: Pod, update: PodStatusUpdate, now: float) -> None:
        meta, status = pod.metadata, dict[str, Any]()
        if update.reason:
            status["conditions"] = [_condition(pod, update, now)]
        if update.nominated is not None:
            status["nominatedNodeName"] = update.nominated or None
        body = {"metadata": {"uid": meta.uid}, "status": status}
        await cluster.patch(Ref(POD, meta.namespace, meta.name), Patch(body, PatchType.STRATEGIC, "status"))


class ReservationOrigin(Origin):
    """Reservations: the condition Scheduled. A nomination is known to the scheduler alone (reservation.md §12)."""

    def reported(self, pod: Pod) -> PodStatusUpdate:
        condition = condition_of(reservation_of(pod), SCHEDULED)
        if condition is None or condition.status != "False":
            return PodStatusUpdate(nominated="")
        return PodStatusUpdate(condition.reason, condition.message, "")

    async def report(self, cluster: Cluster, pod: Pod, update: PodStatusUpdate, now: float) -> None:
        """Write the condition, unless the Reservation has a node or has ended meanwhile: then there is nothing to say."""
        reservation, left = reservation_of(pod), TRIES
        ref, uid = Ref(RESERVATION, "", reservation.metadata.name), reservation.metadata.uid
        while update.reason and reservation.metadata.uid == uid and not reservation.status.node_name and not has_ended(reservation):
            body = unschedulable(reservation, update.message, rfc3339(now))
            try:
                await cluster.patch(ref, Patch(body, PatchType.MERGE, "status"))
            except Conflict:
                left -= 1
                if not left:
                    raise
                reservation = cast("Reservation", await cluster.get(ref))
            else:
                return


PODS, RESERVATIONS = PodOrigin(), ReservationOrigin()


def origin_of(pod: Pod) -> Origin:
    return RESERVATIONS if type(pod) is ReservePod else PODS


def reservation_of(pod: Pod) -> Reservation:
    """Return the Reservation for which a reserve pod stands."""
    assert isinstance(pod, ReservePod)
    return pod.reservation


def _condition(pod: Pod, update: PodStatusUpdate, now: float) -> dict[str, Any]:
    """Return the condition of a pod; its transition time stays while the status stays False."""
    before = _pod_scheduled(pod)
    since = before.last_transition_time if before is not None and before.status == "False" else None
    condition: dict[str, Any] = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": update.reason,
        "message": update.message,
        "lastTransitionTime": since or rfc3339(now),
    }
    if pod.metadata.generation:
        condition["observedGeneration"] = pod.metadata.generation
    return condition


def _pod_scheduled(pod: Pod) -> PodCondition | None:
    return next((condition for condition in pod.status.conditions if condition.type == POD_SCHEDULED), None)
