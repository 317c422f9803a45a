"""Leadership: the election as a serving process takes part in it.

The elector lives in a thread of its own, with its own event loop and its own connection: a busy scheduler does not delay a renewal. But
nothing is renewed while the main loop does not run at all (`heartbeat`). The two loops share the `LeaderTerm` and the `Heartbeat`
alone; what happens reaches the main loop by `call_soon_threadsafe`. A lost lease ends the process from this thread, at once: the other one
may hang. And if this thread cannot run either, the guard's timer in the kernel does it
([decision 5](../../docs/decisions/0005-leader-election-and-fencing.md)).
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec
from msgspec.structs import replace

from koordsched._core import deadman
from koordsched.api.kinds import LEASE
from koordsched.cluster.election import ElectionConfig, Elector, LeaderTerm, Timing
from koordsched.cluster.event_body import EventSource
from koordsched.cluster.event_recorder import EventRecorder
from koordsched.cluster.event_series import EventText
from koordsched.cluster.port import ClusterError, Ref
from koordsched.log import get_logger, line
from koordsched.tasks import TaskFailure, Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.clock import Clock
    from koordsched.cluster.apiserver import ConnectionSettings
    from koordsched.cluster.election.term import TermWatchdog
    from koordsched.config import SchedulerConfiguration
    from koordsched.server.connecting import Connect
    from koordsched.server.heartbeat import Heartbeat

log = get_logger(__name__)

TOLERATED_SECONDS = 20.0
"""How long after its lease has run out a leader that still runs is unhealthy: client-go's HealthzAdaptor in kube-scheduler."""
LOST = "Leaderelection lost"
LAST_WORDS_SECONDS = 0.5
"""How long the line that says why the lease is lost may take; nothing is decided meanwhile, and the kernel's timer may be earlier."""
EVENTS_SECONDS = 1.0
"""How long the last event may take at a clean stop."""


class Campaign(msgspec.Struct, frozen=True):
    """What a candidate needs. `lost` is called in the elector's thread; it need not return. `heartbeat` is that of the main loop."""

    connect: Connect
    clock: Clock
    random: Random
    lost: Callable[[], object]
    heartbeat: Heartbeat
    guard: TermWatchdog | None = None


