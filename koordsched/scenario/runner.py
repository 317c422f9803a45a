"""Run scenarios one after the other, each on a fresh world, and say how each ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from koordsched.config.types import SchedulerConfiguration
from koordsched.scenario.model import Scenario
from koordsched.scenario.steps import Failed, Player
from koordsched.scenario.world import Stage, World

Plan = tuple[Scenario, SchedulerConfiguration]
"""A scenario and the configuration that its scheduler runs."""


class Outcome(msgspec.Struct, frozen=True):
    """How a scenario ended; `failure` is "" when it passed."""

    name: str
    failure: str = ""

    @property
    def line(self) -> str:
        """Say it in one line (scenarios.md)."""
        return f"FAIL {self.name}: {' '.join(self.failure.split())}" if self.failure else f"PASS {self.name}"


def run_scenarios(plans: Iterable[Plan], stage: Stage, report: Callable[[Outcome], None]) -> list[Outcome]:
    """Play the scenarios; `report` is told of each as it ends."""
    outcomes = []
    for scenario, config in plans:
        outcome = run_scenario(scenario, config, stage)
        report(outcome)
        outcomes.append(outcome)
    return outcomes


def run_scenario(scenario: Scenario, config: SchedulerConfiguration, stage: Stage) -> Outcome:
    """Play one scenario."""

    async def script(world: World) -> None:
        player = Player(world, config.profiles[0].scheduler_name)
        await player.create(scenario.given)
        await player.start()
        for step in scenario.steps:
            await player.play(step)

    try:
        stage.play(config, scenario.args, script)
    except Failed as failure:
        return Outcome(scenario.name, str(failure))
    return Outcome(scenario.name)
