"""The `test` command. Exit codes (scenarios.md): 0 all passed, 1 some failed, 2 a file or the configuration is malformed."""

from __future__ import annotations

from typing import TextIO

import msgspec

from koordsched.config.errors import ConfigError
from koordsched.config.flags import FlagError, parse_flags
from koordsched.config.loading import Environment, default_config, load_config
from koordsched.config.types import SchedulerConfiguration
from koordsched.plugins import installed_catalogue
from koordsched.scenario.format import load_scenarios
from koordsched.scenario.model import Scenario
from koordsched.scenario.runner import Outcome, Plan, run_scenarios
from koordsched.scenario.world import Stage
from koordsched.simulate.documents import InputError, expand

PASSED, FAILED, MALFORMED = 0, 1, 2


class ScenarioOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. only: run scenarios whose name contains this."""

    paths: tuple[str, ...]
    config: str | None = None
    only: str = ""


def run_tests(options: ScenarioOptions, stage: Stage, out: TextIO, err: TextIO) -> int:
    """Play the scenarios on the stage; a line for each goes to `out` as it ends, mistakes of the files to `err`."""
    try:
        loaded = load_scenarios(expand(list(options.paths)))
    except InputError as mistake:
        print(mistake, file=err)
        return MALFORMED
    plans, config_mistakes = _plan(loaded.scenarios, options.config)
    if mistakes := [*loaded.mistakes, *config_mistakes]:
        print(*mistakes, sep="\n", file=err)
        return MALFORMED

    def report(outcome: Outcome) -> None:
        print(outcome.line, file=out, flush=True)

    outcomes = run_scenarios([plan for plan in plans if options.only in plan[0].name], stage, report)
    failed = sum(bool(outcome.failure) for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed", file=out)
    return FAILED if failed else PASSED


def _plan(scenarios: list[Scenario], config: str | None) -> tuple[list[Plan], list[str]]:
    """Give every scenario its configuration: its own, or the common one under its flags. Returns what is wrong with the common one too."""
    common = _Common(config)
    plans = []
    for scenario in scenarios:
        chosen = scenario.config or common.under(scenario.args)
        if chosen is not None:
            plans.append((scenario, chosen))
    if config is not None and not common.asked:
        common.under(())  # nobody needs it, but a wrong one should not pass for right
    return plans, list(dict.fromkeys(common.mistakes))


class _Common:
    """The configuration of `--config`, or the shipped one, as each set of flags makes it."""

    def __init__(self, config: str | None) -> None:
        self._config = config
        self.asked: dict[tuple[str, ...], SchedulerConfiguration | None] = {}
        self.mistakes: list[str] = []

    def under(self, args: tuple[str, ...]) -> SchedulerConfiguration | None:
        """Return the configuration; None: it, or the flags, cannot be used (the flags' mistakes are their file's)."""
        if args not in self.asked:
            self.asked[args] = self._load(args)
        return self.asked[args]

    def _load(self, args: tuple[str, ...]) -> SchedulerConfiguration | None:
        try:
            environment = Environment(gates=parse_flags(args).gates, installed=installed_catalogue)
            return load_config(self._config, environment) if self._config else default_config(environment)
        except FlagError:
            return None
        except ConfigError as mistake:
            self.mistakes += map(str, mistake.errors)
            return None
