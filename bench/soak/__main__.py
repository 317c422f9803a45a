"""`PYTHONPATH=bench:tests python -m soak`: the command line, and what the run consists of."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from churn import runner
from churn.growth import rise
from churn.report import Minute
from side_by_side import koordinator
from support.controlplane.rest import Rest
from support.proxy import Weather

from soak.knowledge import known_of
from soak.mutator import SoakMutator
from soak.recount import violations
from soak.settings import SoakSettings

AGREEMENT_SECONDS = 45.0
"""Until what is written once a second is written, and pods that back off have been tried again."""


def main(argv: Sequence[str] | None = None) -> int:
    settings = settings_of(argv)

    def course(rest: Rest, weather: Weather) -> runner.Course:
        config = {"profiles": [{**koordinator.profile(), "schedulerName": "default-scheduler"}]}
        return runner.Course(SoakMutator(rest, settings, weather), violations, AGREEMENT_SECONDS, koordinator.FLAGS, config, known_of)

    return runner.run(settings, course, lambda minutes: growth(minutes, settings))


def growth(minutes: Sequence[Minute], settings: SoakSettings) -> list[str]:
    """Say by how much memory grew after the warm-up, where that is more than allowed. A process that was killed is not looked at."""
    found = None if settings.kills else rise([each.minutes for each in minutes], [each.resident_mib for each in minutes])
    shown = "nothing to say of so short a run" if found is None else f"{found:+.2f} % after the warm-up"
    runner.print_line(f"memory: {shown}")
    return [f"memory grew by {found:.2f} %, allowed are {settings.growth:g}"] if found is not None and found > settings.growth else []


def settings_of(argv: Sequence[str] | None) -> SoakSettings:
    defaults = SoakSettings()
    parser = runner.parser(
        "soak",
        "Churn of all that Koordinator's plugins know, with API faults, recounted.",
        defaults,
        growth="percent that memory may grow after the warm-up",
    )
    parser.add_argument("--gangs", type=int, default=defaults.gangs, help="gangs that there are at a time")
    parser.add_argument("--reservations", type=int, default=defaults.reservations, help="Reservations that there are at a time")
    return SoakSettings(**vars(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
