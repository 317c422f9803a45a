"""Scheduler: one scheduler on one cluster, from its first list to its last event.

Makes the parts, runs their tasks and ends them. `start` returns when everything that exists has been handled and pods are being scheduled;
a standby calls `fill` and, when it leads, `begin`. `stop` ends cleanly (nothing in flight, nothing unwritten), `kill` as a process that
dies: what must survive is on the cluster.
"""

from __future__ import annotations

import asyncio
import math
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import NODE, POD, RESERVATION
from koordsched.cache.plugin_state import PodsWith
from koordsched.cluster.event_body import EventSource
from koordsched.cluster.event_recorder import EventRecorder, RecorderOptions
from koordsched.cluster.object_store import OBJECTS_A_TURN, newer, object_key
from koordsched.config.catalogue import KOORDINATOR_POINTS, REFERENCE
from koordsched.config.plugin_sets import DEFAULT_PRE_BIND
from koordsched.framework.controllers import ALL_PLUGINS, Controller, controllers_of, is_enabled
from koordsched.framework.handle import EXTENDER
from koordsched.framework.profile import Profile
from koordsched.framework.timings import CycleTimings
from koordsched.framework.tracing import TracedTimings
from koordsched.log import get_logger
from koordsched.plugins import registry_for
from koordsched.queue.hints import hints_for
from koordsched.queue.nominator import Nominator
from koordsched.queue.profile import INFEASIBLE, QueueProfile, QueueSettings
from koordsched.queue.scheduling_queue import SchedulingQueue
from koordsched.scheduler.admission_probes import AdmissionProbes
from koordsched.scheduler.context import Dependencies, SchedulerContext
from koordsched.scheduler.cycle import Cycle
from koordsched.scheduler.explanations.controller import NAME as EXPLAINING
from koordsched.scheduler.explanations.controller import ExplanationController
from koordsched.scheduler.explanations.explanations import Explanations
from koordsched.scheduler.extenders.asking import HINTS
from koordsched.scheduler.failure import ConditionRefresher, FailureHandler
from koordsched.scheduler.handlers import EVENT_RESOURCES, NodeHandler, ObjectHandler, PodHandler, custom_event_kinds
from koordsched.scheduler.known_values import LABELS, ValueProblems
from koordsched.scheduler.nominations import NominationKeeper
from koordsched.scheduler.origins import LivePods
from koordsched.scheduler.plugin_handle import PluginHandle
from koordsched.scheduler.reserve_pods import ReservationHandler
from koordsched.scheduler.suggestions.answers import Answers
from koordsched.scheduler.waiting_groups import WaitingGroups
from koordsched.tasks import TaskFailure, Tasks, call_later

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence

    from koordsched.api.core import Node, Pod
    from koordsched.api.kinds import Kind
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.plugin_state import Concerns
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.object_store import Handler
    from koordsched.config import SchedulerConfiguration
    from koordsched.queue.events import EventHint
    from koordsched.queue.profile import ProbeResult
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.debugger import Debugger, Sources
    from koordsched.scheduler.extenders.chain import ExtenderChain

__all__ = ["Dependencies", "Scheduler"]

log = get_logger(__name__)

LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"  # a pod that reached a terminal phase leaves the watch like a deleted one
UNSCHEDULABLE_FLUSH_SECONDS = 30.0
KNOWN_CONTROLLERS = frozenset({ALL_PLUGINS, *REFERENCE.points})
"""What --controller-plugins may name though no profile has such a plugin, or none with controllers: what Koordinator's charts name."""


