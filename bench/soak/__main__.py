"""`PYTHONPATH=bench:tests python -m soak`: the command line and the run itself."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from churn.__main__ import MIB, MINUTE, STEP_SECONDS, TABLE_WIDTH, WATCH_SECONDS, print_line, say
from churn.growth import rise
from churn.quiescence import Restless, come_to_rest, drift, known_of
from churn.report import Minute, table
from rich.console import Console
from side_by_side import koordinator
from side_by_side.exposition import counter
from support.controlplane.binaries import ControlPlaneUnavailable, find_or_build
from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.live import Launch, Running
from support.placements import Placements
from support.proxy import Proxy, Weather

from soak.mutator import SoakMutator
from soak.recount import violations
from soak.settings import SoakSettings

AGREEMENT_SECONDS = 45.0
"""Until what is written once a second is written, and pods that back off have been tried again."""
POLL_SECONDS = 1.0
CHECK_FLAG = "--cache-check-interval=6s"
"""A turn of the standing comparison looks at a tenth of the cache: so at all of it each minute."""
DRIFT, CHECKS = "koord_scheduler_cache_drift_total", "koord_scheduler_cache_checks_total"


class Soak:
    """One run: mutates, and looks each minute; now and then the scheduler is killed."""

    def __init__(self, plane: ControlPlane, settings: SoakSettings, weather: Weather, launch: Launch) -> None:
        self._settings = settings
        self._weather = weather
        self._launch = launch
        self._rest = plane.rest()
        self._mutator = SoakMutator(self._rest, settings, weather)
        self._kills = sorted(Random(settings.seed).uniform(0, MINUTE * settings.minutes) for _ in range(settings.kills))
        self.minutes: list[Minute] = []
        self.checks = 0  # turns of the standing comparison, of the process that runs

    def run(self, placements: Placements) -> Running:
        """Go on until the time is over or something is wrong; the last look is at the end. Return the scheduler that runs then."""
        running, started = self._start(), time.monotonic()
        while (passed := time.monotonic() - started) < MINUTE * self._settings.minutes:
            self._weather.share = self._settings.faults
            rest_at = time.monotonic() + min(MINUTE, MINUTE * self._settings.minutes - passed)
            while time.monotonic() < rest_at:
                self._mutator.step()
                time.sleep(STEP_SECONDS)
                if self._kills and time.monotonic() - started > self._kills[0]:
                    self._kills.pop(0)
                    running.process.kill()
                    running = self._start()
            self._weather.share = 0.0
            self._mutator.pause()
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
        begun = time.monotonic()
        wrong: list[str] = []
        try:
            listed = come_to_rest(self._rest, self._mutator)
        except Restless as restless:
            listed, wrong = [], [str(restless), *known_of(running, self._rest, restless.unexplained[:5])]
        rested = time.monotonic() - begun
        wrong += self._disagreements(placements)
        wrong += filter(None, [drift(running), *self._standing_comparison(running)])
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in listed)
        usage = running.process.usage()
        return Minute(
            minutes=(time.monotonic() - started) / MINUTE,
            created=self._mutator.created,
            deleted=self._mutator.deleted,
            bound=bound,
            pending=len(listed) - bound,
            nodes=len(self._mutator.nodes.names),
            faults=self._weather.befell.total(),
            rest_seconds=rested,
            resident_mib=usage.resident_bytes / MIB,
            cpu_seconds=usage.cpu_seconds,
            wrong=tuple(wrong),
        )

    def _disagreements(self, placements: Placements) -> list[str]:
        """Return what a full recount finds, once what is still to be written has had its time."""
        deadline = time.monotonic() + AGREEMENT_SECONDS
        while (found := violations(self._rest, placements)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return found

    def _standing_comparison(self, running: Running) -> list[str]:
        """Return what the scheduler found wrong with its cache while it was at work."""
        status, text = running.served.get("/metrics")
        if status != 200:
            return [f"/metrics: {status} {text[:200]}"]
        self.checks = counter(text, CHECKS, str).total()
        found = counter(text, DRIFT, lambda labels: labels["kind"])
        return [f"the standing comparison found {number} {kind} that differed" for kind, number in found.items() if number]


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print the table; 1 when something was wrong, 2 when there is no control plane."""
    settings = settings_of(argv)
    try:
        binaries = find_or_build(os.environ, print_line)
    except ControlPlaneUnavailable as unavailable:
        print_line(str(unavailable))
        return 2
    weather = Weather(Random(settings.seed), watch_seconds=WATCH_SECONDS)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(binaries) as plane, Proxy(plane, weather, Path(folder)) as proxy:
        config = {"profiles": [{**koordinator.profile(), "schedulerName": "default-scheduler"}]}
        kubeconfig = proxy.kubeconfig(by_token(plane.tokens[SCHEDULER]))
        soak = Soak(
            plane, settings, weather, Launch(plane, Path(folder), kubeconfig, flags=(*koordinator.FLAGS, CHECK_FLAG), config=config)
        )
        with Placements(plane.kubeconfig()) as placements:
            running = soak.run(placements)
        ended = running.stop()
    wrong = [*(each for minute in soak.minutes for each in minute.wrong), *growth(soak.minutes, settings)]
    wrong += [f"exit code {ended.code}"] if ended.code else []
    wrong += ["the log has a traceback"] if "Traceback" in ended.text else []
    Console(width=TABLE_WIDTH).print(table(soak.minutes))
    print_line(f"turns of the standing comparison: {soak.checks}; faults: {dict(weather.befell)}")
    for line in wrong:
        print_line(f"WRONG: {line}")
    print_line("something was wrong" if wrong else "nothing was wrong")
    if wrong:
        print_line(ended.text[-20_000:])
    return 1 if wrong else 0


def growth(minutes: Sequence[Minute], settings: SoakSettings) -> list[str]:
    """Say by how much memory grew after the warm-up, where that is more than allowed. A process that was killed is not looked at."""
    found = None if settings.kills else rise([each.minutes for each in minutes], [each.resident_mib for each in minutes])
    print_line("memory: nothing to say of so short a run" if found is None else f"memory: {found:+.2f} % after the warm-up")
    return [f"memory grew by {found:.2f} %, allowed are {settings.growth:g}"] if found is not None and found > settings.growth else []


def settings_of(argv: Sequence[str] | None) -> SoakSettings:
    parser = argparse.ArgumentParser(prog="soak", description="Churn of all that Koordinator's plugins know, with API faults, recounted.")
    defaults = SoakSettings()
    parser.add_argument("--minutes", type=float, default=defaults.minutes)
    parser.add_argument("--rate", type=float, default=defaults.rate, help="pods created a second")
    parser.add_argument("--nodes", type=int, default=defaults.nodes)
    parser.add_argument("--pods", type=int, default=defaults.pods, help="pods that there are at a time, without gangs")
    parser.add_argument("--gangs", type=int, default=defaults.gangs, help="gangs that there are at a time")
    parser.add_argument("--reservations", type=int, default=defaults.reservations, help="Reservations that there are at a time")
    parser.add_argument("--faults", type=float, default=defaults.faults, help="share of requests that fail")
    parser.add_argument("--growth", type=float, default=defaults.growth, help="percent that memory may grow after the warm-up")
    parser.add_argument("--kills", type=int, default=defaults.kills, help="of the scheduler, spread over the run")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    return SoakSettings(**vars(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
