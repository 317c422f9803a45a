"""`PYTHONPATH=bench:tests python -m side_by_side.reservation_events`: does anything pile up while Reservations change and pods wait?

On a real etcd and kube-apiserver every node has two Available Reservations, and the pods are too large for what is left: every second one
may only go to a Reservation, the others own none. Once our scheduler has found that none fits, this program changes Reservations at a rate,
in turn the time of a condition, by which nothing changes for pods, and whether it takes owners, by which their pods are looked at again.

Each change is one event. Looked at once a second: the changes that the API server has acknowledged, those that it has sent on a watch of
this program's own, those that the scheduler's handlers have taken in, which it counts itself, and its queues. What was sent and is not
taken in is the scheduler's backlog; what is acknowledged and not sent is the API server's, which a machine that is full has, too. A busy
scheduler answers several scrapes with one page: its counts are compared with what was sent when it was made, by the time in it. Wanted
(issue 21): 1,000 changes a second beside 10,000 pending pods, and no backlog grows. Where the API server cannot carry out so many, as
many as it can.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import count
from random import Random
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table
from support.controlplane.binaries import ControlPlaneUnavailable, find_or_build
from support.controlplane.plane import ControlPlane
from support.controlplane.processes import Process, StartFailed

from koordsched.api.kinds import RESERVATION
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.apiclient.client import Client
from koordsched.clock import RealClock, rfc3339
from koordsched.cluster.apiserver import ApiServer, ConnectionSettings, RawRequest, connect
from koordsched.cluster.port import BOOKMARK
from side_by_side import reservations, workload
from side_by_side.__main__ import TABLE_WIDTH, compile_packages, positive, say
from side_by_side.competitors import ours
from side_by_side.exposition import counter
from side_by_side.filling import CREATE_TIMEOUT, create_all
from side_by_side.koordinator import MERGE_PATCH
from side_by_side.race import INFLIGHT, SCHEDULER, STALL_SECONDS, STOP_SECONDS, RaceError
from side_by_side.reservations import OWNERS
from side_by_side.workload import Item, Workload

HANDLED = "scheduler_event_handling_duration_seconds_count"
UPDATES = "reservations.scheduling.koordinator.shUpdate"
QUEUES = "scheduler_pending_pods"
COLLECTED = "koord_scheduler_metrics_collected_timestamp_seconds"
RELISTS, KIND = "koord_scheduler_relists_total", "reservations.scheduling.koordinator.sh"
QUIET_SECONDS = 10.0
CONDITIONS = (("Scheduled", "Scheduled"), ("Ready", "Available"))
FIRST_PROBE = 1_767_225_600.0  # seconds since the epoch: when the Reservations were created
AT_A_TIME = 64  # changes under way
POLL_SECONDS = 0.25
NO_OWNER, OWNER = {"cpu": "25", "memory": "1Gi"}, {"cpu": "5", "memory": "1Gi"}
"""What pods ask for: more than the Reservations leave of a node, and more than a Reservation has."""


class Second(msgspec.Struct, frozen=True):
    """What there was at one look. `unsent`: changes that no watch shows yet. `backlog`: changes that the scheduler was sent."""

    at: float
    acknowledged: int
    unsent: int
    backlog: int
    active: int
    backoff: int


class Outcome(msgspec.Struct, frozen=True):
    """What came of it. `drained_s`: from the last acknowledgement until everything was taken in and no pod was to be tried."""

    changes: int
    changes_s: float
    seconds: list[Second]
    drained_s: float
    scheduler_cpu_ms_change: float
    pending: int  # pods at the end
    relists: int  # how often the scheduler listed Reservations anew: of several changes of one it has then seen the last alone

    def mean(self, field: str, part: int) -> float:
        """Return the mean of a figure in the first (0), second or last third (2) of the time."""
        third = max(len(self.seconds) // 3, 1)
        found = self.seconds[part * third : (part + 1) * third] if part < 2 else self.seconds[-third:]
        return float(sum(getattr(second, field) for second in found) / len(found))


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int = 1000
    pods: int = 10_000
    rate: float = 1000.0
    seconds: float = 30.0


class Run:
    """One run on a control plane."""

    def __init__(self, plane: ControlPlane, settings: Settings) -> None:
        self._plane = plane
        self._settings = settings
        self._load = Workload(theme=OWNERS, nodes=settings.nodes, pods=0)
        self._entrant = ours(plane, self._load)
        self._names = [body["metadata"]["name"] for body in reservations.reservations(workload.node_names(self._load))]
        self._acknowledged = 0
        self._times: list[float] = []  # when each change was acknowledged, in seconds since the epoch
        self._sent_times: list[float] = []  # when each one came on a watch
        self._before = ""  # what the scheduler said of itself then
        self._last = (0, 0.0)  # changes taken in, and since when it has been so many, in seconds since the epoch
        self._seconds: list[Second] = []

    async def run(self) -> Outcome:
        """Create everything, let the scheduler find that no pod fits, and change Reservations. RaceError: it got stuck."""
        async with await Client.of_dict(msgspec.json.decode(self._plane.kubeconfig().text())) as client:
            for items in (workload.prerequisites(self._load), workload.nodes(self._load), waiting_pods(self._settings.pods)):
                await create_all(client, items)
        process = self._plane.spawn(SCHEDULER, self._entrant.line)
        await self._until(process, lambda text: queues(text).get("unschedulable", 0) >= self._settings.pods)
        say(f"{self._settings.pods} pods wait; changing Reservations")
        kubeconfig = self._plane.kubeconfig().write(self._plane.folder / "admin.kubeconfig")
        settings = ConnectionSettings(kubeconfig=str(kubeconfig), qps=-1, request_timeout=CREATE_TIMEOUT)
        server = await connect(settings, RealClock(), Random())
        try:
            return await self._measured(process, server)
        finally:
            await server.close()
            await asyncio.to_thread(process.stop, STOP_SECONDS)

    async def _measured(self, process: Process, server: ApiServer) -> Outcome:
        self._before = await self._metrics()
        cpu, begun = self._cpu(), time.monotonic()
        listed = await server.list(RESERVATION)
        beside = [
            asyncio.create_task(self._watch(server, listed.resource_version)),
            asyncio.create_task(self._look_each_second(begun)),
        ]
        await self._change_all(server, begun)
        ended = time.monotonic()
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        text = await self._until(process, self._is_settled)
        return Outcome(
            changes=self._acknowledged,
            changes_s=self._acknowledged / (ended - begun),
            seconds=self._seconds,
            drained_s=time.monotonic() - ended,
            scheduler_cpu_ms_change=1e3 * (self._cpu() - cpu) / self._acknowledged,
            pending=sum(queues(text).values()),
            relists=self._relists(text),
        )

    async def _change_all(self, server: ApiServer, begun: float) -> None:
        """Make changes at the rate for so many seconds, with a few under way at any time; return once all are acknowledged."""
        room = asyncio.Semaphore(AT_A_TIME)
        end = begun + self._settings.seconds
        async with asyncio.TaskGroup() as tasks:
            for number, request in enumerate(changes(self._names)):
                due = begun + number / self._settings.rate
                if due >= end or time.monotonic() >= end:
                    return
                await asyncio.sleep(due - time.monotonic())
                await room.acquire()
                tasks.create_task(self._change(server, request, room))

    async def _change(self, server: ApiServer, request: RawRequest, room: asyncio.Semaphore) -> None:
        try:
            await server.raw(request)
            self._acknowledged += 1
            self._times.append(time.time())
        finally:
            room.release()

    async def _watch(self, server: ApiServer, version: str) -> None:
        """Note when the API server sends each change."""
        async with aclosing(server.watch(RESERVATION, resource_version=version)) as batches:
            async for batch in batches:
                self._sent_times += [time.time()] * sum(event.type is not BOOKMARK for event in batch)

    async def _look_each_second(self, begun: float) -> None:
        while True:
            await asyncio.sleep(1.0)
            text = await self._metrics()
            found, made = queues(text), collected(text)
            acknowledged, sent = bisect(self._times, made), bisect(self._sent_times, made)
            unsent, backlog = max(0, acknowledged - sent), max(0, sent - self._taken_in(text))
            at, active, backoff = time.monotonic() - begun, found.get("active", 0), found.get("backoff", 0)
            self._seconds.append(Second(at, acknowledged, unsent, backlog, active, backoff))

    def _is_settled(self, text: str) -> bool:
        """Answer whether every change is taken in and every pod tried; after a list anew, whether none has come for some seconds."""
        found, now = self._taken_in(text), collected(text)
        if found != self._last[0]:
            self._last = (found, now)
        all_seen = found >= self._acknowledged or (self._relists(text) > 0 and now - self._last[1] > QUIET_SECONDS)
        return all_seen and not queues(text).get("active")

    def _taken_in(self, text: str) -> int:
        return handled(text) - handled(self._before)

    def _relists(self, text: str) -> int:
        return relists(text) - relists(self._before)

    async def _until(self, process: Process, holds: Callable[[str], bool]) -> str:
        """Wait until the scheduler's metrics say so, and return them."""
        begun, before = time.time(), ""
        while True:
            text = await self._metrics()
            if holds(text):
                return text
            if not process.running:
                raise RaceError(f"the scheduler ended:\n{process.log_tail()}")
            now = f"{self._acknowledged} acknowledged, {self._taken_in(text)} taken in, pods: {dict(queues(text))}"
            if now != before:
                begun, before = max(begun, collected(text)), now
            if (collected(text) if text else time.time()) - begun > STALL_SECONDS:
                raise RaceError(f"nothing has changed for {STALL_SECONDS:.0f} s: {now}\n{process.log_tail()}")
            await asyncio.sleep(POLL_SECONDS)

    async def _metrics(self) -> str:
        """Return what the scheduler says of itself, "" while it does not serve."""
        return await asyncio.to_thread(self._entrant.metrics)

    def _cpu(self) -> float:
        return self._plane.usage()[SCHEDULER].cpu_seconds


