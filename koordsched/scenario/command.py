"""The `test` command. Exit codes (scenarios.md): 0 all passed, 1 some failed, 2 a file or the configuration is malformed."""

from __future__ import annotations

from typing import TextIO

import msgspec

from koordsched.config.errors import ConfigError
from koordsched.config.flags import Flags
from koordsched.config.loading import Environment, default_config, load_config
from koordsched.config.types import SchedulerConfiguration
from koordsched.scenario.format import load_scenarios
from koordsched.scenario.runner import Outcome, run_scenarios
from koordsched.scenario.world import Stage
from koordsched.simulate.documents import InputError, expand

PASSED, FAILED, MALFORMED = 0, 1, 2


class ScenarioOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. only: run scenarios whose name contains this."""

    paths: tuple[str, ...]
    config: str | None = None
    only: str = ""

    def configure(self, flags: Flags) -> SchedulerConfiguration:
        """Return the configuration of scenarios that bring none. ConfigError."""
        environment = Environment(gates=flags.gates)
        return load_config(self.config, environment) if self.config else default_config(environment)


def run_tests(options: ScenarioOptions, stage: Stage, out: TextIO, err: TextIO) -> int:
    """Play the scenarios on the stage; a line for each goes to `out` as it ends, mistakes of the files to `err`."""
    try:
        options.configure(Flags())
        loaded = load_scenarios(expand(list(options.paths)))
    except ConfigError as mistake:
        print(*mistake.errors, sep="\n", file=err)
        return MALFORMED
    except InputError as mistake:
        print(mistake, file=err)
        return MALFORMED
    if loaded.mistakes:
        print(*loaded.mistakes, sep="\n", file=err)
        return MALFORMED

    def report(outcome: Outcome) -> None:
        print(outcome.line, file=out, flush=True)

    chosen = [scenario for scenario in loaded.scenarios if options.only in scenario.name]
    outcomes = run_scenarios(chosen, stage, options.configure, report)
    failed = sum(bool(outcome.failure) for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed", file=out)
    return FAILED if failed else PASSED
