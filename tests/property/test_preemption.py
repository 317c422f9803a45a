"""Preemption chooses the node and the victims that a plain model of framework.md §7 chooses among all nodes, and leaves no trace."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import PodBuilder, node, pod
from support.described import described
from support.world import World

from koordsched.api.groups import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from koordsched.api.kinds import POD, POD_DISRUPTION_BUDGET
from koordsched.api.meta import LabelSelector, ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import ADDED, DELETED, MODIFIED, WatchEvent
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import PostFilterResult
from koordsched.framework.status import Status
from koordsched.plugins.defaultpreemption.plugin import DefaultPreemption
from koordsched.queue.nominator import Nominator

CPU, PODS, MOST_CPU = 4, 4, 3
NAMES = [f"n{i}" for i in range(4)]
APPS = ["a", "b", "c"]
PORTS = [80, 81]
WEIGHT = 2**31


class Running(NamedTuple):
    """A pod on a node, as the model sees it."""

    uid: str
    priority: int
    cpu: int
    port: int
    started: int
    app: str


class Choice(NamedTuple):
    node: str
    victims: list[str]


class Model:
    """Nodes of four cores and four pods; room is a matter of cores, the number of pods and ports."""

    def __init__(self) -> None:
        self.pods: dict[str, list[Running]] = {name: [] for name in NAMES}
        self.cordoned: set[str] = set()
        self.nominated: dict[str, list[Running]] = {name: [] for name in NAMES}
        self.budgets: dict[str, int] = {}

    def fits(self, me: Running, there: list[Running]) -> bool:
        cpu, count = sum(other.cpu for other in there), len(there)
        free_port = me.port == 0 or all(other.port != me.port for other in there)
        return cpu + me.cpu <= CPU and count + 1 <= PODS and free_port

    def passes(self, me: Running, name: str, there: list[Running]) -> bool:
        ahead = [other for other in self.nominated[name] if other.priority >= me.priority and other.uid != me.uid]
        return name not in self.cordoned and self.fits(me, there + ahead) and self.fits(me, there)

    def choose(self, me: Running) -> Choice | None:
        candidates = [found for place, name in enumerate(NAMES) if (found := self.dry_run(me, name, place)) is not None]
        return min(candidates)[-1] if candidates else None

    def dry_run(self, me: Running, name: str, place: int) -> tuple[Any, ...] | None:
        lower = sorted((other for other in self.pods[name] if other.priority < me.priority), key=lambda o: (-o.priority, o.started))
        there = [other for other in self.pods[name] if other.priority >= me.priority]
        if not lower or not self.passes(me, name, there) or me.cpu > CPU:
            return None
        beyond = self.beyond(lower)
        victims = []
        for other in [o for o in lower if o.uid in beyond] + [o for o in lower if o.uid not in beyond]:
            if self.passes(me, name, [*there, other]):
                there.append(other)
            else:
                victims.append(other)
        if not victims:
            return None
        victims.sort(key=lambda o: (-o.priority, o.started))
        top = victims[0].priority
        oldest = min(o.started for o in victims if o.priority == top)
        total = sum(o.priority + WEIGHT for o in victims)
        violations = sum(o.uid in beyond for o in victims)
        return violations, top, total, len(victims), -oldest, place, Choice(name, [o.uid for o in victims])

    def beyond(self, lower: list[Running]) -> set[str]:
        left = dict(self.budgets)
        found = set()
        for other in lower:
            if other.app in left:
                left[other.app] -= 1
                if left[other.app] < 0:
                    found.add(other.uid)
        return found


class Bench:
    """The scheduler's world beside the model."""

    def __init__(self) -> None:
        self.world, self.model = World(), Model()
        self.plugin = next(p for p in self.world.profile.post_filter if isinstance(p, DefaultPreemption))
        self.serial = 0
        for name in NAMES:
            self.world.cache.set_node(node(name).cpu(str(CPU)).pods(PODS).build())

    def describe(self, running: Running) -> PodBuilder:
        made = pod(running.uid).uid(running.uid).priority(running.priority).cpu(str(running.cpu)).label("app", running.app)
        made = made.host_port(running.port) if running.port else made
        return made.started(f"2026-01-01T{running.started // 60:02d}:{running.started % 60:02d}:00Z")

    def new(self, random: Random, *, most_cpu: int = MOST_CPU) -> Running:
        self.serial += 1
        return Running(
            f"u{self.serial:04d}",
            random.randint(-1, 4) if most_cpu == MOST_CPU else random.randint(1, 6),
            random.randint(1, most_cpu),
            random.choice([0, 0, 0, *PORTS]),
            random.randint(0, 20) * 50 + self.serial,
            random.choice([*APPS, "free"]),
        )

    def run(self, name: str, running: Running) -> None:
        if self.model.fits(running, self.model.pods[name]):
            self.model.pods[name].append(running)
            self.world.cache.set_pod(self.describe(running).on(name).info(counted_on_node=True), name)

    def end(self, name: str, index: int) -> None:
        if self.model.pods[name]:
            gone = self.model.pods[name].pop(index % len(self.model.pods[name]))
            self.world.cache.remove_pod(gone.uid)

    def nominate(self, name: str, running: Running) -> None:
        self.model.nominated[name].append(running)
        self.world.nominator.set(self.describe(running).info(), name)

    def withdraw(self, name: str) -> None:
        if self.model.nominated[name]:
            self.world.nominator.remove(self.model.nominated[name].pop().uid)

    def cordon(self, name: str, *, on: bool) -> None:
        (self.model.cordoned.add if on else self.model.cordoned.discard)(name)
        made = node(name).cpu(str(CPU)).pods(PODS)
        self.world.cache.set_node((made.cordoned() if on else made).build())

    def protect(self, app: str, allowed: int | None) -> None:
        """Let a budget allow so many disruptions; None: there is none."""
        before = self.model.budgets.pop(app, None)
        self.serial += 1
        budget = PodDisruptionBudget(
            metadata=ObjectMeta(name=app, namespace="default", uid=f"pdb-{app}", resource_version=str(self.serial)),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
            status=PodDisruptionBudgetStatus(disruptions_allowed=allowed or 0),
        )
        objects = self.world.informer(POD_DISRUPTION_BUDGET)._objects
        if allowed is not None:
            self.model.budgets[app] = allowed
            objects.apply(WatchEvent(ADDED if before is None else MODIFIED, budget))
        elif before is not None:
            objects.apply(WatchEvent(DELETED, budget))

    def preempt(self, running: Running) -> tuple[PostFilterResult | None, Status | None, list[PodInfo]] | None:
        """Let a pod fail and preempt; None if it fits somewhere. Victims are those that the candidate names."""
        made = self.describe(running).info()
        found = self.world.find(made)
        if not isinstance(found, Diagnosis):
            return None
        self.world.informer(POD).store[made.key] = made.pod
        chosen: list[PodInfo] = []

        def evict(preemptors: Sequence[PodInfo], victims: Mapping[str, Sequence[PodInfo]]) -> Awaitable[str] | None:
            chosen.extend(chain.from_iterable(victims.values()))
            return None

        self.plugin.engine.evictions.evict = evict  # type: ignore[method-assign]
        self.plugin.engine._withdraw_lower_nominations = lambda *_: None  # type: ignore[method-assign]
        helpful = self.plugin.may_help(made, found)
        work = self.plugin.post_filter(CycleState(), made, found)
        try:
            work.send(None)
        except StopIteration as end:
            result, status = end.value
            assert helpful or status is not None
            return result, status, chosen
        raise AssertionError("nothing is to be awaited without extenders")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_preemption_chooses_as_the_plain_model_does(seed: int) -> None:
    """Play twenty changes, with an attempt after each. Drawn from a seed: drawn one by one, most clusters would be nearly empty."""
    bench, random = Bench(), Random(seed)
    for name in NAMES:
        for _ in range(PODS + 2):
            bench.run(name, bench.new(random))
    for _ in range(20):
        name = random.choice(NAMES)
        step = random.choice(["run", "run", "end", "nominate", "withdraw", "cordon", "protect", "protect"])
        if step == "run":
            bench.run(name, bench.new(random))
        elif step == "end":
            bench.end(name, random.randrange(4))
        elif step == "nominate":
            bench.nominate(name, bench.new(random, most_cpu=2))
        elif step == "withdraw":
            bench.withdraw(name)
        elif step == "cordon":
            bench.cordon(name, on=random.random() < 0.3)
        elif step == "protect":
            bench.protect(random.choice(APPS), random.choice([None, 0, 1, 2]))
        try_one(bench, bench.new(random, most_cpu=5))