def handled(text: str) -> int:
    """Return how many changes of Reservations the scheduler's handlers have taken in."""
    return counter(text, HANDLED, lambda labels: labels["event"])[UPDATES]


def collected(text: str) -> float:
    """Return when the page was made, in seconds since the epoch; 0 for an empty one."""
    found = re.search(rf"^{COLLECTED} (\S+)$", text, re.MULTILINE)
    return 0.0 if found is None else float(found[1])


def relists(text: str) -> int:
    return counter(text, RELISTS, lambda labels: labels["kind"])[KIND]


def queues(text: str) -> dict[str, int]:
    """Return how many pods there are, by queue."""
    return counter(text, QUEUES, lambda labels: labels["queue"])


def waiting_pods(number_of: int) -> list[Item]:
    """Return pods for which there is no room: every second one wants a Reservation that is too small for it, the others a whole node."""
    made = []
    for number in range(number_of):
        item = workload.pending_pod(f"waiting-{number}", 0)
        amounts = OWNER if number % 2 else NO_OWNER
        item.body["spec"]["containers"][0]["resources"] = {"requests": amounts}
        if number % 2:
            item.body["metadata"]["labels"] |= reservations.labels(number)
            item.body["metadata"]["annotations"] = {RESERVATION_AFFINITY: "{}"}
        made.append(item)
    return made


