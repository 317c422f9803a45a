"""`PYTHONPATH=bench:tests python -m side_by_side`: the command line."""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from support.controlplane.binaries import Binaries, ControlPlaneUnavailable, find_or_build
from support.controlplane.processes import StartFailed

import koordsched
import side_by_side
from side_by_side.competitors import COMPETITORS, able, usual
from side_by_side.figures import Figures, figures, medians
from side_by_side.race import Race, RaceError, race
from side_by_side.table import table
from side_by_side.workload import KOORDINATORS, PREEMPTION, THEMES, Workload

TABLE_WIDTH = 160
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for and print it; 1 when a run gave no figures."""
    parsed = parse(argv)
    load = workload_of(parsed)
    compile_packages()
    try:
        binaries = find_or_build(os.environ, say)
        runs = [(name, one_run(binaries, name, load)) for _ in range(parsed.repeat) for name in parsed.competitors]
    except (ControlPlaneUnavailable, RaceError, StartFailed) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    results = {name: medians([found for of, found in runs if of == name]) for name in parsed.competitors}
    if parsed.output == "json":
        sys.stdout.buffer.write(msgspec.json.encode({"workload": load, "results": results, "runs": runs}) + b"\n")
    else:
        Console(width=TABLE_WIDTH).print(table(title(load, parsed.repeat), results))
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; who cannot do what the theme asks for does not take part."""
    found = parser()
    parsed = found.parse_args(argv)
    parsed.competitors = usual(parsed.theme, os.environ) if parsed.competitors is None else parsed.competitors
    if unable := [name for name in parsed.competitors if name not in able(parsed.theme)]:
        found.error(f"argument --competitors: {', '.join(unable)} cannot do --theme {parsed.theme}")
    return parsed


def one_run(binaries: Binaries, name: str, load: Workload, kind: type[Race] = Race) -> Figures:
    say(f"{name}: starting a control plane")
    try:
        return figures(race(binaries, COMPETITORS[name], load, lambda line: say(f"{name}: {line}"), kind), load)
    except RaceError as error:
        raise RaceError(f"{name}: {error}") from None


def compile_packages() -> None:
    """Make sure that no start pays for compiling Python, as none does once a package is installed."""
    for package in (koordsched, side_by_side):
        compileall.compile_dir(Path(package.__path__[0]), quiet=1)


def workload_of(parsed: argparse.Namespace) -> Workload:
    """Read how much is asked for: with pods that are bound already, one pending pod shows when the first decision is made."""
    pods = parsed.pods or (1 if parsed.bound else 5000)
    if parsed.theme == PREEMPTION:
        pods = min(pods, parsed.nodes)  # each pending pod takes the better part of a node
    return Workload(theme=parsed.theme, nodes=parsed.nodes, pods=pods, sizes=parsed.sizes, rate=parsed.rate, bound=parsed.bound)


def title(load: Workload, repeat: int) -> str:
    arrival = f" at {load.rate:g}/s" if load.rate else ""
    bound = f", {load.bound} bound before" if load.bound else ""
    times = f", medians of {repeat}" if repeat > 1 else ""
    theme = "" if load.theme == "plain" else f" ({load.theme})"
    sizes = "one size" if load.theme in {PREEMPTION, *KOORDINATORS} else f"{load.sizes} sizes"
    return f"{load.nodes} nodes, {load.pods} pods{theme} of {sizes}{arrival}{bound}{times}; {os.cpu_count()} cores for all"


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)  # noqa: T201


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="side_by_side", description="Compare schedulers on a real etcd and kube-apiserver.")
    found.add_argument("--nodes", type=positive, default=5000, metavar="N")
    found.add_argument("--pods", type=positive, metavar="N", help="pending pods (default 5000; with --bound 1)")
    found.add_argument("--theme", choices=THEMES, default=THEMES[0], help="what pods ask for besides room (default plain)")
    found.add_argument("--sizes", type=positive, default=16, metavar="N", help="different requests of the pods (default 16)")
    found.add_argument(
        "--rate", type=rate, default=0.0, metavar="R", help="pods that arrive a second (default: all are there at the start)"
    )
    found.add_argument("--bound", type=positive, default=0, metavar="N", help="pods that have a node before the scheduler starts")
    found.add_argument("--competitors", type=names, metavar="NAMES", help=f"of {','.join(COMPETITORS)}; who can do the theme")
    found.add_argument("--repeat", type=positive, default=1, metavar="N", help="runs of each competitor; medians are shown")
    found.add_argument("-o", dest="output", choices=["table", "json"], default="table")
    return found


def positive(given: str) -> int:
    if not given.isdecimal() or not int(given):
        raise argparse.ArgumentTypeError(f"{given!r}: expected a whole number of at least 1")
    return int(given)


def rate(given: str) -> float:
    try:
        found = float(given)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{given!r}: expected pods a second")
    return found


def names(given: str) -> list[str]:
    found = given.split(",")
    if unknown := [name for name in found if name not in COMPETITORS]:
        raise argparse.ArgumentTypeError(f"{', '.join(map(repr, unknown))}: expected some of {', '.join(COMPETITORS)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
