"""The run that churn and soak have in common: a scheduler behind a proxy that fails, mutations, a look each minute, a table, an exit code.

What comes and goes (`Course.mutator`) and what must hold at rest (`Course.checks`) is for each of them to say. That nothing drifted, at
rest and while the scheduler was at work, is looked at for both.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from rich.console import Console
from side_by_side.exposition import counter
from support.controlplane.binaries import ControlPlaneUnavailable, find_or_build
from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import Launch, Running
from support.placements import Placements
from support.proxy import Proxy, Weather

from churn.cluster import Nodes
from churn.quiescence import Controllers, Restless, come_to_rest, drift, known_of
from churn.report import Minute, table
from churn.settings import RunSettings

MIB = 1 << 20
MINUTE = 60.0
STEP_SECONDS = 0.02
WATCH_SECONDS = 7.0
POLL_SECONDS = 1.0
TABLE_WIDTH = 140
LOG_TAIL = 20_000
CHECK_FLAG = "--cache-check-interval=6s"
"""A turn of the standing comparison looks at a tenth of the cache: so at all of it each minute."""
DRIFT, CHECKS = "koord_scheduler_cache_drift_total", "koord_scheduler_cache_checks_total"


class Mutations(Controllers, Protocol):
    """Creates, deletes and changes, as much as is due at each step. `created` and `deleted` count pods."""

    created: int
    deleted: int

    @property
    def nodes(self) -> Nodes: ...

    def step(self) -> None: ...

    def pause(self) -> None: ...


class Course(NamedTuple):
    """What one sort of run consists of. checks: what does not hold at rest, as sentences; while it finds something it is asked again for
    `agreement_seconds`, for what is written with a delay. known: what the scheduler and the API server know of that, to find out why.
    """

    mutator: Mutations
    checks: Callable[[Rest, Placements], list[str]]
    agreement_seconds: float = 0.0
    flags: tuple[str, ...] = ()
    config: Mapping[str, object] = {}
    known: Callable[[Running, Rest, list[str]], list[str]] = lambda _running, _rest, _wrong: []


class Run:
    """One run: mutates, and looks each minute; now and then the scheduler is killed, if that is asked for."""

    def __init__(self, rest: Rest, settings: RunSettings, weather: Weather, course: Course, launch: Launch) -> None:
        self._rest = rest
        self._settings = settings
        self._weather = weather
        self._course = course
        self._launch = launch
        self._kills = sorted(Random(settings.seed).uniform(0, MINUTE * settings.minutes) for _ in range(settings.kills))
        self.minutes: list[Minute] = []
        self.comparisons = 0  # turns of the standing comparison, of the process that runs

    def run(self, placements: Placements) -> Running:
        """Go on until the time is over or something is wrong; the last look is at the end. Return the scheduler that runs then."""
        running, started = self._start(), time.monotonic()
        while (passed := time.monotonic() - started) < MINUTE * self._settings.minutes:
            self._weather.share = self._settings.faults
            rest_at = time.monotonic() + min(MINUTE, MINUTE * self._settings.minutes - passed)
            while time.monotonic() < rest_at:
                self._course.mutator.step()
                time.sleep(STEP_SECONDS)
                if self._kills and time.monotonic() - started > self._kills[0]:
                    self._kills.pop(0)
                    running.process.kill()
                    running = self._start()
            self._weather.share = 0.0
            self._course.mutator.pause()
            self.minutes.append(self._look(running, placements, started))
            say(self.minutes[-1])
            if self.minutes[-1].wrong:
                break
        return running

    def _start(self) -> Running:
        self._weather.share = 0.0
        running = self._launch.start()
        running.await_readiness()
        self._weather.share = self._settings.faults
        return running

    def _look(self, running: Running, placements: Placements, started: float) -> Minute:
        mutator, begun = self._course.mutator, time.monotonic()
        wrong: list[str] = []
        try:
            listed = come_to_rest(self._rest, mutator)
        except Restless as restless:
            listed, wrong = [], [str(restless), *known_of(running, self._rest, restless.unexplained[:5])]
        rested = time.monotonic() - begun
        wrong += self._disagreements(running, placements)
        wrong += filter(None, [drift(running), *self._standing_comparison(running)])
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in listed)
        usage = running.process.usage()
        return Minute(
            minutes=(time.monotonic() - started) / MINUTE,
            created=mutator.created,
            deleted=mutator.deleted,
            bound=bound,
            pending=len(listed) - bound,
            nodes=len(mutator.nodes.names),
            faults=self._weather.befell.total(),
            rest_seconds=rested,
            resident_mib=usage.resident_bytes / MIB,
            cpu_seconds=usage.cpu_seconds,
            wrong=tuple(wrong),
        )

    def _disagreements(self, running: Running, placements: Placements) -> list[str]:
        deadline = time.monotonic() + self._course.agreement_seconds
        while (found := self._course.checks(self._rest, placements)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return found and [*found, *self._course.known(running, self._rest, found)]

    def _standing_comparison(self, running: Running) -> list[str]:
        """Return what the scheduler found wrong with its cache while it was at work."""
        status, text = running.served.get("/metrics")
        if status != 200:
            return [f"/metrics: {status} {text[:200]}"]
        self.comparisons = counter(text, CHECKS, str).total()
        found = counter(text, DRIFT, lambda labels: labels["kind"])
        return [f"the standing comparison found {number} {kind} that differed" for kind, number in found.items() if number]


def run(
    settings: RunSettings,
    course: Callable[[Rest, Weather], Course],
    growth: Callable[[Sequence[Minute]], list[str]],
) -> int:
    """Run and print the table; 1 when something was wrong, 2 when there is no control plane. growth: what is wrong with the memory."""
    try:
        binaries = find_or_build(os.environ, print_line)
    except ControlPlaneUnavailable as unavailable:
        print_line(str(unavailable))
        return 2
    weather = Weather(Random(settings.seed), watch_seconds=WATCH_SECONDS)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(binaries) as plane, Proxy(plane, weather, Path(folder)) as proxy:
        rest = plane.rest()
        chosen = course(rest, weather)
        kubeconfig = proxy.kubeconfig(by_token(plane.tokens[SCHEDULER]))
        launch = Launch(plane, Path(folder), kubeconfig, flags=(*chosen.flags, CHECK_FLAG), config=chosen.config)
        this = Run(rest, settings, weather, chosen, launch)
        with Placements(plane.kubeconfig()) as placements:
            running = this.run(placements)
        ended = running.stop()
    wrong = [*(each for minute in this.minutes for each in minute.wrong), *growth(this.minutes)]
    wrong += [f"exit code {ended.code}"] if ended.code else []
    wrong += ["the log has a traceback"] if "Traceback" in ended.text else []
    Console(width=TABLE_WIDTH).print(table(this.minutes))
    print_line(f"turns of the standing comparison: {this.comparisons}; faults: {dict(weather.befell)}")
    for line in wrong:
        print_line(f"WRONG: {line}")
    print_line("something was wrong" if wrong else "nothing was wrong")
    if wrong:
        print_line(ended.text[-LOG_TAIL:])
    return 1 if wrong else 0


def parser(prog: str, description: str, defaults: RunSettings, *, growth: str) -> argparse.ArgumentParser:
    """Return a command line with what all runs have. growth: what its number means."""
    found = argparse.ArgumentParser(prog=prog, description=description)
    found.add_argument("--minutes", type=float, default=defaults.minutes)
    found.add_argument("--rate", type=float, default=defaults.rate, help="pods created a second")
    found.add_argument("--nodes", type=int, default=defaults.nodes)
    found.add_argument("--pods", type=int, default=defaults.pods, help="pods that there are at a time, without gangs")
    found.add_argument("--faults", type=float, default=defaults.faults, help="share of requests that fail")
    found.add_argument("--growth", type=float, default=defaults.growth, help=growth)
    found.add_argument("--kills", type=int, default=defaults.kills, help="of the scheduler, spread over the run")
    found.add_argument("--seed", type=int, default=defaults.seed)
    return found


def say(minute: Minute) -> None:
    print_line(
        f"minute {minute.minutes:.1f}: {minute.bound} bound, {minute.pending} pending, {minute.resident_mib:.1f} MiB, wrong: {minute.wrong}"
    )


def print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
