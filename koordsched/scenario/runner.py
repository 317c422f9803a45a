"""Run scenarios one after the other, each on a fresh world, and say how each ended."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from koordsched.config.errors import ConfigError
from koordsched.config.flags import Flags, parse_flags
from koordsched.config.types import SchedulerConfiguration
from koordsched.scenario.model import Scenario
from koordsched.scenario.steps import Failed, Player
from koordsched.scenario.world import Stage, World

Configure = Callable[[Flags], SchedulerConfiguration]


class Outcome(msgspec.Struct, frozen=True):
    """How a scenario ended; `failure` is "" when it passed."""

    name: str
    failure: str = ""

    @property
    def line(self) -> str:
        """Say it in one line (scenarios.md)."""
        return f"FAIL {self.name}: {' '.join(self.failure.split())}" if self.failure else f"PASS {self.name}"


def run_scenarios(scenarios: list[Scenario], stage: Stage, configure: Configure, report: Callable[[Outcome], None]) -> list[Outcome]:
    """Play the scenarios; `configure` makes the configuration of those that bring none, `report` is told of each as it ends."""
    outcomes = []
    for scenario in scenarios:
        outcome = run_scenario(scenario, stage, configure)
        report(outcome)
        outcomes.append(outcome)
    return outcomes


def run_scenario(scenario: Scenario, stage: Stage, configure: Configure) -> Outcome:
    """Play one scenario."""
    try:
        config = scenario.config or configure(parse_flags(scenario.args))
    except ConfigError as mistake:
        return Outcome(scenario.name, f"args: expected a configuration that these flags allow, seen {mistake}")

    async def script(world: World) -> None:
        player = Player(world, config.profiles[0].scheduler_name)
        await player.create(scenario.given)
        await world.start()
        for step in scenario.steps:
            await player.play(step)

    try:
        stage.play(config, scenario.args, script)
    except Failed as failure:
        return Outcome(scenario.name, str(failure))
    return Outcome(scenario.name)
