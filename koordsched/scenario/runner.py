"""Run scenarios one after the other, each on a fresh cluster, and say how each ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from koordsched.config.launch import Launch
from koordsched.framework.handle import ExtenderSettingsError
from koordsched.scenario.cluster import Backend, BackendError, ScenarioCluster
from koordsched.scenario.model import Scenario
from koordsched.scenario.steps import ScenarioFailed, StepRunner


class PlannedScenario(msgspec.Struct, frozen=True):
    """A scenario and what its scheduler is started with; `skip` says why it does not run, "" that it does."""

    scenario: Scenario
    launch: Launch
    skip: str = ""


class ScenarioResult(msgspec.Struct, frozen=True):
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


def run_scenarios(plans: Iterable[PlannedScenario], backend: Backend, report: Callable[[ScenarioResult], None]) -> list[ScenarioResult]:
    """Run the scenarios in order; call `report` with each result. BackendError."""
    results = []
    for plan in plans:
        result = run_scenario(plan, backend)
        report(result)
        results.append(result)
    return results


def run_scenario(plan: PlannedScenario, backend: Backend) -> ScenarioResult:
    """Run one scenario. BackendError."""
    scenario, launch = plan.scenario, plan.launch
    if plan.skip:
        return ScenarioResult(scenario.name, skipped=plan.skip)

    async def script(cluster: ScenarioCluster) -> None:
        runner = StepRunner(cluster, launch.config.profiles[0].scheduler_name)
        await runner.create(scenario.given)
        await runner.start()
        for step in scenario.steps:
            await runner.run(step)

    try:
        backend.run(launch, script)
    except ScenarioFailed as failure:
        return ScenarioResult(scenario.name, str(failure))
    except ExtenderSettingsError as mistake:
        raise BackendError(str(mistake)) from None
    return ScenarioResult(scenario.name)
