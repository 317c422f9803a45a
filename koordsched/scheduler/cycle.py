"""The way of a pod, from the queue to its node, in the order in which things happen (framework.md §5 and §6).

The scheduling cycle (`schedule`) runs without awaiting, so nothing changes under it, unless extenders or PostFilter have a say: then the
loop awaits it before the next pod. The binding cycle (`_bind`) runs beside it, and the next pod is scheduled on assumed state meanwhile.
Whatever goes wrong after the pod was assumed is undone in one place, `_undo`. A plugin that raises has a bug: that costs its pod an
attempt and is logged with a traceback, and the scheduler goes on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from koordsched.cache.cache import CacheError
from koordsched.cluster.event_series import EventText
from koordsched.framework.diagnosis import Diagnosis, fit_error
from koordsched.framework.handle import ExtenderError
from koordsched.framework.status import Code, PluginError, Status
from koordsched.framework.waiting import WaitingPod
from koordsched.log import get_logger
from koordsched.queue.events import ASSIGNED_POD_DELETE, Scope
from koordsched.scheduler.binding_tasks import BindingTasks, CancellableWaits
from koordsched.scheduler.failure import CLEAR_NOMINATION, Failure, bound_to

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import PostFilterResult
    from koordsched.framework.profile import Profile
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.extenders.binding import Binder
    from koordsched.scheduler.extenders.search import Search
    from koordsched.scheduler.failure import FailureHandler
    from koordsched.scheduler.selection import Selection

log = get_logger(__name__)

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"  # CycleState key: pods (by key) that plugins want tried now that this one is placed
LOOK_SECONDS = 0.1  # how often it is seen, at the end, which bindings have begun to wait meanwhile


class Attempt(msgspec.Struct, eq=False):
    """One pod on its way."""

    info: QueuedPodInfo
    pod: PodInfo
    profile: Profile
    state: CycleState
    node: str  # "" while there is none
    started: float  # Clock.perf


class Cycle:
    """Takes pods from the queue to their nodes."""

    def __init__(self, parts: SchedulerContext, profiles: Mapping[str, Profile], selection: Selection, failures: FailureHandler) -> None:
        self._parts = parts
        self._profiles = profiles
        self._selection = selection
        self._failures = failures
        self._search: Search | None = None
        self._binder: Binder | None = None
        self._waits = CancellableWaits()
        self.binding = BindingTasks()

    def ask_extenders(self, search: Search | None, binder: Binder | None) -> None:
        """Let extenders have a say in where pods go, and bind them."""
        self._search = search
        self._binder = binder

    # Scheduling cycle

    def schedule(self, info: QueuedPodInfo) -> Coroutine[None, None, None] | None:
        """Find a node for a popped pod, assume it there and start binding it, or hand it to the failure path.

        What is returned has to be awaited before the next pod is scheduled.
        """
        profile = self._profiles.get(info.profile)
        if profile is None or self._skip(info):
            self._parts.queue.done(info.uid)
            return None
        started = self._parts.clock.perf()
        if self._search is not None and self._search.wants(info.pod_info):
            return self._schedule_with_extenders(self._search, info, profile, started)
        try:
            state, found = self._selection.find(profile, info.pod_info)
        except PluginError as error:
            self._search_failed(info, profile, started, error)
            return None
        except Exception as error:
            log.exception("scheduling cycle failed", pod=info.key)
            self._search_broke(info, profile, started, error)
            return None
        found_at = self._parts.clock.perf()
        profile.watch.end_cycle(started, found_at)
        if isinstance(found, Diagnosis):
            attempt = Attempt(info, info.pod_info, profile, state, "", started)
            if found.plugins and profile.post_filter:
                return self._post_filter(attempt, found)
            self._no_node(attempt, found)
        else:
            self._parts.metrics.decided(found_at - started)
            self._place(Attempt(info, info.pod_info, profile, state, found, started))
        return None

    async def _schedule_with_extenders(self, search: Search, info: QueuedPodInfo, profile: Profile, started: float) -> None:
        """Do what `schedule` does for a pod that extenders want to see: nothing else is scheduled meanwhile."""
        try:
            found = await search.find(profile, info)
        except (PluginError, ExtenderError) as error:
            self._parts.metrics.decided(self._parts.clock.perf() - started)
            self._search_failed(info, profile, started, error)
            return
        except Exception as error:
            log.exception("scheduling cycle failed", pod=info.key)
            self._search_broke(info, profile, started, error)
            return
        if found is None or self._skip(info):
            self._parts.queue.done(info.uid)
            return
        state, node = found
        attempt = Attempt(info, info.pod_info, profile, state, "", started)
        if isinstance(node, str):
            self._parts.metrics.decided(self._parts.clock.perf() - started)
            attempt.node = node
            self._place(attempt)
        elif node.plugins and profile.post_filter:
            await self._post_filter(attempt, node)
        else:
            self._no_node(attempt, node)

    def _search_failed(self, info: QueuedPodInfo, profile: Profile, started: float, error: PluginError | ExtenderError) -> None:
        if isinstance(error, PluginError):
            profile.watch.fail_cycle(error.point, started)
            self._failures.handle(Failure(info, profile, error.status.message, status=error.status, started=started))
        else:
            profile.watch.drop_cycle()
            self._failures.handle(Failure(info, profile, str(error), nominate=CLEAR_NOMINATION, started=started))

    def _search_broke(self, info: QueuedPodInfo, profile: Profile, started: float, error: Exception) -> None:
        profile.watch.drop_cycle()
        self._failures.handle(Failure(info, profile, _bug(error), started=started))

    def _skip(self, info: QueuedPodInfo) -> bool:
        pod = info.pod_info.pod
        if pod.metadata.deletion_timestamp is not None:
            text = EventText("Warning", "FailedScheduling", "Scheduling", f"skip schedule deleting pod: {info.key}")
            self._parts.events(info.profile).event(pod, text)
            return True
        return self._parts.cache.is_assumed(info.uid)

    async def _post_filter(self, attempt: Attempt, diagnosis: Diagnosis) -> None:
        try:
            result, status = await attempt.profile.run_post_filter(attempt.state, attempt.pod, diagnosis)
            text = "" if status is None else status.message
        except Exception as error:
            log.exception("PostFilter failed", pod=attempt.info.key)
            result, text = None, _bug(error)
        self._no_node(attempt, diagnosis, text, result)

    def _no_node(self, attempt: Attempt, diagnosis: Diagnosis, text: str = "", result: PostFilterResult | None = None) -> None:
        """Say that there is no node; text: what PostFilter has to add."""
        self._parts.metrics.decided(self._parts.clock.perf() - attempt.started)
        message = f"{diagnosis.message} {text}" if text else diagnosis.message
        self._failures.handle(
            Failure(attempt.info, attempt.profile, message, diagnosis=diagnosis, nominate=result, started=attempt.started)
        )

    def _place(self, attempt: Attempt) -> None:
        """Assume, Reserve, Permit; then bind beside everything else."""
        pod, profile, parts = attempt.pod, attempt.profile, self._parts
        try:
            parts.cache.assume_pod(pod, attempt.node)
        except CacheError as error:
            self._failures.handle(Failure(attempt.info, profile, str(error), nominate=CLEAR_NOMINATION, started=attempt.started))
            return
        parts.queue.nominate(pod, "")
        waits: dict[str, float] = {}
        try:
            status = profile.run_reserve(attempt.state, pod, attempt.node)
            if status is None:
                status, waits = profile.run_permit(attempt.state, pod, attempt.node)
        except Exception as error:
            log.exception("Reserve or Permit failed", pod=pod.key, node=attempt.node)
            status = Status(Code.ERROR, (_bug(error),))
        if status is not None:
            self._undo(attempt, status)
            return
        self._activate(attempt.state)
        if waits:
            parts.waiting_pods.add(WaitingPod(pod, attempt.node, waits))
        self.binding.add(self._bind(attempt))

    def _activate(self, state: CycleState) -> None:
        pods = state.read(PODS_TO_ACTIVATE)
        if pods:
            state.delete(PODS_TO_ACTIVATE)
            self._parts.queue.activate(pods.values())

    async def wind_up(self) -> int:
        """Let the bindings end whose requests were sent; take back the others without a word, as nothing is wrong with their pods.

        Return how many those are. No pod may be scheduled any more.
        """
        left = 0
        while tasks := self.binding.tasks:
            left += self._waits.cancel()
            await asyncio.wait(tasks, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return left

    # Binding cycle

    async def _bind(self, attempt: Attempt) -> None:
        try:
            status = await self._run_binding(attempt)
        except asyncio.CancelledError:
            if self._waits.cancelled:
                self._take_back(attempt)
            raise
        except Exception as error:
            log.exception("binding cycle failed", pod=attempt.pod.key, node=attempt.node)
            status = Status(Code.ERROR, (_bug(error),))
        if status is not None:
            self._undo(attempt, status)

    async def _run_binding(self, attempt: Attempt) -> Status | None:
        """Wait on Permit, PreBind, Bind, PostBind; the first answer that is not success ends it."""
        pod, profile, state, node = attempt.pod, attempt.profile, attempt.state, attempt.node
        work, status = profile.pre_bind_work(state, pod, node)
        if status is not None:
            return status
        waiting = self._parts.waiting_pods.get(pod.uid)
        if waiting is not None or (work and any(plugin.takes_time for plugin in work)):
            self._parts.status_writer.nominate(pod, node)
        if waiting is not None:
            status = await self._wait_on_permit(waiting)
            if status is not None:
                return status
        self._parts.queue.done(pod.uid)  # from here on a failure is retried after a backoff, whatever happened meanwhile
        if work:  # takes no slot: volumes take minutes
            status = await profile.run_pre_bind(self._waits.around(work), state, pod, node)
        if status is not None:
            return status
        taken = False
        if self._binder is not None:
            taken, status = await self._binder.bind(pod, node)  # takes no slot: a slow extender holds back its own pods only
        if not taken:
            slots = self._parts.bind_slots
            if slots.locked():
                with self._waits.wait():
                    await slots.acquire()
            else:
                await slots.acquire()  # not `async with`: that is two coroutines more for every pod
            try:
                status = await profile.run_bind(state, pod, node)
            finally:
                slots.release()
        if status is None:
            self._bound(attempt)
        return status

    async def _wait_on_permit(self, waiting: WaitingPod) -> Status | None:
        begun = self._parts.clock.now()
        try:
            with self._waits.wait():
                status = await waiting.outcome()
        finally:
            self._parts.waiting_pods.remove(waiting.pod.uid)
        result = "scheduled" if status is None else "unschedulable"
        self._parts.metrics.waited_on_permit(result, self._parts.clock.now() - begun)
        return status

    def _bound(self, attempt: Attempt) -> None:
        info, parts = attempt.info, self._parts
        pod = attempt.pod.pod
        note = f"Successfully assigned {info.key} to {attempt.node}"
        parts.events(info.profile).event(pod, EventText("Normal", "Scheduled", "Binding", note))
        parts.status_writer.forget(info.uid)
        parts.metrics.attempted("scheduled", info.profile, parts.clock.perf() - attempt.started)
        if info.initial_attempt_timestamp is not None:
            parts.metrics.bound(info.attempts, parts.clock.now() - info.initial_attempt_timestamp)
        if info.after_flush:
            parts.metrics.bound_after_flush()
        try:
            attempt.profile.run_post_bind(attempt.state, attempt.pod, attempt.node)
        except Exception:
            log.exception("PostBind failed", pod=info.key, node=attempt.node)  # the pod is bound: there is nothing to undo
        self._activate(attempt.state)

    # Undoing

    def _undo(self, attempt: Attempt, status: Status) -> None:
        """Take back everything since the pod was assumed, tell the others that there is room, and hand the pod to the failure path."""
        parts, pod = self._parts, attempt.pod
        self._take_back(attempt)
        scope = Scope(exclude_uid=pod.uid) if status.rejected else Scope()
        parts.queue.move_all(ASSIGNED_POD_DELETE, bound_to(pod.pod, attempt.node), None, scope)
        message = fit_error(1, dict.fromkeys(status.reasons, 1)) if status.rejected else status.message
        self._failures.handle(
            Failure(attempt.info, attempt.profile, message, status=status, nominate=CLEAR_NOMINATION, started=attempt.started)
        )

    def _take_back(self, attempt: Attempt) -> None:
        """Undo what was done since the pod was assumed."""
        parts, pod = self._parts, attempt.pod
        parts.waiting_pods.remove(pod.uid)
        attempt.profile.run_unreserve(attempt.state, pod, attempt.node)
        if parts.cache.is_assumed(pod.uid):
            parts.cache.forget_pod(pod.uid)


def _bug(error: Exception) -> str:
    """Say for the pod's author that it is not their mistake."""
    return f"internal error, see the scheduler's log: {error!r}"
