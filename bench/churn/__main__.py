"""`PYTHONPATH=bench:tests python -m churn`: the command line and the run itself."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rich.console import Console
from support.controlplane.binaries import ControlPlaneUnavailable, find_or_build
from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.live import Launch, Running
from support.placements import Placements
from support.proxy import Proxy, Weather

from churn.checks import violations
from churn.growth import growth_an_hour
from churn.mutator import Mutator
from churn.quiescence import Restless, come_to_rest, drift, known_of
from churn.report import Minute, table
from churn.settings import Settings

MIB = 1 << 20
MINUTE = 60.0
STEP_SECONDS = 0.02
WATCH_SECONDS = 7.0
TABLE_WIDTH = 140


class Churn:
    """One run: mutates, and looks each minute."""

    def __init__(self, plane: ControlPlane, settings: Settings, weather: Weather) -> None:
        self._plane = plane
        self._settings = settings
        self._weather = weather
        self._rest = plane.rest()
        self._mutator = Mutator(self._rest, settings, weather)
        self.minutes: list[Minute] = []

    def run(self, running: Running, placements: Placements) -> None:
        """Go on until the time is over or something is wrong; the last look is at the end."""
        started = time.monotonic()
        while (passed := (time.monotonic() - started) / MINUTE) < self._settings.minutes:
            self._weather.share = self._settings.faults
            rest_at = time.monotonic() + min(MINUTE, MINUTE * (self._settings.minutes - passed))
            while time.monotonic() < rest_at:
                self._mutator.step()
                time.sleep(STEP_SECONDS)
            self._weather.share = 0.0
            self._mutator.pause()
            self.minutes.append(self._look(running, placements, started))
            say(self.minutes[-1])
            if self.minutes[-1].wrong:
                return

    def _look(self, running: Running, placements: Placements, started: float) -> Minute:
        begun = time.monotonic()
        wrong: list[str] = []
        try:
            listed = come_to_rest(self._rest, self._mutator)
        except Restless as restless:
            listed, wrong = [], [str(restless), *known_of(running, self._rest, restless.unexplained[:5])]
        rested = time.monotonic() - begun
        wrong += filter(None, [drift(running)])
        wrong += violations(self._rest, placements)
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
        churn = Churn(plane, settings, weather)
        running = Launch(plane, Path(folder), proxy.kubeconfig(by_token(plane.tokens[SCHEDULER]))).start()
        running.await_readiness()
        with Placements(plane.kubeconfig()) as placements:
            churn.run(running, placements)
        ended = running.stop()
    wrong = [*(each for minute in churn.minutes for each in minute.wrong), *growth(churn.minutes, settings.growth)]
    wrong += [f"exit code {ended.code}"] if ended.code else []
    wrong += ["the log has a traceback"] if "Traceback" in ended.text else []
    Console(width=TABLE_WIDTH).print(table(churn.minutes))
    for line in wrong:
        print_line(f"WRONG: {line}")
    print_line("something was wrong" if wrong else "nothing was wrong")
    if wrong:
        print_line(ended.text[-20_000:])
    return 1 if wrong else 0


def growth(minutes: Sequence[Minute], allowed: float) -> list[str]:
    """Say by how much memory grew, where that is more than allowed."""
    found = growth_an_hour([each.minutes for each in minutes], [each.resident_mib for each in minutes])
    print_line("memory: too short a run to say" if found is None else f"memory: {found:+.1f} MiB an hour over the second half")
    return [f"memory grows by {found:.1f} MiB an hour, allowed are {allowed:.0f}"] if found is not None and found > allowed else []


def settings_of(argv: Sequence[str] | None) -> Settings:
    parser = argparse.ArgumentParser(prog="churn", description="Constant churn with API faults on a real control plane.")
    defaults = Settings()
    parser.add_argument("--minutes", type=float, default=defaults.minutes)
    parser.add_argument("--rate", type=float, default=defaults.rate, help="pods created a second")
    parser.add_argument("--nodes", type=int, default=defaults.nodes)
    parser.add_argument("--pods", type=int, default=defaults.pods, help="pods that there are at a time")
    parser.add_argument("--faults", type=float, default=defaults.faults, help="share of requests that fail")
    parser.add_argument("--growth", type=float, default=defaults.growth, help="MiB an hour that memory may grow over the second half")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    return Settings(**vars(parser.parse_args(argv)))


def say(minute: Minute) -> None:
    print_line(
        f"minute {minute.minutes:.1f}: {minute.bound} bound, {minute.pending} pending, {minute.resident_mib:.1f} MiB, wrong: {minute.wrong}"
    )


def print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
