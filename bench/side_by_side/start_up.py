"""`PYTHONPATH=bench:tests python -m side_by_side.start_up`: the time from a process's start to its first decision, and the memory.

Ours under the profile of Koordinator's chart with 5,000 NodeMetrics and Devices, 1,000 quotas and 10,000 Reservations, ours without any of
them, and kube-scheduler, all with the same 5,000 nodes and 50,000 bound pods, in turn. Wanted: the first takes at most 1.3 times as long
as the second, and at most the memory of the third. What is measured is a restart: before, our scheduler has run until it had written what
it writes of quotas and Reservations.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table
from support.controlplane.binaries import ControlPlaneUnavailable, find_or_build
from support.controlplane.processes import StartFailed

from koordsched.apiclient.client import Client
from side_by_side.__main__ import TABLE_WIDTH, compile_packages, one_run, positive, say
from side_by_side.competitors import KUBE_SCHEDULER, ours
from side_by_side.figures import Figures
from side_by_side.koordinator import BARE, OBJECTS
from side_by_side.race import STOP_SECONDS, Race, RaceError
from side_by_side.table import ratio, text
from side_by_side.workload import Workload


class Restart(Race):
    """A race on a cluster on which our scheduler has run before the pending pod came."""

    async def _before_pending(self, client: Client) -> None:
        if self._load.theme != OBJECTS:
            return
        process = self._plane.spawn(EARLIER, ours(self._plane, self._load).line)
        written = -1
        while written != (written := await self._writes(client)) or not written:
            if not process.running:
                raise RaceError(f"the scheduler that runs before ended:\n{process.log_tail()}")
            await asyncio.sleep(QUIET_SECONDS)
        await asyncio.to_thread(process.stop, STOP_SECONDS)

    async def _writes(self, client: Client) -> int:
        """Count the patches that a scheduler has made so far."""
        requests = await self._requests(client)
        return sum(count for kind, count in requests.items() if kind.startswith("PATCH elasticquotas"))


class Case(NamedTuple):
    title: str
    competitor: str
    theme: str


EARLIER = "earlier-scheduler"
QUIET_SECONDS = 5.0
WITH = Case("ours, all objects", "ours", OBJECTS)
WITHOUT = Case("ours, nodes and pods", "ours", BARE)
PEER = Case(KUBE_SCHEDULER, KUBE_SCHEDULER, BARE)
CASES = (WITHOUT, WITH, PEER)
ROWS = {
    "first decision, s after start": "first_bind_s",
    "scheduler CPU until then, s": "scheduler_start_cpu_s",
    "kube-apiserver CPU, s": "api_server_cpu_ms_pod",
    "bytes on the wire, MB": "wire_bytes_pod",
    "peak RSS, MiB": "peak_rss_mib",
    "cores busy with other programs": "strangers_cores",
}
SCALE = {"api_server_cpu_ms_pod": 1e-3, "wire_bytes_pod": 1e-6}
"""There is one pod, so what is divided by the pods is a sum."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print; 1 when a run gave no figures."""
    parsed = parser().parse_args(argv)
    compile_packages()
    runs: dict[Case, list[Figures]] = {case: [] for case in CASES if case is not PEER or not parsed.ours}
    try:
        binaries = find_or_build(os.environ, say)
        for _ in range(parsed.repeat):
            for case, found in runs.items():
                say(case.title)
                load = Workload(theme=case.theme, nodes=parsed.nodes, pods=1, bound=parsed.bound)
                found.append(one_run(binaries, case.competitor, load, Restart))
    except (ControlPlaneUnavailable, RaceError, StartFailed) as error:
        say(str(error))
        return 1
    if parsed.output == "json":
        sys.stdout.buffer.write(msgspec.json.encode({case.title: found for case, found in runs.items()}) + b"\n")
    else:
        title = f"{parsed.nodes} nodes, {parsed.bound} bound pods; the least of {parsed.repeat}; {os.cpu_count()} cores for all"
        Console(width=TABLE_WIDTH).print(table(title, runs))
    return 0


def table(title: str, runs: dict[Case, list[Figures]]) -> Table:
    """Show of each figure the least of all runs, and how the case with all objects compares to the others."""
    shown = Table(title=title, title_justify="left")
    shown.add_column("")
    others = [case for case in runs if case is not WITH]
    for heading in (*(case.title for case in runs), *(f"all objects/{case.title}" for case in others)):
        shown.add_column(heading, justify="right")
    for row, field in ROWS.items():
        least = {case: SCALE.get(field, 1.0) * min(getattr(each, field) for each in found) for case, found in runs.items()}
        ratios = [text(ratio(least[WITH], least[other]), 2) for other in others]
        shown.add_row(row, *(text(value, 2) for value in least.values()), *ratios)
    return shown


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="start_up", description="Measure starts with and without Koordinator's custom resources.")
    found.add_argument("--nodes", type=positive, default=5000, metavar="N")
    found.add_argument("--bound", type=positive, default=50_000, metavar="N", help="pods that have a node before the scheduler starts")
    found.add_argument("--repeat", type=positive, default=1, metavar="N", help="runs of each; the least of each figure is shown")
    found.add_argument("--ours", action="store_true", help="leave kube-scheduler out")
    found.add_argument("-o", dest="output", choices=["table", "json"], default="table")
    return found


if __name__ == "__main__":
    sys.exit(main())
