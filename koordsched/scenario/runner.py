"""Run scenarios one after the other, each on a fresh cluster and step by step until one fails, and say how each ended.

A step that cannot be done or does not come true raises `ScenarioFailed`; its text is what the report prints.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import assert_never

import msgspec

from koordsched.api.kinds import NAMESPACE, PRIORITY_CLASS
from koordsched.cluster.memory.admission import PRIORITY_CLASSES
from koordsched.cluster.port import AlreadyExists, ClusterError, Ref
from koordsched.config.loading import Launch
from koordsched.framework.handle import SettingsError
from koordsched.scenario.cluster import Backend, BackendError, ScenarioCluster, named
from koordsched.scenario.expectations import Mismatch, differences
from koordsched.scenario.model import Create, Delete, Expect, InitialObjects, PatchObjects, Restart, Scenario, Step, Wait
from koordsched.scenario.objects import ALWAYS_THERE, expand, with_now
from koordsched.scenario.observation import Seen, look
from koordsched.scenario.updating import Correction, Corrector

POLL_SECONDS = 0.1


class ScenarioFailed(Exception):
    """A scenario did not go as it says.

    details: lines that help to find out why, such as the end of the scheduler's log. differences: what does not hold, where it is that; the
    text without them is `where`.
    """

    def __init__(self, text: str, details: Sequence[str] = (), differences: Sequence[Mismatch] = ()) -> None:
        super().__init__(f"{text}: {'; '.join(map(str, differences))}" if differences else text)
        self.where = text
        self.details = tuple(details)
        self.differences = tuple(differences)


class PlannedScenario(msgspec.Struct, frozen=True):
    """A scenario and what its scheduler is started with.

    skip: why it does not run, "" that it does. slack: seconds that an expectation may take longer than its `within`.
    """

    scenario: Scenario
    launch: Launch
    skip: str = ""
    slack: float = 0.0


class ScenarioResult(msgspec.Struct, frozen=True):
    """How a scenario ended; it passed unless `failure`, `skipped` or `corrections` says otherwise."""

    name: str
    failure: str = ""
    skipped: str = ""
    details: tuple[str, ...] = ()  # of the failure
    where: str = ""  # the failure without
    differences: tuple[Mismatch, ...] = ()
    corrections: tuple[Correction, ...] = ()  # with which it passes (`test --update`)
    origin: str = ""  # where the scenario stands

    @property
    def line(self) -> str:
        """Return the result as one line of the report (scenarios.md)."""
        if self.skipped:
            return f"SKIP {self.name}: {self.skipped}"
        if self.corrections and not self.failure:
            return f"UPDATE {self.name}: {'; '.join(map(str, self.corrections))}"
        return f"FAIL {self.name}: {' '.join(self.failure.split())}" if self.failure else f"PASS {self.name}"


def run_scenarios(
    plans: Iterable[PlannedScenario], backend: Backend, report: Callable[[ScenarioResult], None], *, update: bool = False
) -> list[ScenarioResult]:
    """Run the scenarios in order; call `report` with each result. update: what an expectation does not say as it is, is corrected.

    BackendError.
    """
    results = []
    for plan in plans:
        result = run_scenario(plan, backend, Corrector(plan.scenario.body) if update else None)
        report(result)
        results.append(result)
    return results


def run_scenario(plan: PlannedScenario, backend: Backend, corrector: Corrector | None = None) -> ScenarioResult:
    """Run one scenario. BackendError."""
    scenario, launch = plan.scenario, plan.launch
    if plan.skip:
        return ScenarioResult(scenario.name, skipped=plan.skip, origin=scenario.origin)

    async def script(cluster: ScenarioCluster) -> None:
        runner = StepRunner(cluster, launch.config.profiles[0].scheduler_name, plan.slack, corrector)
        await runner.create(scenario.given)
        await runner.start()
        for step in scenario.steps:
            await runner.run(step)

    try:
        backend.run(launch, script)
    except ScenarioFailed as failure:
        return ScenarioResult(
            scenario.name,
            str(failure),
            details=failure.details,
            where=failure.where,
            differences=failure.differences,
            corrections=tuple(corrector.made) if corrector is not None else (),
            origin=scenario.origin,
        )
    except SettingsError as mistake:
        raise BackendError(str(mistake)) from None
    return ScenarioResult(scenario.name, corrections=tuple(corrector.made) if corrector is not None else (), origin=scenario.origin)


class StepRunner:
    """Creates one scenario's objects and runs its steps.

    scheduler_name: what pods without one get. slack: see PlannedScenario. corrector: corrects expectations that do not come true.
    """

    def __init__(self, cluster: ScenarioCluster, scheduler_name: str, slack: float, corrector: Corrector | None = None) -> None:
        self._cluster = cluster
        self._scheduler_name = scheduler_name
        self._slack = slack
        self._corrector = corrector
        self._namespaces = set(ALWAYS_THERE)  # those that exist
        self._seen: Seen | None = None  # when the cluster was last looked at

    async def run(self, step: Step) -> None:
        """Do one step; ScenarioFailed."""
        action = step.action
        match action:
            case Create():
                await self.create(action.objects)
            case PatchObjects():
                await self._patch(action)
            case Delete():
                await self._delete(action)
            case Wait():
                await self._cluster.sleep(action.seconds)
            case Restart():
                await self._start(step.path, self._cluster.restart)
            case Expect():
                await self._expect(step.path, action)
            case _:
                assert_never(action)

    async def start(self) -> None:
        """Start the scheduler for the first time. ScenarioFailed."""
        await self._start("start", self._cluster.start)

    async def _start(self, path: str, start: Callable[[], Awaitable[None]]) -> None:
        try:
            await start()
        except ClusterError as error:
            raise ScenarioFailed(f"{path}: expected the scheduler to run, seen {error.message}") from error

    async def create(self, objects: Iterable[InitialObjects]) -> None:
        """Create the objects in order, and the namespaces they need. ScenarioFailed."""
        for given in objects:
            for kind, body in expand(given, now=self._cluster.now(), scheduler_name=self._scheduler_name):
                metadata = body["metadata"]
                target = Ref(kind, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"])
                try:
                    if kind is NAMESPACE:
                        await self._create_namespace(target, body)
                        continue
                    if kind is PRIORITY_CLASS and target.name in PRIORITY_CLASSES:
                        await self._cluster.patch(target, body)  # it is there; people bring the manifests of Koordinator's chart
                        continue
                    if kind.namespaced and target.namespace not in self._namespaces:
                        self._namespaces.add(target.namespace)
                        await self._need_existing(target.namespace)
                    await self._cluster.create(kind, body)
                except ClusterError as error:
                    raise ScenarioFailed(f"{given.path}: expected {named(target)} to be created, seen {error.message}") from error

    async def _create_namespace(self, target: Ref, body: dict[str, object]) -> None:
        """Create a namespace; one that exists already (made on demand, or always there) is given what the manifest says."""
        if target.name in self._namespaces:
            await self._need_existing(target.name)
            await self._cluster.patch(target, body)
        else:
            self._namespaces.add(target.name)
            await self._cluster.create(NAMESPACE, body)

    async def _need_existing(self, name: str) -> None:
        try:
            await self._cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except AlreadyExists:
            return

    async def _patch(self, action: PatchObjects) -> None:
        for patch in action.patches:
            try:
                await self._cluster.patch(patch.target, with_now(patch.merge, self._cluster.now()))
            except ClusterError as error:
                raise ScenarioFailed(f"{patch.path}: expected {named(patch.target)} to be patched, seen {error.message}") from error

    async def _delete(self, action: Delete) -> None:
        for path, target in action.targets:
            try:
                await self._cluster.delete(target)
            except ClusterError as error:
                raise ScenarioFailed(f"{path}: expected {named(target)} to be deleted, seen {error.message}") from error

    async def _expect(self, path: str, expect: Expect) -> None:
        """Poll until the block holds, at most `within` and the slack; then see that it goes on holding for `stays`."""
        await self._cluster.settle()
        within = expect.within + self._slack
        deadline = self._cluster.now() + within
        while found := await self._differences(expect):
            if self._cluster.now() >= deadline:
                if self._corrector is not None and self._corrector.correct(path, self._seen):
                    return
                raise ScenarioFailed(f"{path}: within {within:g}s", differences=found)
            await self._cluster.sleep(min(POLL_SECONDS, max(deadline - self._cluster.now(), 0.001)))
        end = self._cluster.now() + expect.stays
        while self._cluster.now() < end:
            await self._cluster.sleep(min(POLL_SECONDS, max(end - self._cluster.now(), 0.001)))
            if found := await self._differences(expect):
                raise ScenarioFailed(f"{path}: held, but not for {expect.stays:g}s", differences=found)

    async def _differences(self, expect: Expect) -> list[Mismatch]:
        try:
            self._seen = await look(self._cluster, expect)
        except ClusterError as error:
            self._seen = None
            return [Mismatch("", "the cluster to answer", error.message)]
        return differences(self._seen, expect)
