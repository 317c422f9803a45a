"""`python -m support.differential.koordinator`: Koordinator's scheduler and ours decide about random pods; `make differential` runs it.

Every trial is played on the reference, on a real control plane, and then, as recorded, on ours, in process. With --replay a file of
recorded trials takes the place of the reference. What differs is printed, as scenarios; the exit code is 1 if anything does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.controlplane.binaries import ControlPlaneUnavailable, find_or_build
from support.controlplane.plane import ControlPlane
from support.differential.koordinator.areas import AREAS
from support.differential.koordinator.koord_scheduler import executable
from support.differential.koordinator.recorder import record
from support.differential.koordinator.recording import Recording, append, load
from support.differential.koordinator.replay import replay
from support.differential.reproduction import report


def main() -> int:
    parser = argparse.ArgumentParser(prog="support.differential.koordinator", description=__doc__)
    parser.add_argument("--area", choices=sorted(AREAS), default=next(iter(AREAS)), help="of which plugins")
    parser.add_argument("--seed", type=int, default=1, help="which trials (%(default)s)")
    parser.add_argument("--trials", type=int, default=40, help="how many clusters, each with some 25 pods (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial (%(default)s)")
    parser.add_argument("--record", type=Path, help="append what the reference decides to this file")
    parser.add_argument("--replay", type=Path, help="take what the reference decided from this file")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    differing = 0
    try:
        for recording in load(options.replay) if options.replay else recordings(options):
            for case in replay(recording):
                outcomes["bound" if case.theirs.node else "made room for" if case.theirs.nominated else "refused"] += 1
                differing += bool(case.differences)
                wanted.update([case.deliberate] if case.deliberate else [])
                if case.differences:
                    say(report(case))
            say(f"{recording.name}: {outcomes.total()} pods, {differing} differ so far")
    except ControlPlaneUnavailable as error:
        say(f"no reference: {error}")
        return 1
    say(f"{outcomes.total()} pods: {listed(outcomes)}; {differing} differ, and deliberately {listed(wanted) or 'none'}")
    return int(differing > 0)


def recordings(options: argparse.Namespace) -> Iterator[Recording]:
    """Play one trial after another on the reference."""
    program, binaries = executable(os.environ), find_or_build(os.environ, say)
    with ControlPlane(binaries) as plane:
        for number in range(options.first, options.first + options.trials):
            made = record(plane, program, options.area, options.seed, number)
            if options.record:
                append(options.record, made)
            yield made


def listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