def changes(names: Sequence[str]) -> Iterator[RawRequest]:
    """Yield changes of one Reservation after the other, for ever: first a condition of its status, then whether it takes owners."""
    for number in count():
        turn, place = divmod(number // 2, len(names))
        path = f"{reservations.PATH}/{names[place]}"
        if number % 2:
            yield _patch(path, {"spec": {"unschedulable": turn % 2 == 0}})
        else:
            times = {"lastProbeTime": rfc3339(FIRST_PROBE + 1 + number), "lastTransitionTime": reservations.CREATED}
            conditions = [{"type": kind, "status": "True", "reason": reason, **times} for kind, reason in CONDITIONS]
            yield _patch(f"{path}/status", {"status": {"conditions": conditions}})


def _patch(path: str, body: Mapping[str, Any]) -> RawRequest:
    return RawRequest("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH)


def measure(settings: Settings) -> Outcome:
    """Run on a control plane of its own."""
    with ControlPlane(find_or_build(os.environ, say), INFLIGHT) as plane, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(Run(plane, settings).run())


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print; 1 when the run gave no figures."""
    parsed = parser().parse_args(argv)
    compile_packages()
    settings = Settings(nodes=parsed.nodes, pods=parsed.pods, rate=float(parsed.rate), seconds=float(parsed.seconds))
    try:
        found = measure(settings)
    except (ControlPlaneUnavailable, RaceError, StartFailed) as error:
        say(str(error))
        return 1
    if parsed.output == "json":
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    else:
        Console(width=TABLE_WIDTH).print(table(settings, found))
    return 0


def table(settings: Settings, found: Outcome) -> Table:
    title = f"{settings.pods} pending pods, {reservations.OF_A_NODE * settings.nodes} Reservations, {found.changes} changes"
    shown = Table(title=title, title_justify="left")
    for heading in ("", "first third", "second", "last third"):
        shown.add_column(heading, justify="right" if heading else "left")
    rows = (
        ("unsent", "changes that no watch shows yet"),
        ("backlog", "changes sent, not taken in"),
        ("active", "pods to be tried"),
        ("backoff", "pods in backoff"),
    )
    for field, name in rows:
        shown.add_row(f"{name}, mean", *(f"{found.mean(field, part):.1f}" for part in range(3)))
    shown.add_row("changes a second", f"{found.changes_s:.0f}", "", "")
    shown.add_row("all taken in and tried, s after the last", f"{found.drained_s:.2f}", "", "")
    shown.add_row("lists of Reservations anew", f"{found.relists}", "", "")
    shown.add_row("scheduler CPU, ms/change", f"{found.scheduler_cpu_ms_change:.3f}", "", "")
    return shown


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="reservation_events", description="Change Reservations while pods wait, on a real API server.")
    found.add_argument("--nodes", type=positive, default=1000, metavar="N")
    found.add_argument("--pods", type=positive, default=10_000, metavar="N", help="pods that wait")
    found.add_argument("--rate", type=positive, default=1000, metavar="N", help="changes a second")
    found.add_argument("--seconds", type=positive, default=30, metavar="N", help="for how long")
    found.add_argument("-o", dest="output", choices=["table", "json"], default="table")
    return found


if __name__ == "__main__":
    sys.exit(main())
