"""The life of a serving process: ports, API server, scheduler; until a signal to stop, or the end of a task that must run.

Ports open first and close last, so that probes are answered all the while: alive from the beginning, ready between the end of the initial
lists and the first signal. A mistake of the operator ends the process with one line and code 1, a stop that was asked for with 0, a task
that died with 1: Kubernetes then starts a new process, which rebuilds everything from the API server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy.ma  # noqa: F401  # np.unique imports it in its first call: 20 ms for which a pod, or the loop, would wait

from koordsched.clock import Clock
from koordsched.cluster.apiserver import ConnectionSettings, connect
from koordsched.cluster.election import TermWatchdog
from koordsched.config import Flags, SchedulerConfiguration
from koordsched.config.features import parse_bool
from koordsched.framework.handle import SettingsError
from koordsched.frozen import frozen
from koordsched.log import get_logger
from koordsched.scheduler.scheduler import Dependencies, Scheduler
from koordsched.serve.endpoints import Endpoints, ProcessContext
from koordsched.serve.sync_barrier import SyncBarrier
from koordsched.server import StartError
from koordsched.server.access import ApiConnector
from koordsched.server.connecting import ApiConnection, Connect, Connecting
from koordsched.server.garbage import sweep
from koordsched.server.health import BootstrapHandler
from koordsched.server.heartbeat import Heartbeat, watching
from koordsched.server.leadership import Campaign, Leadership
from koordsched.server.serving_thread import ServingOptions, ServingThread, serving
from koordsched.server.signals import Reactions, handling_signals
from koordsched.tasks import Tasks

if TYPE_CHECKING:
    from koordsched.scheduler.tracing import Tracing

log = get_logger(__name__)

STOP_SECONDS = 6.0
"""What a clean stop may take. Koordinator's Deployment has the kubelet kill after 10 s, and ports and connections are to be closed, too."""
KILL_SECONDS = 1.0
CONDITIONS_SECONDS = 0.5
"""How long a successor waits for the last conditions. It decides about the same pods anew, and says so itself."""
CONTROLLERS_SECONDS = 1.0
"""How long the first pods have the scheduler for themselves: then controllers look at all that was listed, a status each."""
STREAMING_LISTS = "KUBE_FEATURE_WatchListClient"
"""The environment variable by which client-go's programs read lists as a stream."""
STOPPED, FAILED = 0, 1
"""Exit codes."""


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to serve, and what the process needs for it. `exit_at_once` ends the process without any clean-up."""

    config: SchedulerConfiguration
    flags: Flags
    clock: Clock
    random: Random
    connect: Connect = connect
    stop_seconds: float = STOP_SECONDS
    exit_at_once: Callable[[int], object] = os._exit
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop  # of the serving thread
    guard: TermWatchdog | None = None  # ends a process that has lost the lease and cannot notice
    tracing: Tracing | None = None  # None: no attempt is traced


class Process:
    """One serving process; `run` is its life."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._bootstrap = BootstrapHandler(options.flags)
        self._stop_asked = asyncio.Event()
        self._scheduler: Scheduler | None = None
        self._tasks = Tasks(options.random)
        self._heartbeat = Heartbeat(options.clock)
        self._dumping: asyncio.Task[None] | None = None
        self._serving: ServingThread | None = None
        self._leadership: Leadership | None = None
        if options.config.leader_election.leader_elect:
            lost = partial(options.exit_at_once, FAILED)
            campaign = Campaign(options.connect, options.clock, options.random, lost, self._heartbeat, options.guard)
            self._leadership = Leadership(options.config, campaign)

    async def run(self) -> int:
        """Serve; return the exit code."""
        options = self._options
        reactions = Reactions(self._stop_asked.set, partial(options.exit_at_once, FAILED), self._dump)
        try:
            with handling_signals(reactions), watching(self._heartbeat, options.clock):
                self._tasks.keep("heartbeat", self._heartbeat.beat)
                connector = ApiConnector(options.connect, options.clock, Random(options.random.getrandbits(64)))
                watch_connections = self._bootstrap.metrics.watch_connections
                ports = ServingOptions(options.flags, connector, self._bootstrap, watch_connections, options.new_loop, self._is_busy)
                async with serving(ports) as self._serving:
                    return await self._serve()
        except StartError as error:
            log.error(str(error))
            return FAILED
        finally:
            await self._tasks.end()

    async def _serve(self) -> int:
        options = self._options
        connector = Connecting(options.connect, options.clock, options.random)
        connecting = asyncio.create_task(connector.connected(self._settings(), self._bootstrap.wait_for))
        if not await self._before_stop(connecting):
            await _cancel(connecting)
            return STOPPED
        connection = connecting.result()
        self._bootstrap.metrics.watch(connection.traffic)
        self._bootstrap.metrics.watch_loop(self._heartbeat)
        if self._leadership is not None:
            self._bootstrap.metrics.watch_leadership(self._leadership)
        self._tasks.keep("garbage collection", partial(sweep, self._is_busy))
        try:
            return await self._schedule(connection)
        finally:
            await _at_most(KILL_SECONDS, asyncio.create_task(connection.close()))

    def _is_busy(self) -> bool:
        return self._scheduler is not None and self._scheduler.has_backlog

    def _settings(self) -> ConnectionSettings:
        client, leadership = self._options.config.client_connection, self._leadership
        return ConnectionSettings(
            kubeconfig=client.kubeconfig,
            master=self._options.flags.master,
            qps=client.qps,
            burst=client.burst,
            streaming_lists=parse_bool(os.environ.get(STREAMING_LISTS, "")) is True,
            may_decide=None if leadership is None else leadership.term.check,
        )

    async def _schedule(self, connection: ApiConnection) -> int:
        """Schedule until a signal to stop, or until a task dies."""
        options = self._options
        try:
            interval = options.flags.cache_check_interval
            scheduler = Scheduler(
                options.config,
                Dependencies(
                    connection, options.clock, options.random, options.flags, cache_check_interval=interval, tracing=options.tracing
                ),
            )
        except SettingsError as mistake:
            raise StartError(str(mistake)) from None
        self._scheduler = scheduler
        context = ProcessContext(self._leadership, self._bootstrap.metrics, {"scheduling-loop": self._heartbeat.health})
        endpoints = Endpoints(scheduler, context)
        self._bootstrap.hand_over(endpoints)
        dying: list[asyncio.Task[Any]] = [asyncio.create_task(scheduler.until_failed())]
        if self._serving is not None:
            dying.append(asyncio.create_task(self._serving.ended()))
        if self._leadership is not None:
            dying.append(asyncio.create_task(self._leadership.lost()))
        starting = asyncio.create_task(self._start(scheduler, connection))
        if await self._before_stop(starting, *dying) and starting.done():
            starting.result()
            await self._before_stop(*dying)
        dead = next((task for task in dying if task.done()), None)
        if dead is not None:
            await _at_most(KILL_SECONDS, asyncio.create_task(_kill(scheduler)))
            if (failure := dead.result()) is not None:  # without one the lease is lost, which has been said
                task, error = failure
                log.exception("a task that must run has ended, and so does the process", task=task, err=repr(error), exc_info=error)
            return FAILED
        endpoints.shutting_down = True
        await _cancel(starting, *dying)
        await self._stop(scheduler)
        return STOPPED

    async def _start(self, scheduler: Scheduler, connection: ApiConnection) -> None:
        """Fill the caches and, when this process leads, schedule; with delayCacheUntilActive the caches are filled after that only."""
        leadership, late = self._leadership, self._options.config.delay_cache_until_active
        if leadership is not None and late:
            await leadership.win(self._settings())
        with frozen():
            await scheduler.fill(early=True)
        self._heartbeat.filled()
        if leadership is not None and not late:
            await leadership.win(self._settings())
            barrier = SyncBarrier.of(self._options.flags, self._options.config.leader_election.resource_name)
            if barrier is not None:
                await barrier.wait(connection, self._options.clock, scheduler)
        scheduler.begin(CONTROLLERS_SECONDS)
        log.info("scheduling", nodes=scheduler.cache.table.live_count, pods=len(scheduler.cache.pods))

    async def _stop(self, scheduler: Scheduler) -> None:
        """Stop cleanly, but not for ever."""
        limit = self._options.stop_seconds
        stopping = asyncio.create_task(self._wind_up(scheduler))
        if await _at_most(limit, stopping):
            stopping.result()
            log.info("stopped")
            return
        log.error("a clean stop took too long; the rest is given up", seconds=limit, **scheduler.unfinished())
        stopping.cancel()
        await _at_most(KILL_SECONDS, asyncio.create_task(_kill(scheduler)))

    async def _wind_up(self, scheduler: Scheduler) -> None:
        """Stop the scheduler, and let a successor begin as soon as nothing is decided here any more."""
        if self._leadership is not None:
            await scheduler.settle()
            await _at_most(CONDITIONS_SECONDS, flushing := asyncio.create_task(scheduler.status_writer.flush()))
            await _cancel(flushing)
            if dropped := scheduler.status_writer.abandon():
                log.info("conditions are left to the next leader", pods=dropped)
            await self._leadership.resign()
        await scheduler.stop()

    async def _before_stop(self, *tasks: asyncio.Task[Any]) -> bool:
        """Wait until one of the tasks has ended; False when a signal to stop came first."""
        stop_asked = asyncio.create_task(self._stop_asked.wait())
        await asyncio.wait({stop_asked, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        await _cancel(stop_asked)
        return any(task.done() for task in tasks)

    def _dump(self) -> None:
        """Answer SIGUSR2: log cache, queue and a comparison with the cluster; one dump at a time."""
        if self._scheduler is None or not self._scheduler.synced:
            log.warning("there is nothing to dump yet: the initial lists have not been handled")
        elif self._dumping is None or self._dumping.done():
            self._dumping = self._tasks.once("dump", self._scheduler.debugger.log_all())


async def _kill(scheduler: Scheduler) -> None:
    with suppress(Exception):  # of the task that died: it has been logged
        await scheduler.kill()


async def _at_most(seconds: float, task: asyncio.Task[Any]) -> bool:
    """Wait for a task, which goes on if it does not end in time; return whether it ended."""
    await asyncio.wait({task}, timeout=seconds)
    return task.done()


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
