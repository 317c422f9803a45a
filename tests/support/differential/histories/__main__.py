"""`python -m support.differential.histories`: both schedulers live through the same histories, and where they first differ is printed.

Each is played on the same control plane, which is emptied in between, with the scheduler as a process. The exit code is 1 if any life
differs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import yaml

from support.controlplane.binaries import find_or_build
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.differential.histories import gangs, quotas, reservations, topology
from support.differential.histories.lives import History, Life
from support.differential.histories.player import Seen, play
from support.differential.koordinator.koord_scheduler import executable, koord_scheduler
from support.differential.objects import create
from support.differential.reference import ReferenceScheduler
from support.koordinator_chart import ChartValues
from support.live import Launch

AREAS: dict[str, Callable[[Random, int, int], History]] = {
    "reservations": reservations.history,
    "quotas": quotas.history,
    "gangs": gangs.history,
    "topology": topology.history,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="support.differential.histories", description=__doc__)
    parser.add_argument("--area", choices=sorted(AREAS), default=next(iter(AREAS)), help="what the histories are about")
    parser.add_argument("--seed", type=int, default=1, help="which history (%(default)s)")
    parser.add_argument("--lives", type=int, default=20, help="how many lives on the cluster (%(default)s)")
    parser.add_argument("--steps", type=int, default=14, help="how long they are (%(default)s)")
    options = parser.parse_args()
    history = AREAS[options.area](Random(f"{options.area} {options.seed}"), options.lives, options.steps)
    program = executable(os.environ)
    with ControlPlane(find_or_build(os.environ, say)) as plane:
        theirs = of_reference(plane, program, history)
        ours = of_ours(plane, history)
    differing = [life for life in history.lives if differs(life, theirs[life.name], ours[life.name])]
    say(f"seed {options.seed}: {len(history.lives)} lives of {options.steps} steps, {len(differing)} differ")
    return int(bool(differing))


def of_reference(plane: ControlPlane, program: Path, history: History) -> dict[str, list[Seen]]:
    rest = prepared(plane, history)
    with ReferenceScheduler(plane, rest, koord_scheduler(program, history.config, history.flags)):
        return play(rest, history, lambda text: say(f"reference: {text}"))


def of_ours(plane: ControlPlane, history: History) -> dict[str, list[Seen]]:
    rest = prepared(plane, history)
    config = {key: value for key, value in history.config.items() if key not in {"apiVersion", "kind"}}
    config = {"leaderElection": {"leaderElect": False}, **config}
    running = Launch(plane, plane.folder, plane.kubeconfig(), history.flags, config=config).start()
    try:
        running.await_readiness()
        return play(rest, history, lambda text: say(f"ours: {text}"))
    finally:
        running.stop()


def prepared(plane: ControlPlane, history: History) -> Rest:
    plane.restore()
    rest = plane.rest()
    create(rest, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ChartValues().namespace}})
    for life in history.lives:
        for body in life.objects:
            create(rest, body)
    return rest


def differs(life: Life, theirs: list[Seen], ours: list[Seen]) -> bool:
    """Print the first step after which the two see something else, with all that happened up to it."""
    for step, (their, own) in enumerate(zip(theirs, ours, strict=True)):
        if their == own:
            continue
        say(f"--- {life.name} differs after step {step}")
        for i, changes in enumerate(life.steps[: step + 1]):
            for change in changes:
                say(f"step {i}: {change.verb} {yaml.safe_dump(change.body, default_flow_style=True, width=100000).strip()}")
        for key in sorted(their.keys() | own.keys()):
            mark = " " if their.get(key) == own.get(key) else "!"
            say(f"{mark} {key}\n    reference: {their.get(key)}\n    ours:      {own.get(key)}")
        return True
    return False


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
