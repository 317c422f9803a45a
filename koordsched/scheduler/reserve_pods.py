"""Reservations on their way through the scheduler: handlers that bring them into the queue as reserve pods (reservation.md §4).

A Reservation without a node waits in the queue as a reserve pod. Once it has one, the plugin Reservation counts it on its node, before
these handlers are called; here pods are moved that its coming and going may help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import PodSpec
from koordsched.api.koordinator.reserve_pods import DEFAULT_SCHEDULER, ReservePod, has_ended, problem_of, reserve_pod, reserve_pod_key
from koordsched.api.quantity import QuantityError
from koordsched.cluster.object_store import Arrival, FinalState
from koordsched.log import get_logger
from koordsched.queue.event_detection import pod_update_events
from koordsched.queue.events import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE
from koordsched.scheduler.failure import UNSCHEDULABLE, report
from koordsched.scheduler.handlers import PodHandler
from koordsched.scheduler.origins import PodStatusUpdate, origin_of, reservation_of

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.cluster.object_store import Handler
    from koordsched.scheduler.context import SchedulerContext

log = get_logger(__name__)


class ReservationHandler:
    """Reports changes of Reservations as changes of the pods that stand for them. One that is invalid or has ended has none.

    Handlers of plugins are called before the pod comes into the queue or leaves it.
    """

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._pods = _ReservePodHandler(context)
        self._live = context.reserve_pods
        self._handlers: list[Handler[Pod]] = [*context.reserve_pod_handlers, self._pods]
        self._keys: dict[str, str] = {}  # by uid of a Reservation: the key of its pod

    def on_add(self, reservation: Reservation, arrival: Arrival) -> None:
        known, pod = self._known(reservation), self._pod_of(reservation)
        if known is not None and (pod is None or not _is_same(known, pod)):
            self._delete(known)
        if pod is not None:
            self._add(pod, arrival)

    def on_update(self, _old: Reservation, new: Reservation) -> None:
        known = self._known(new)
        pod = self._pod_of(new) if known is None or known.metadata.resource_version != new.metadata.resource_version else known
        if known is None or pod is None or not _is_same(known, pod):
            self._delete(known)
            if pod is not None:
                self._add(pod, Arrival.LATER)
        else:
            self._put(pod)
            for handler in self._handlers:
                handler.on_update(known, pod)

    def on_delete(self, reservation: Reservation, _final_state: FinalState) -> None:
        self._pods.forget_problem(reservation.metadata.uid)
        self._delete(self._known(reservation))

    def _known(self, reservation: Reservation) -> Pod | None:
        """Return the pod that stands for the Reservation as it was."""
        key = self._keys.get(reservation.metadata.uid)
        return None if key is None else self._live.get(key)

    def _put(self, pod: Pod) -> None:
        key = self._keys[pod.metadata.uid] = reserve_pod_key(pod)
        self._live[key] = pod

    def _add(self, pod: Pod, arrival: Arrival) -> None:
        self._put(pod)
        for handler in self._handlers:
            handler.on_add(pod, arrival)

    def _delete(self, pod: Pod | None) -> None:
        if pod is not None:
            del self._live[self._keys.pop(pod.metadata.uid)]
            for handler in self._handlers:
                handler.on_delete(pod, FinalState.KNOWN)

    def _pod_of(self, reservation: Reservation) -> ReservePod | None:
        """Make the pod of a Reservation; None if there is to be none."""
        if has_ended(reservation):
            return None
        problem = problem_of(reservation)
        try:
            if problem is None:
                return reserve_pod(reservation)
        except QuantityError as error:
            problem = str(error)
        template = reservation.spec.template
        named = next(iter(self._context.profiles)) if template is None else template.spec.scheduler_name or DEFAULT_SCHEDULER
        self._pods.report_problem(
            ReservePod(metadata=reservation.metadata, spec=PodSpec(scheduler_name=named), reservation=reservation), problem
        )
        return None


def _is_same(old: Pod, new: Pod) -> bool:
    """Answer whether the queue and the cache know both as one pod, which does not leave its node."""
    return old.metadata.namespace == new.metadata.namespace and old.spec.node_name in {"", new.spec.node_name}


class _ReservePodHandler(PodHandler):
    """Handles reserve pods as pods, but for those on nodes, which the plugin counts."""

    def __init__(self, context: SchedulerContext) -> None:
        super().__init__(context)
        self._problems: dict[str, str] = {}  # by uid: what was last reported of a Reservation

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        """Queue also the pods of the first list at once: they are not among those that `add_listed` is called with."""
        super().on_add(pod, Arrival.LATER)

    def report_problem(self, pod: Pod, problem: str) -> None:
        """Say why a Reservation is not scheduled where its author looks, once (D12); only if that is this scheduler's task."""
        uid, reservation = pod.metadata.uid, reservation_of(pod)
        if self._problems.get(uid) == problem or reservation.status.node_name or pod.spec.scheduler_name not in self._profiles:
            return
        self._problems[uid] = problem
        if origin_of(pod).reported(pod).message == problem:
            return  # a scheduler before this one has said it
        log.warning("a Reservation cannot be scheduled", reservation=reservation.metadata.name, problem=problem)
        self._context.metrics.framework.malformed_objects.increment("Reservation")
        report(self._context, pod, PodStatusUpdate(UNSCHEDULABLE, problem))

    def forget_problem(self, uid: str) -> None:
        if self._problems.pop(uid, None) is not None:
            self._context.status_writer.forget(uid)

    def _report_unreadable(self, pod: Pod, error: QuantityError) -> None:
        self.report_problem(pod, str(error))

    def _add_bound(self, pod: Pod) -> None:
        """Move pods that its affinity may help, and those of its owners to which what it holds is free from now on (D20)."""
        self._context.queue.move_all(ASSIGNED_POD_ADD, None, pod)
        self._context.queue.move_all(ASSIGNED_POD_DELETE, pod, None)

    def _was_bound(self, old: Pod, new: Pod) -> None:
        self._end_wait_on_permit(new.metadata.uid)  # another scheduler was faster
        super()._was_bound(old, new)

    def _update_bound(self, old: Pod, new: Pod) -> None:
        before, after = self._read(old), self._read(new)
        for event in pod_update_events(before, after) if before is not None and after is not None else ():
            self._context.queue.move_all(event, old, new)
