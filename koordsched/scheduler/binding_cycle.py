"""The binding cycle: an assumed pod's way from Permit to PostBind, beside the scheduling of others (framework.md §6).

WaitOnPermit -> PreBind -> Bind -> PostBind     a task: `_bind`
     | whatever goes wrong
     v
 undone in one place: `undo`
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koordsched.cluster.event_series import EventText
from koordsched.framework.diagnosis import fit_error
from koordsched.framework.status import error, internal_error
from koordsched.framework.waiting import WaitingPod
from koordsched.log import get_logger
from koordsched.queue.events import ASSIGNED_POD_DELETE, Scope
from koordsched.scheduler.binding_tasks import BindingTasks, CancellableWaits
from koordsched.scheduler.failure import SCHEDULER_NAME_UNMATCHED, Failure, bound_to, nomination_after

if TYPE_CHECKING:
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.status import Status
    from koordsched.scheduler.attempt import Attempt
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.extenders.chain import ExtenderChain
    from koordsched.scheduler.failure import FailureHandler
    from koordsched.scheduler.origins import LivePods
    from koordsched.semaphore import Semaphore

log = get_logger(__name__)

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"  # CycleState key: pods (by key) that plugins want tried now that this one is placed
POD_IS_BEING_DELETED = "pod is being deleted"
MOST_QUEUEING = 256
"""Placements that wait for their turn to be sent before no more pods are scheduled: what is decided later knows more of the cluster."""
LOOK_SECONDS = 0.1  # how often it is seen, at the end, which bindings have begun to wait meanwhile


class BindingCycles:
    """Binds assumed pods, each in a cycle of its own."""

    def __init__(
        self,
        context: SchedulerContext,
        failures: FailureHandler,
        pods: LivePods,
        extenders: ExtenderChain | None,
        *,
        checked: bool,
    ) -> None:
        """checked: whether a pod is looked at once more before it is bound."""
        self._context = context
        self._failures = failures
        self._pods = pods
        self._extenders = extenders
        self._checked = checked
        self._waits = CancellableWaits()
        self._queueing = 0  # bindings that wait for a slot
        self._caught_up = asyncio.Event()
        self.tasks: BindingTasks[Attempt] = BindingTasks()

    def permit(self, attempt: Attempt) -> None:
        """Run Permit, and start binding the pod if it is not refused."""
        status, waits = attempt.profile.run_permit(attempt.state, attempt.pod, attempt.node)
        if status is not None:
            self.undo(attempt, status)
            return
        self._activate(attempt.state)
        if waits:
            self._context.waiting_pods.add(WaitingPod(attempt.pod, attempt.node, waits, self._context.clock.now()))
        self.tasks.add(attempt, self._bind(attempt))

    def _activate(self, state: CycleState) -> None:
        pods = state.read(PODS_TO_ACTIVATE)
        if pods:
            state.delete(PODS_TO_ACTIVATE)
            self._context.queue.activate(pods.values())

    async def keep_up(self) -> None:
        """Give other tasks their turn, and wait while too many placements have not begun to be bound or queue for a slot."""
        await asyncio.sleep(0)
        while self.tasks.not_begun >= MOST_QUEUEING:  # noqa: ASYNC110  # each turn of the event loop begins one
            await asyncio.sleep(0)
        if self._queueing >= MOST_QUEUEING:
            self._caught_up.clear()
            await self._caught_up.wait()

    async def wind_up(self) -> int:
        """Let the bindings end whose requests were sent; take back the others without a word, as nothing is wrong with their pods.

        Return how many those are. No pod may be scheduled any more.
        """
        left = 0
        while tasks := self.tasks.tasks:
            left += self._waits.cancel()
            await asyncio.wait(tasks, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return left

    async def _bind(self, attempt: Attempt) -> None:
        try:
            status = await self._run_binding(attempt)
        except asyncio.CancelledError:
            if self._waits.cancelled:
                self.take_back(attempt)
            raise
        except Exception as error:
            log.exception("binding cycle failed", pod=attempt.pod.key, node=attempt.node)
            status = internal_error(error)
        if status is not None:
            self.undo(attempt, status)

    async def _run_binding(self, attempt: Attempt) -> Status | None:
        """Wait on Permit, PreBind, Bind, PostBind; the first answer that is not success ends it."""
        pod, profile, state, node = attempt.pod, attempt.profile, attempt.state, attempt.node
        work, status = profile.pre_bind_work(state, pod, node)
        if status is not None:
            return status
        waiting = self._context.waiting_pods.get(pod.uid)
        slow = any([plugin.takes_time for plugin in work])  # noqa: C419  # a generator costs more than the few plugins
        if waiting is not None or slow:
            self._context.status_writer.nominate(pod, node)
        if waiting is not None:
            status = await self._wait_on_permit(waiting)
            if status is not None:
                return status
        if self._checked:
            status = self._why_not_bound(attempt)
            if status is not None:
                return status
        self._context.queue.done(pod.uid)  # from here on a failure is retried after a backoff, whatever happened meanwhile
        if work:  # takes no slot: volumes take minutes
            extenders = self._extenders if pod.reservation is None else None
            by_plugin = extenders is None or not extenders.may_bind(pod)
            if slow:
                work = self._waits.around(work)
            status = await profile.run_pre_bind(work, state, pod, node, by_plugin=by_plugin)
        if status is not None:
            return status
        taken = False
        if self._extenders is not None and pod.reservation is None:
            taken, status = await self._extenders.bind(pod, node)  # takes no slot: a slow extender holds back its own pods only
        if not taken:
            slots = self._context.bind_slots
            if not slots.take():
                await self._queue_for(slots)
            try:
                status = await profile.run_bind(state, pod, node)
            finally:
                slots.release()
        if status is None:
            self._bound(attempt)
        return status

    async def _queue_for(self, slots: Semaphore) -> None:
        self._queueing += 1
        try:
            with self._waits.wait():
                await slots.wait()
        finally:
            self._queueing -= 1
            if self._queueing <= MOST_QUEUEING // 2:
                self._caught_up.set()

    def _why_not_bound(self, attempt: Attempt) -> Status | None:
        """Look at the pod as the cluster has it by now (frameworkext.md §4 item 11). None: it may be bound."""
        stored = (self._pods.pods if attempt.pod.reservation is None else self._pods.reserve_pods).get(attempt.info.key)
        if stored is None or stored.metadata.uid != attempt.info.uid:
            return error(f'pod "{attempt.pod.pod.metadata.name}" not found')
        if stored.spec.scheduler_name != attempt.info.profile:
            return error(SCHEDULER_NAME_UNMATCHED)
        return error(POD_IS_BEING_DELETED) if stored.metadata.deletion_timestamp is not None else None

    async def _wait_on_permit(self, waiting: WaitingPod) -> Status | None:
        begun = self._context.clock.now()
        try:
            with self._waits.wait():
                status = await waiting.outcome()
        finally:
            self._context.waiting_pods.remove(waiting.pod.uid)
        result = "scheduled" if status is None else "unschedulable"
        self._context.metrics.waited_on_permit(result, self._context.clock.now() - begun)
        return status

    def _bound(self, attempt: Attempt) -> None:
        info, context = attempt.info, self._context
        pod = attempt.pod.pod
        name = info.key if attempt.pod.reservation is None else attempt.pod.reservation.metadata.name
        note = f"Successfully assigned {name} to {attempt.node}"
        context.events(info.profile).event(pod, EventText("Normal", "Scheduled", "Binding", note))
        context.status_writer.forget(info.uid)
        context.metrics.attempted("scheduled", info.profile, context.clock.perf() - attempt.started)
        now = context.clock.now()
        if info.initial_attempt_timestamp is not None:
            context.metrics.bound(info.attempts, now - info.initial_attempt_timestamp)
        if now - info.since > context.monitor.timeout:
            context.monitor.ended(info, now)
        if info.after_flush:
            context.metrics.bound_after_flush()
        try:
            attempt.profile.run_post_bind(attempt.state, attempt.pod, attempt.node)
        except Exception:
            log.exception("PostBind failed", pod=info.key, node=attempt.node)  # the pod is bound: there is nothing to undo
        self._activate(attempt.state)

    # Undoing

    def undo(self, attempt: Attempt, status: Status) -> None:
        """Take back everything since the pod was assumed, move pods that the room may help, and hand the pod to the failure path."""
        context, pod = self._context, attempt.pod
        self.take_back(attempt)
        scope = Scope(exclude_uid=pod.uid) if status.rejected else Scope()
        context.queue.move_all(ASSIGNED_POD_DELETE, bound_to(pod.pod, attempt.node), None, scope)
        message = fit_error(1, dict.fromkeys(status.reasons, 1)) if status.rejected else status.message
        nominate = nomination_after(status, attempt)
        self._failures.handle(Failure(attempt.info, attempt.profile, message, status=status, nominate=nominate, started=attempt.started))

    def take_back(self, attempt: Attempt) -> None:
        """Undo what was done since the pod was assumed."""
        context, pod = self._context, attempt.pod
        context.waiting_pods.remove(pod.uid)
        attempt.profile.run_unreserve(attempt.state, pod, attempt.node)
        if context.cache.is_assumed(pod.uid):
            context.cache.forget_pod(pod.uid)