class Leadership:
    """One process's part in the election, seen from the main loop. `win` begins it; `resign` ends it."""

    name = "kube-scheduler"  # of the election, as kube-scheduler's leader_election_master_status has it, whatever the Lease is called

    def __init__(self, config: SchedulerConfiguration, campaign: Campaign) -> None:
        election = config.leader_election
        timing = Timing(election.lease_duration, election.renew_deadline, election.retry_period)
        self._me = ElectionConfig(
            f"{socket.gethostname()}_{UUID(int=campaign.random.getrandbits(128), version=4)}",
            Ref(LEASE, election.resource_namespace, election.resource_name),
            timing,
            lambda: campaign.heartbeat.late,
        )
        self.term = LeaderTerm(campaign.clock, timing, campaign.guard)
        self._campaign = campaign
        self._random = Random(campaign.random.getrandbits(64))  # that of the other thread is not to be shared
        self._source = EventSource(config.profiles[0].scheduler_name, self._me.identity)
        self._begun = self._resigned = False
        self._won = asyncio.Event()
        self._over = asyncio.Event()
        self._failure: TaskFailure | None = None
        self._leading = False
        self._main: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._resigning: asyncio.Event | None = None  # of the elector's loop

    @property
    def leading(self) -> bool:
        """Whether this process has won, and has neither lost nor resigned."""
        return self._leading

    def health(self) -> str:
        """Return what is wrong: a leader that could not renew its lease for far too long, and still runs."""
        age = self._campaign.clock.uptime() - self.term.renewed
        if self._leading and age > self._me.timing.lease_duration + TOLERATED_SECONDS:
            return f"failed election to renew leadership on lease {self._me.lease.name}"
        return ""

    async def win(self, settings: ConnectionSettings) -> None:
        """Take part, with these settings of the connection, and return when this process leads."""
        self._main = asyncio.get_running_loop()
        self._begun = True
        seconds = self._me.timing.request_timeout
        settings = replace(settings, request_timeout=seconds, connect_timeout=seconds, may_decide=None)
        thread = threading.Thread(target=self._run, args=(settings,), name="leader election", daemon=True)
        thread.start()
        await self._won.wait()

    async def lost(self) -> TaskFailure | None:
        """Wait until this process does not take part any more, and return what failed if that is a mistake of the program."""
        await self._over.wait()
        return self._failure

    async def resign(self) -> None:
        """Give the lease up, if it is held, and wait for that."""
        self._resigned = True
        self._leading = False
        self.term.end()
        if not self._begun:
            return
        if self._loop is not None and self._resigning is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._resigning.set)
        await self._over.wait()

    # In the elector's thread

    def _run(self, settings: ConnectionSettings) -> None:
        try:
            asyncio.run(self._take_part(settings))
        except BaseException as error:  # noqa: BLE001  # a thread must not die without a word
            self._failure = TaskFailure("leader election", error)
            self.term.end()
        self._report(self._over.set)

    async def _take_part(self, settings: ConnectionSettings) -> None:
        self._resigning = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._resigned:
            return
        campaign, background = self._campaign, Tasks(self._random)
        connection = await campaign.connect(settings, campaign.clock, self._random)
        try:
            elector = Elector(connection, self._me, self.term, campaign.clock, self._random)
            recorder = EventRecorder(connection, campaign.clock, self._random, self._source)
            background.keep("event writer of the election", recorder.run)
            tasks = [asyncio.create_task(self._lead(elector, recorder)), asyncio.create_task(self._resigning.wait())]
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await background.end()
            if self._resigned:
                await self._release(elector, recorder)
            for task in ended:
                task.result()  # raises the error that ended it
        finally:
            await background.end()
            await connection.close()

    async def _lead(self, elector: Elector, recorder: EventRecorder) -> None:
        await elector.acquire()
        self._leading = True
        self._report(self._won.set)
        self._record(elector, recorder, "became leader")
        why = await elector.hold()
        if self._resigned:
            return  # the term was ended on purpose
        self._leading = False
        self.term.end()
        # What reads the log may have stopped, too: the process ends whether the line is written or not.
        words = threading.Thread(target=log.error, args=(LOST,), kwargs={"why": why}, name="last words", daemon=True)
        words.start()
        words.join(LAST_WORDS_SECONDS)
        self._campaign.lost()

    async def _release(self, elector: Elector, recorder: EventRecorder) -> None:
        self.term.disarm()
        held = elector.holds
        try:
            async with asyncio.timeout(self._me.timing.request_timeout):
                await elector.release()
        except (ClusterError, TimeoutError) as error:
            log.warning("the lease could not be released; it runs out by itself", err=str(error) or "no answer in time")
        if held:
            self._record(elector, recorder, "stopped leading")
        await asyncio.wait([asyncio.create_task(recorder.flush())], timeout=EVENTS_SECONDS)

    def _record(self, elector: Elector, recorder: EventRecorder, what: str) -> None:
        if elector.lease is not None:
            note = f"{self._me.identity} {what}"
            recorder.event(elector.lease, EventText("Normal", "LeaderElection", "LeaderElection", note))

    def _report(self, what: Callable[[], None]) -> None:
        """Call something on the main loop."""
        if self._main is not None and not self._main.is_closed():
            self._main.call_soon_threadsafe(what)


class DeadMan:
    """Ends a process that has lost its lease and cannot notice, because it was stopped or hangs: the election's `TermWatchdog`.

    A request that was let through may still lie in a buffer of the event loop when the process is stopped, and would go out when it goes
    on, long after another scheduler began to lead. So the kernel has the last moment, anew with each renewal: nothing is executed after it.
    The event loop runs on the main thread. Without such timers (not Linux) a line in the log is all.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made = False
        self._refused = False

    def arm(self, uptime: float) -> None:
        """Let the process end at this uptime, with the line in its log that every lost lease has."""
        if not self._ready():
            return
        when = self._clock.now() + uptime - self._clock.uptime()
        deadman.arm(uptime, line(__name__, LOST, when, why="the process did not run when it should have renewed it").encode())

    def disarm(self) -> None:
        deadman.disarm()

    def _ready(self) -> bool:
        if not self._made and not self._refused:
            try:
                deadman.make(threading.main_thread().native_id or 0)
                self._made = True
            except OSError as error:
                self._refused = True
                log.warning("no timer ends this process if it is stopped for longer than its lease lasts", err=error.strerror)
        return self._made
