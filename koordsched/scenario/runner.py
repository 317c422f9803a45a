"""Run scenarios one after the other, each on a fresh world, and say how each ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from koordsched.config.launch import Launch
from koordsched.framework.extenders import ExtenderSettingsError
from koordsched.scenario.model import Scenario
from koordsched.scenario.steps import Failed, Player
from koordsched.scenario.world import Stage, Unplayable, World


class Plan(msgspec.Struct, frozen=True):
    """A scenario and what its scheduler is started with; `skip` says why it is not played, "" that it is."""

    scenario: Scenario
    launch: Launch
    skip: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """How a scenario ended; it passed unless `failure` or `skipped` says otherwise."""

    name: str
    failure: str = ""
    skipped: str = ""

    @property
    def line(self) -> str:
        """Say it in one line (scenarios.md)."""
        if self.skipped:
            return f"SKIP {self.name}: {self.skipped}"
        return f"FAIL {self.name}: {' '.join(self.failure.split())}" if self.failure else f"PASS {self.name}"


def run_scenarios(plans: Iterable[Plan], stage: Stage, report: Callable[[Outcome], None]) -> list[Outcome]:
    """Play the scenarios; `report` is told of each as it ends. Unplayable."""
    outcomes = []
    for plan in plans:
        outcome = run_scenario(plan, stage)
        report(outcome)
        outcomes.append(outcome)
    return outcomes


def run_scenario(plan: Plan, stage: Stage) -> Outcome:
    """Play one scenario. Unplayable."""
    scenario, launch = plan.scenario, plan.launch
    if plan.skip:
        return Outcome(scenario.name, skipped=plan.skip)

    async def script(world: World) -> None:
        player = Player(world, launch.config.profiles[0].scheduler_name)
        await player.create(scenario.given)
        await player.start()
        for step in scenario.steps:
            await player.play(step)

    try:
        stage.play(launch, script)
    except Failed as failure:
        return Outcome(scenario.name, str(failure))
    except ExtenderSettingsError as mistake:
        raise Unplayable(str(mistake)) from None
    return Outcome(scenario.name)
