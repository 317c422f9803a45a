"""One run of one competitor, on a control plane of its own.

Objects are there first (unless pods arrive at a rate), then the competitor starts, then this waits until every pod is bound and every event
written, and reads what all processes have used. The programs are measured from the competitor's start to that moment, so that neither an
event that was put off nor the start itself is for free. Beside them only this process runs, with a watch and, at a rate, the creations.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import uvloop
from support.controlplane.binaries import Binaries
from support.controlplane.commands import Options
from support.controlplane.plane import ControlPlane
from support.controlplane.processes import Process, Usage

from koordsched.apiclient.client import Client
from koordsched.clock import RealClock
from koordsched.cluster.apiserver import ApiServer, ConnectionSettings, connect
from side_by_side import workload
from side_by_side.bindings import BoundWatch
from side_by_side.competitors import Competitor, Entrant
from side_by_side.exposition import REQUESTS, counter, request_key
from side_by_side.filling import CREATE_TIMEOUT, create, create_all, create_at_rate
from side_by_side.koordinator import KOORDINATOR, report_for_ever
from side_by_side.machine import busy_seconds, own_seconds
from side_by_side.wire import connected, exchanged
from side_by_side.workload import Workload

SCHEDULER = "scheduler"
INFLIGHT = Options(max_requests_inflight=4000, max_mutating_requests_inflight=2000)
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
POLL_SECONDS = 0.02
EVENTS_POLL_SECONDS = 0.25
STALL_SECONDS = 120.0
EVENTS_STALL_SECONDS = 15.0
REST_SECONDS = 2.0  # so that the work that creating objects leaves to the API server is not counted
STOP_SECONDS = 30.0
WARM_UP = "warm-up"


class RaceError(Exception):
    """A run that gives no figures; the text says why."""


class Moment(msgspec.Struct, frozen=True):
    """What was used until a moment, by program, by this process and by the whole machine."""

    usage: Mapping[str, Usage]
    bench_seconds: float
    machine_seconds: float


class Settled(NamedTuple):
    """When the last event was seen, how many there were then, and what was used until then."""

    events: int
    time: float
    moment: Moment


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a run. Times are monotonic seconds; `sent` is when pods were created, only if they came at a rate."""

    started: float
    seen: Mapping[str, float]
    sent: Mapping[str, float]
    settled: float
    before: Moment
    at_first_bind: Moment
    after: Moment
    events: int
    requests: Counter[str]  # that the API server answered
    wire: int  # bytes that the competitor and the API server exchanged
    metrics_before: str  # what it said of itself when measuring began; "" when that was its start
    metrics: str