def try_one(bench: Bench, me: Running) -> None:
    before = (described(bench.world.cache), bench.world.cache.table.columns())
    outcome = bench.preempt(me)
    after = (described(bench.world.cache), bench.world.cache.table.columns())
    assert after[0] == before[0]
    for name, column in before[1].items():
        if name != "bit":  # a port's column is made when the first pod uses it, simulated or not
            np.testing.assert_array_equal(after[1][name], column)
    expected = bench.model.choose(me)
    if outcome is None:
        assert any(bench.model.passes(me, name, bench.model.pods[name]) for name in NAMES)
        return
    result, status, victims = outcome
    if expected is None:
        assert status is not None
        assert result == PostFilterResult("")
    else:
        assert status is None, status
        assert result is not None
        assert Choice(result.nominated_node_name, [victim.uid for victim in victims]) == expected


def test_the_model_is_about_something() -> None:
    """Both ways of looking are taken: by the kernel alone, and by asking all filters."""
    bench = Bench()
    for name in NAMES:
        bench.run(name, Running(f"low-{name}", 1, 3, 80, 1, "free"))
    by_kernel, by_filters = Running("k", 3, 3, 0, 0, "free"), Running("f", 3, 1, 80, 0, "free")
    for me in (by_kernel, by_filters):
        assert bench.model.choose(me) == Choice("n0", ["low-n0"])
        try_one(bench, me)
    assert isinstance(bench.world.nominator, Nominator)