class Scheduler:
    """A scheduler. `queue`, `cache` and `metrics` are public to be read."""

    def __init__(self, config: SchedulerConfiguration, dependencies: Dependencies) -> None:
        self.config = config
        self.clock = dependencies.clock
        self._context = context = SchedulerContext(dependencies)
        self._waiting_groups = WaitingGroups(context)
        self.metrics = context.metrics
        self.cache = context.cache
        self.status_writer = context.status_writer
        self._informers = context.informers
        self._nodes: Informer[Node] = self._informers.of(NODE)
        self._pods: Informer[Pod] = self._informers.of(POD, LIVE_PODS)
        self._extenders = _extenders(config, context)
        self._handle = PluginHandle(context, dependencies.flags, self._extenders)
        registry = registry_for(config)
        metrics = self.metrics.framework if dependencies.measured else None
        tracing = dependencies.tracing
        timings = CycleTimings if tracing is None else TracedTimings
        for profile in config.profiles:
            made = Profile(profile, registry, self._handle, metrics, config.percentage_of_nodes_to_score, timings=timings)
            context.profiles[profile.scheduler_name] = made
            self.metrics.scheduling_timeout.child(profile.scheduler_name)
        self.profiles = context.profiles
        self._live = LivePods(self._pods.store, context.reserve_pods)
        self._conditions = ConditionRefresher(context, self._live)
        nominator = Nominator(self.cache)
        self.queue = SchedulingQueue(self.clock, self._queue_profiles(), self._queue_settings(dependencies), self.metrics, nominator)
        context.queue = self.queue
        host = socket.gethostname()
        for name in self.profiles:
            source = EventSource(name, f"{name}-{host}")
            recording = RecorderOptions(lambda: context.has_backlog, dependencies.suppressed)
            context.recorders[name] = EventRecorder(dependencies.cluster, self.clock, dependencies.random, source, recording)
        self._recorders = list(context.recorders.values())
        self.queue.call_on_backoff(self._arm)
        make_failures, make_cycle = (FailureHandler, Cycle) if tracing is None else (tracing.failure_handler, tracing.cycle)
        failures: FailureHandler = make_failures(context, self._live, self._conditions)
        checked = dependencies.flags.gates["DynamicSchedulerCheck"]
        self.explanations = Explanations(context, self._live, dependencies.flags)
        self.answers = Answers(context, self._live, self.explanations.explainer)
        self.cycle: Cycle = make_cycle(context, failures, self._live, self._extenders, checked=checked, explanations=self.explanations)
        self._nodes.add_handler(NodeHandler(context))
        self._nodes.add_handler(NominationKeeper(context, self.profiles, self._handle))
        self._pod_handler = PodHandler(context)
        self._pods.add_handler(self._pod_handler)
        custom = custom_event_kinds(plugin for profile in self.profiles.values() for plugin in profile.refusing)
        for informer in self._informers:
            if informer.kind is RESERVATION and any(profile.bind_reservation for profile in self.profiles.values()):
                informer.add_handler(ReservationHandler(context))
            if informer.kind.plural_group in EVENT_RESOURCES or informer.kind.plural_group in custom:
                informer.add_handler(ObjectHandler(context, informer.kind))
            if informer.kind in LABELS:
                informer.add_handler(ValueProblems(informer.kind, context).handler())
        if unwatched := custom - {informer.kind.plural_group for informer in self._informers}:
            log.warning("plugins registered events of kinds that no plugin watches: they never come", kinds=sorted(unwatched))
        self.cache.signatures.call(self._sign_again)
        self._tasks = Tasks(dependencies.random, self._fail)
        self._controllers = controllers_of(self.profiles.values()) | self._own_controllers()
        self._controller_tasks = Tasks(dependencies.random, self._fail)
        self._controller_plugins = dependencies.flags.controller_plugins
        self._loop_task: asyncio.Task[None] | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flush_due = 0.0
        self._failure: TaskFailure | None = None
        self._failed = asyncio.Event()
        self._check_interval = dependencies.cache_check_interval
        self._watch_sizes()
        self.metrics.show_outcomes(self.profiles)
        self.metrics.watch_informers(self._informers)
        self.metrics.watch_status_writer(self.status_writer)
        self._say_missing()

    # Running

    async def start(self) -> None:
        """List everything, then schedule. Returns when all that exists has been handled and the scheduling loop runs."""
        await self.fill()
        self.begin()

    async def fill(self, *, early: bool = False) -> None:
        """List everything, and keep cache and queue true to the cluster from then on; nothing is decided and nothing written.

        early: return as soon as enough is known to decide about all pending pods; the rest is read on (`scheduler.late_lists`).
        """
        late = self._context.late_lists
        if early:
            late.begin(self._informers, [plugin for profile in self.profiles.values() for plugin in profile.made.values()])
        for informer in self._informers:
            run = partial(late.run, informer) if informer in late.informers else informer.run
            self._tasks.must_run(f"informer of {informer.kind.plural}", run)
        await self._informers.synced(besides=late.informers)
        await self._queue_listed()
        late.want()
        queueing = self._tasks.once("queue of pods that wait for late lists", self._queue_held())
        if late.holds_any:
            await queueing
        if self._check_interval:
            self._tasks.keep("standing check", self._standing_check)

    async def _queue_held(self) -> None:
        """Queue the pods that wait for late lists, once these are known."""
        late = self._context.late_lists
        await late.known()
        for number, pod in enumerate(late.released(), 1):
            if pod.reservation is None:
                self._pods.repeat(pod.key)
            else:
                self._informers.of(RESERVATION).repeat(object_key(pod.reservation))
            if number % OBJECTS_A_TURN == 0:
                await asyncio.sleep(0)

    async def _queue_listed(self) -> None:
        """Queue the pending pods of the first list, so many a turn of the event loop as informers take over."""
        store = self._pods.store
        for number, key in enumerate(list(store), 1):
            if (pod := store.get(key)) is not None:
                try:
                    self._pod_handler.add_listed(pod)
                except Exception:  # noqa: BLE001  # it is logged, and tried again, where handlers are called
                    self._pods.repeat(key)
            if number % OBJECTS_A_TURN == 0:
                await asyncio.sleep(0)

    def begin(self, controllers_after: float = 0.0) -> None:
        """Schedule, once everything has been handled. controllers_after: seconds until the controllers of plugins begin."""
        self._tasks.keep("status writer", self.status_writer.run)
        for recorder in self._recorders:
            self._tasks.keep("event writer", recorder.run)
        for queue in self.explanations.queues:
            self._tasks.keep("log of decisions", queue.run)
        self._tasks.must_run("flush of unschedulable pods", self._flush_unschedulable)
        self._tasks.keep("monitor of scheduling", partial(self._context.monitor.run, self._under_way))
        self._loop_task = self._tasks.must_run("scheduling loop", self.cycle.run)
        self._begin_controllers(controllers_after)

    def _begin_controllers(self, after: float) -> None:
        """Start the controllers of plugins that --controller-plugins leaves on."""
        running = {name: found for name, found in self._controllers.items() if is_enabled(name, self._controller_plugins)}
        for plugin, controllers in running.items():
            for controller in controllers:
                start = self._controller_tasks.must_run if controller.vital else self._controller_tasks.keep
                start(f"controller {plugin}/{controller.name}", partial(_run_after, after, controller.run) if after else controller.run)
        if self._controllers:
            log.info("controllers of plugins", run=list(running), off=[name for name in self._controllers if name not in running])

    def _under_way(self) -> list[QueuedPodInfo]:
        """Return the pods that were popped and are not bound, and of which no attempt has failed since."""
        binding = {attempt.info.uid: attempt.info for attempt in self.cycle.binding.tasks.running}
        return [*binding.values(), *(info for info in self.queue.in_flight if info.uid not in binding)]

    def _own_controllers(self) -> dict[str, Sequence[Controller]]:
        """Return the controllers of no plugin: that of ScheduleExplanations, where a profile has any plugin of Koordinator's."""
        koordinators = KOORDINATOR_POINTS.keys() - {DEFAULT_PRE_BIND}  # which every profile has
        if not any(name in koordinators for profile in self.profiles.values() for name in profile.made):
            return {}
        explaining = ExplanationController(self._context, self.explanations.explainer, self.explanations.attempts)
        return {EXPLAINING: (Controller("scheduleexplanations", explaining.run),)}

    def watch_pods(self, handler: Handler[Pod]) -> None:
        """Report every live pod that there is and every change to the handler, after the scheduler itself has taken note."""
        self._pods.add_handler(handler)

    @property
    def synced(self) -> bool:
        """Whether every initial list has been handled."""
        return not self.unsynced

    @property
    def unsynced(self) -> list[str]:
        """Return the kinds, by plural and group, whose initial list has not been handled yet."""
        return self._informers.unsynced

    @property
    def watched(self) -> list[tuple[Kind, str]]:
        """Return the kinds that it lists and watches, each with its field selector, "" for all objects."""
        return [(informer.kind, informer.field_selector) for informer in self._informers if informer.watched]

    def has_seen_pods_until(self, version: str) -> bool:
        """Answer whether every change of pods up to this resource version has been taken in, by all handlers."""
        return not newer(version, self._pods.resource_version) and not self._pods.missed

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Return the live pods of the cluster as they were last seen and transformed, by key."""
        return self._pods.store

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Return the nodes of the cluster as they were last seen and transformed, by name."""
        return self._nodes.store

    def idle(self) -> bool:
        """Answer whether there is nothing to try, nothing on its way, and the condition of every pending pod is written."""
        sizes = self.queue.sizes()
        return (
            not (sizes.active or sizes.backoff or self.queue.in_flight or self.cycle.binding.tasks or self._conditions.pending)
            and not self._handle.running
            and self.status_writer.idle
        )

    @property
    def has_backlog(self) -> bool:
        """Whether pods wait to be tried, or placements for their turn to be bound."""
        return self._context.has_backlog

    async def stop(self) -> None:
        """Stop popping, finish what is being bound, write what is not written yet, and end."""
        await self.settle()
        await self.status_writer.flush()
        for recorder in self._recorders:
            await recorder.flush()

    async def settle(self) -> None:
        """Stop popping and finish what is being bound: nothing is decided from then on. The first part of `stop`, which may follow.

        What only waits (on Permit, for volumes, for its turn to be bound) is left: a standby must not wait for it, and no condition
        may say that such a pod is unschedulable, since autoscalers read it.
        """
        await self._controller_tasks.end()
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.wait([self._loop_task])
        if left := await self.cycle.binding.wind_up():
            log.info("placements that were not being written yet are left to the next scheduler", pods=left)
        await self._handle.end()
        await self._tasks.end()
        if self._extenders is not None:
            await self._extenders.close()
        self._conditions.stop()
        self._disarm()
        self._raise_failure()

    def unfinished(self) -> dict[str, int]:
        """Count what a stop has still to do."""
        return {
            "binds_in_flight": len(self.cycle.binding.tasks),
            "conditions_unwritten": self.status_writer.unwritten,
            "events_unwritten": sum(recorder.unwritten for recorder in self._recorders),
        }

    async def kill(self) -> None:
        """End at once, as a process does that is killed: nothing is finished, undone or written."""
        self._disarm()
        self._conditions.stop()
        await self._controller_tasks.end()
        await self._handle.end()
        await self._tasks.end()
        binding = self.cycle.binding.tasks.drop()
        for task in binding:
            task.cancel()
        if binding:
            await asyncio.wait(binding)
        if self._extenders is not None:
            await self._extenders.close()
        self._raise_failure()

    async def until_failed(self) -> TaskFailure:
        """Wait until a task that must run for ever has ended by itself, and return why: nothing can be relied on any more."""
        await self._failed.wait()
        assert self._failure is not None
        return self._failure

    def _raise_failure(self) -> None:
        """Raise the error that ended a task that must run. For a simulation, which ends the scheduler without awaiting `until_failed`."""
        if self._failure is not None:
            raise self._failure.error

    def _fail(self, task: str, error: Exception) -> None:
        self._failure = self._failure or TaskFailure(task, error)
        self._failed.set()

    # Time

    def _arm(self) -> None:
        """Set the timer of the backoff queue to its next expiry: a whole second."""
        due = self.queue.next_flush()
        if due is None or (self._flush_timer is not None and due >= self._flush_due):
            return
        self._disarm()
        self._flush_due = due
        self._flush_timer = call_later(max(0.0, due - self.clock.now()), self._flush_backoff)

    def _flush_backoff(self) -> None:
        self._flush_timer = None
        try:
            # A timer may fire a hair before its time in floating point: what is due at this second is flushed at this second.
            self.queue.flush_backoff(math.floor(self.clock.now() + 1e-6))
            self._arm()
        except Exception as error:  # noqa: BLE001  # it ends the process
            self._fail("flush of the backoff queue", error)  # or the timer would never be set again

    async def _flush_unschedulable(self) -> None:
        while True:
            # Every 30 seconds, but not where nothing can be due: a trace of months is simulated in minutes.
            ticks = math.ceil((self.queue.next_timeout() - self.clock.now()) / UNSCHEDULABLE_FLUSH_SECONDS)
            await asyncio.sleep(max(1, ticks) * UNSCHEDULABLE_FLUSH_SECONDS)
            self.queue.flush_unschedulable(self.clock.now())
            self.metrics.tidy()

    def _disarm(self) -> None:
        """Stop the timer."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    async def _standing_check(self) -> None:
        from koordsched.scheduler.debugger import StandingCheck  # noqa: PLC0415  # simulations have none

        await StandingCheck(self._sources(), self._informers, self.metrics).run(self._check_interval)

    # Making the parts

    def _queue_profiles(self) -> dict[str, QueueProfile]:
        return {
            name: QueueProfile(
                sort_key=profile.queue_sort.sort_key,
                pre_enqueue=profile.run_pre_enqueue,
                hints=hints_for(profile.refusing) | self._hints_of_extenders(),
                probe=partial(self._probe, profile),
                probe_without_preemption=profile.probe_without_preemption,
                unchanged_since_failure=profile.unchanged_since_failure,
                admission=None if profile.admission is None else AdmissionProbes(profile, profile.admission, self._conditions),
                group_plugin="" if profile.group_turn is None else profile.group_turn.name,
                group_still_refused=partial(self._waiting_groups.still_refused, profile),
            )
            for name, profile in self.profiles.items()
        }

    def _hints_of_extenders(self) -> dict[str, Sequence[EventHint]]:
        """Let every event retry the pods that an extender refused: what it looks at is not known."""
        return {EXTENDER: HINTS} if self._extenders is not None and self._extenders.choosing else {}

    def _probe(self, profile: Profile, pod: PodInfo) -> ProbeResult:
        """Probe for a waiting pod; where the outcome is INFEASIBLE, report reasons that are new to the pods of its shape."""
        outcome, diagnosis = profile.probe(pod)
        if diagnosis is None:
            return outcome, None
        if outcome is INFEASIBLE:
            self._conditions.note(profile, pod, diagnosis)
        return outcome, diagnosis.rejectors

    def _sign_again(self, concerns: Concerns) -> None:
        """Give the pods that wait the shapes they have now that plugins sign them differently."""

        def shape_of(info: QueuedPodInfo) -> Hashable | None:
            pod, profile = info.pod_info, self.profiles.get(info.profile)
            return profile.shapes.key(pod) if profile is not None and concerns(pod) else pod.shape

        self.queue.reshape(shape_of, concerns.needs if isinstance(concerns, PodsWith) else None)

    def _queue_settings(self, dependencies: Dependencies) -> QueueSettings:
        return QueueSettings(
            initial_backoff=self.config.pod_initial_backoff_seconds,
            max_backoff=self.config.pod_max_backoff_seconds,
            max_in_unschedulable=dependencies.flags.pod_max_in_unschedulable_pods_duration,
            pop_from_backoff=dependencies.flags.gates["SchedulerPopFromBackoffQ"],
        )

    def _watch_sizes(self) -> None:
        queue, cache = self.queue, self.cache
        self.metrics.watch_sizes(
            {
                "active": lambda: queue.sizes().active,
                "backoff": lambda: queue.sizes().backoff,
                "unschedulable": lambda: queue.sizes().unschedulable,
                "gated": lambda: queue.sizes().gated,
            },
            {
                "nodes": lambda: cache.table.live_count,
                "pods": lambda: len(cache.pods),
                "assumed_pods": lambda: cache.assumed_count,
            },
            lambda: cache.repairs,
        )
        tasks: dict[str, Callable[[], int]] = {
            "binding": lambda: len(self.cycle.binding.tasks),
            "preemption": lambda: self._handle.running,
        }
        chain = self._extenders
        if chain is not None:
            tasks["prioritizing_extender"] = lambda: chain.prioritizing
        self.metrics.watch_inflight(queue.inflight_events)
        self.metrics.watch_tasks(tasks)

    def _say_missing(self) -> None:
        for profile in self.profiles.values():
            if profile.missing:
                log.warning("plugins that this version does not have take no part", profile=profile.name, plugins=profile.missing)
        if unknown := [item for item in self._controller_plugins if item.removeprefix("-") not in {*self._controllers, *KNOWN_CONTROLLERS}]:
            log.warning("--controller-plugins names plugins without controllers", names=unknown)

    # To look at

    @property
    def debugger(self) -> Debugger:
        """Return what shows the scheduler's state and compares it with the cluster."""
        from koordsched.scheduler.debugger import Debugger  # noqa: PLC0415  # most runs never ask

        return Debugger(self._sources())

    def _sources(self) -> Sources:
        from koordsched.scheduler.debugger import Sources  # noqa: PLC0415  # as above

        return Sources(self._context, self._nodes, self._pods, self.profiles)


def _extenders(config: SchedulerConfiguration, context: SchedulerContext) -> ExtenderChain | None:
    """Make the extenders, if there are any. SettingsError."""
    if not config.extenders:
        return None
    from koordsched.scheduler.extenders.chain import ExtenderChain  # noqa: PLC0415  # brings an HTTP client that few need

    return ExtenderChain.of(config.extenders, context.cache, context.cluster)


async def _run_after(seconds: float, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await asyncio.sleep(seconds)
    await run()
