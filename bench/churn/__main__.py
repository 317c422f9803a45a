"""`PYTHONPATH=bench:tests python -m churn`: the command line, and what the run consists of."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from support.controlplane.rest import Rest
from support.proxy import Weather

from churn import runner
from churn.checks import violations
from churn.growth import growth_an_hour
from churn.mutator import Mutator
from churn.report import Minute
from churn.settings import Settings


def main(argv: Sequence[str] | None = None) -> int:
    settings = settings_of(argv)

    def course(rest: Rest, weather: Weather) -> runner.Course:
        return runner.Course(Mutator(rest, settings, weather), violations)

    return runner.run(settings, course, lambda minutes: growth(minutes, settings))


def growth(minutes: Sequence[Minute], settings: Settings) -> list[str]:
    """Say by how much memory grew, where that is more than allowed. A process that was killed is not looked at."""
    found = None if settings.kills else growth_an_hour([each.minutes for each in minutes], [each.resident_mib for each in minutes])
    shown = "nothing to say of so short a run" if found is None else f"{found:+.1f} MiB an hour over the second half"
    runner.print_line(f"memory: {shown}")
    allowed = settings.growth
    return [f"memory grows by {found:.1f} MiB an hour, allowed are {allowed:.0f}"] if found is not None and found > allowed else []


def settings_of(argv: Sequence[str] | None) -> Settings:
    parser = runner.parser(
        "churn",
        "Constant churn with API faults on a real control plane.",
        Settings(),
        growth="MiB an hour that memory may grow over the second half",
    )
    return Settings(**vars(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
