"""Preemption on one node, with an API that takes evictions; and what asking all filters about every node finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from koordsched.api.core import PodCondition
from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import Conflict, NotFound, Patch, Ref
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import PostFilterResult
from koordsched.framework.preemption import eviction
from koordsched.framework.preemption.candidates import CandidateFinder, PreemptionCandidate, refusal_of
from koordsched.framework.preemption.estimate import Preemptor
from koordsched.framework.status import Code, Status
from koordsched.plugins.defaultpreemption.plugin import DefaultPreemption
from support.builders import node, pod
from support.world import World

Answers = list[Exception | None]


class EvictionApi:
    """Takes patches and deletions; `answers` are raised one after the other, None is success."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []
        self.gone: Callable[[str], None] = lambda _: None  # called with the name of a pod that does not exist any more

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, NotFound | Conflict) or (answer is None and call.startswith("delete")):
            self.gone(call.split()[1])
        if answer is not None:
            raise answer

    async def patch(self, ref: Ref, patch: Patch) -> None:
        self._answer(f"patch {ref.name}")

    async def delete(self, ref: Ref, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        assert grace_period_seconds is None, "a victim has its own grace period"
        self._answer(f"delete {ref.name} {uid}")


class PreemptionBench:
    """One node of four cores with two pods of two cores."""

    def __init__(self, api: EvictionApi, monkeypatch: pytest.MonkeyPatch, world: World | None = None) -> None:
        monkeypatch.setattr(eviction, "FIRST_DELAY", 0.0)
        monkeypatch.setattr(eviction, "LONGEST_DELAY", 0.0)
        self.world = world or World()
        self.world.cluster = api  # type: ignore[assignment]
        self.store: dict[str, Any] = self.world.informer(POD).store
        api.gone = self.gone
        self.plugin = next(plugin for plugin in self.world.profile.post_filter if isinstance(plugin, DefaultPreemption))
        self.world.cache.set_node(node("n1").cpu("4").build())
        for name, priority in (("low", 0), ("mid", 1)):
            self.run(name, priority)

    def run(self, name: str, priority: int, on: str = "n1", **changes: Any) -> None:
        made = pod(name).cpu("2").priority(priority).on(on)
        made = made.deleted_at(changes["deleted"]).condition(EVICTED) if "deleted" in changes else made
        self.store[f"default/{name}"] = made.build()
        self.world.cache.set_pod(made.info(counted_on_node=True), on)

    def gone(self, name: str) -> None:
        """See that a pod was deleted."""
        if self.store.pop(f"default/{name}", None) is not None:
            self.world.cache.remove_pod(f"uid-default-{name}")

    def high(self, cpu: str = "2") -> PodInfo:
        made = pod("high").cpu(cpu).priority(9).info()
        self.store[made.key] = made.pod
        return made

    def victims(self, made: PodInfo) -> list[PodInfo]:
        """Return the pods on the node that could be evicted for a pod."""
        victims = self.plugin.engine.finder.victims
        victims.bring_up_to_date()
        return victims.lower_on(made, self.world.cache.nodes_by_name["n1"].row)

    async def preempt(self, made: PodInfo) -> tuple[PostFilterResult | None, Status | None]:
        found = self.world.find(made)
        assert isinstance(found, Diagnosis)
        return await self.plugin.post_filter(CycleState(), made, found)

    async def finish(self) -> None:
        for work in self.world.spawned:
            await work
        self.world.spawned.clear()


EVICTED = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")


def by_filters(finder: CandidateFinder, world: World, preemptor: Preemptor) -> PreemptionCandidate | Status:
    """Return what asking all filters about each node that refuses the pod finds."""
    refused: Counter[Status] = Counter()
    found: list[PreemptionCandidate] = []
    for row in world.cache.table.live_rows().tolist():
        status = preemptor.diagnosis.status_of(row)
        if status is not None and status.code is Code.UNSCHEDULABLE:
            simulated = finder.select_victims(preemptor, row)
            if isinstance(simulated, PreemptionCandidate):
                found.append(simulated)
            else:
                refused[simulated] += 1
    return min(found, key=finder.rank) if found else refusal_of(preemptor.diagnosis.total_nodes, refused, finder.rules)


def outcome(found: PreemptionCandidate | Status) -> object:
    if isinstance(found, Status):
        return found.message
    return found.row, [victim.uid for victim in found.victims], found.violations