class Race:
    """The parts of one run."""

    def __init__(self, plane: ControlPlane, competitor: Competitor, load: Workload, say: Callable[[str], None]) -> None:
        self._plane = plane
        self._entrant: Entrant = competitor(plane, load)
        self._load = load
        self._say = say
        self._watch = BoundWatch(workload.BOUND)

    async def run(self) -> Run:
        async with await Client.of_dict(msgspec.json.decode(self._plane.kubeconfig().text())) as client:
            await self._fill(client)
            following = asyncio.create_task(self._beside(client, await self._watch.now(client)))
            try:
                return await self._measured(client, following)
            finally:
                following.cancel()
                await asyncio.wait({following})

    async def _fill(self, client: Client) -> None:
        load = self._load
        begun = time.monotonic()
        await create_all(client, workload.namespaces(load))
        await create_all(client, workload.prerequisites(load))
        await create_all(client, workload.nodes(load))
        await create_all(client, workload.bound_pods(load))
        await create_all(client, workload.reports(load))
        await self._before_pending(client)
        if not load.rate:
            await create_all(client, workload.pending_pods(load))
        self._say(f"created the objects in {time.monotonic() - begun:.0f} s")
        await asyncio.sleep(REST_SECONDS)

    async def _beside(self, client: Client, version: str) -> None:
        """Do what goes on for ever beside the competitor: the benchmark's own watch, from a version on, and node agents' reports."""
        await asyncio.gather(self._watch.follow(client, version), self._report())

    async def _report(self) -> None:
        """Do for ever what node agents do beside the competitor, if the theme has them."""
        if self._load.theme == KOORDINATOR:
            server = await self._connect()
            try:
                await report_for_ever(server, workload.node_names(self._load))
            finally:
                await server.close()

    async def _measured(self, client: Client, following: asyncio.Task[None]) -> Run:
        """Start the competitor and read what it takes until all is done."""
        requests = await self._requests(client)
        before, started = self._moment(), time.monotonic()
        process = self._plane.spawn(SCHEDULER, self._entrant.line)
        waiting = Waiting(process, self._watch, following)
        await waiting.until(lambda: connected(process.pid, port_of(self._plane.url)))
        wire = exchanged(process.pid)
        sent: Mapping[str, float] = {}
        said = ""
        if await self._runs_before(client, waiting):
            said = await asyncio.to_thread(self._entrant.metrics)
            before, started, wire = self._moment(), await self._begin(client), exchanged(process.pid)
        if self._load.rate:
            sent = await self._arrive()
        await waiting.until_bound(1)
        at_first_bind = self._moment()
        await waiting.until_bound(self._load.pods + (WARM_UP in self._watch.seen))
        self._say_bound(time.monotonic() - started)
        settled = await self._settle(client)
        wire = exchanged(process.pid) - wire
        metrics = await asyncio.to_thread(self._entrant.metrics)
        requests = await self._requests(client) - requests
        await asyncio.to_thread(process.stop, STOP_SECONDS)
        return Run(
            started=started,
            seen={name: seen for name, seen in self._watch.seen.items() if name != WARM_UP},
            sent=sent,
            settled=settled.time,
            before=before,
            at_first_bind=at_first_bind,
            after=settled.moment,
            events=settled.events,
            requests=requests,
            wire=wire,
            metrics_before=said,
            metrics=metrics,
        )

    async def _runs_before(self, client: Client, waiting: Waiting) -> bool:
        """Bring the competitor to where it has only to begin with the pods; False: its start is measured, too."""
        if self._load.rate:
            await self._warm_up(client, waiting)
        return bool(self._load.rate)

    async def _begin(self, _client: Client) -> float:
        """Let a competitor that runs begin; return when that was."""
        return time.monotonic()

    async def _before_pending(self, client: Client) -> None:
        """Do what comes before the pending pods are created; nothing here."""

    async def _connect(self) -> ApiServer:
        """Return a connection for what this process does while the competitor is measured."""
        kubeconfig = self._plane.kubeconfig().write(self._plane.folder / "admin.kubeconfig")
        settings = ConnectionSettings(kubeconfig=str(kubeconfig), qps=-1, request_timeout=CREATE_TIMEOUT)
        return await connect(settings, RealClock(), Random())

    async def _arrive(self) -> Mapping[str, float]:
        server = await self._connect()
        try:
            return await create_at_rate(server, workload.pending_pods(self._load), self._load.rate)
        finally:
            await server.close()

    async def _warm_up(self, client: Client, waiting: Waiting) -> None:
        """See that the competitor is at work before pods arrive."""
        await create(client, workload.pending_pod(WARM_UP, 0))
        await waiting.until_bound(1)
        await asyncio.sleep(REST_SECONDS)

    def _say_bound(self, seconds: float) -> None:
        ends = f"; the watch was ended {self._watch.ends} times" if self._watch.ends else ""
        self._say(f"bound {self._load.pods} pods in {seconds:.1f} s{ends}")

    def _moment(self) -> Moment:
        return Moment(self._plane.usage(), own_seconds(), busy_seconds())

    async def _settle(self, client: Client) -> Settled:
        """Wait until there is an event for each pod, or there come no more, and return when that was."""
        wanted = len(self._watch.seen)
        settled = Settled(0, time.monotonic(), self._moment())
        while settled.events < wanted and time.monotonic() - settled.time < EVENTS_STALL_SECONDS:
            found = await _count(client, EVENTS)
            if found != settled.events:
                settled = Settled(found, time.monotonic(), self._moment())
            if found < wanted:
                await asyncio.sleep(EVENTS_POLL_SECONDS)
        return settled

    async def _requests(self, client: Client) -> Counter[str]:
        """Return what the API server has been asked for; the scrape comes before and after what is measured."""
        return counter(await client.request("GET", "/metrics", accept="text/plain"), REQUESTS, request_key)


class Waiting:
    """Waits for binds, until there are none for too long."""

    def __init__(self, process: Process, watch: BoundWatch, following: asyncio.Task[None]) -> None:
        self._process = process
        self._watch = watch
        self._following = following

    async def until_bound(self, wanted: int) -> None:
        """Wait until so many pods have been seen bound."""
        await self.until(lambda: len(self._watch.seen) >= wanted)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something. RaceError: the competitor ended, or bound nothing for two minutes."""
        bound, changed = 0, time.monotonic()
        while not holds():
            if len(self._watch.seen) != bound:
                bound, changed = len(self._watch.seen), time.monotonic()
            if self._following.done():
                self._following.result()
            if not self._process.running:
                raise RaceError(f"it ended with {bound} pods bound:\n{self._process.log_tail()}")
            if time.monotonic() - changed > STALL_SECONDS:
                raise RaceError(f"it bound nothing for {STALL_SECONDS:.0f} s, after {bound} pods:\n{self._process.log_tail()}")
            await asyncio.sleep(POLL_SECONDS)


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None, url
    return port


async def _count(client: Client, path: str) -> int:
    page = await client.request("GET", f"{path}?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def race(binaries: Binaries, competitor: Competitor, load: Workload, say: Callable[[str], None], kind: type[Race] = Race) -> Run:
    """Run one competitor; RaceError says why there are no figures."""
    with ControlPlane(binaries, INFLIGHT) as plane, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(kind(plane, competitor, load, say).run())
        except ExceptionGroup as errors:  # of creations, which are made several at a time
            raise RaceError(f"the workload was not created: {errors.exceptions[0]}") from errors
