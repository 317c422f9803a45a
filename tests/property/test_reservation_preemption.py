"""What preemption estimates for strangers, owners and reserve pods equals what all filters say of every node (reservation.md §11).

Victims may own parts of reservations: what they leave goes back to these, and only owners find it free.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import PodBuilder, node, pod
from support.preemption import by_filters, outcome
from support.reservations import ReservationWorld, available, linked

from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.preemption.candidates import PreemptionCandidate
from koordsched.framework.preemption.estimate import Preemptor
from koordsched.framework.status import Status
from koordsched.plugins.defaultpreemption.plugin import DefaultPreemption

NODES = 5
APPS = ["x", "y", "z"]


class Bench:
    """Nodes of four CPUs full of reservations, their owners and strangers; an owner's label is that of a reservation or of none."""

    def __init__(self, random: Random) -> None:
        self.random, self.world, self.serial = random, ReservationWorld(), 0
        plugin = next(p for p in self.world.profile.post_filter if isinstance(p, DefaultPreemption))
        self.finder = plugin.engine.finder
        for i in range(NODES):
            self.world.cache.set_node(node(f"n{i}").cpu("4").pods(6).build())
        for _ in range(NODES):
            self.reserve(f"n{random.randrange(NODES)}")
        for _ in range(4 * NODES):
            self.run(f"n{random.randrange(NODES)}")

    def free(self, name: str) -> int:
        there = self.world.cache.nodes_by_name[name]
        return 4000 - there.requested("cpu") if len(there.pods) < 6 else 0

    def reserve(self, name: str) -> None:
        random = self.random
        cpu, self.serial = random.randint(1, 2), self.serial + 1
        policy = random.choice(["Aligned", "Aligned", "Restricted"])
        if 1000 * cpu <= self.free(name):
            priority = {"labels": {"koordinator.sh/priority": str(random.randint(0, 9))}}
            spec = {"allocatePolicy": policy, "allocateOnce": random.random() < 0.2, "metadata": priority}
            self.world.reservations.put(available(f"r{self.serial}", name, {"cpu": str(cpu)}, random.choice(APPS), **spec))

    def draw(self, most_cpu: int = 2) -> PodBuilder:
        random = self.random
        self.serial += 1
        made = pod(f"p{self.serial}").uid(f"u{self.serial:03d}").priority(random.randint(0, 5)).cpu(str(random.randint(1, most_cpu)))
        return made.label("app", random.choice([*APPS, "none"])).started(f"2026-01-01T00:{self.serial % 60:02d}:00Z")

    def run(self, name: str) -> None:
        """Let a pod run on the node: of a reservation there that it may own, or of what is free."""
        cache, random, made = self.world.cache, self.random, self.draw()
        info = made.info()
        cpu = info.resources.requests["cpu"]
        for found in list(self.world.reservations.on_node(name)):
            owner = self.world.reservations.owner_of(info)
            if owner is None or found.uid not in owner.matcher.matched:
                continue
            left = found.allocatable["cpu"] - found.allocated.get("cpu", 0)
            more = self.free(name) if found.policy == "Aligned" else 0
            if left + more >= cpu and len(cache.nodes_by_name[name].pods) < 6:
                cache.set_pod(linked(made.priority(random.randint(0, 2)), found.reservation, name), name)
                return
        if self.free(name) >= cpu:
            cache.set_pod(made.on(name).info(counted_on_node=True), name)

    def fail(self) -> tuple[PodInfo, Diagnosis] | None:
        """Let a pod that asks for much fail; None: it fits."""
        made = self.world.signed(self.draw(most_cpu=4).priority(self.random.randint(2, 9)).info())
        found = self.world.find(made)
        self.world.informer(POD).store[made.key] = made.pod
        return (made, found) if isinstance(found, Diagnosis) else None


seen: Counter[str] = Counter()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_estimate_leads_to_the_candidate_that_all_filters_give_for_each_node(seed: int) -> None:
    bench = Bench(Random(seed))
    for _ in range(4):
        failed = bench.fail()
        if failed is None:
            continue
        made, diagnosis = failed
        assert diagnosis.simulation is not None
        preemptor = Preemptor(made, diagnosis, diagnosis.simulation)
        before = {uid: state.info for uid, state in bench.world.cache.pods.items()}
        found = bench.finder.best(preemptor, NODES)
        assert outcome(found) == outcome(by_filters(bench.finder, bench.world, preemptor))
        if isinstance(found, PreemptionCandidate):
            assert all(victim.reservation is None for victim in found.victims)
        assert {uid: state.info for uid, state in bench.world.cache.pods.items()} == before, "a simulation leaves everything as it was"
        is_owner = bench.world.reservations.owner_of(made) is not None
        drawn = isinstance(found, PreemptionCandidate) and any(bench.world.reservations.reservation_of(v.uid) for v in found.victims)
        what = "refusal" if isinstance(found, Status) else "owners" if drawn else "pods"
        seen[f"{'owner' if is_owner else 'stranger'}: {what}"] += 1


def test_all_outcomes_occur() -> None:
    seen.clear()
    for seed in range(120):
        test_the_estimate_leads_to_the_candidate_that_all_filters_give_for_each_node.hypothesis.inner_test(seed)  # type: ignore[attr-defined]
    assert min(seen[f"{who}: {what}"] for who in ("owner", "stranger") for what in ("refusal", "owners", "pods")) >= 2, seen
