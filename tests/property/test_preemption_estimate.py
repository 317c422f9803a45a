"""What preemption estimates without asking filters equals what asking all filters about every node finds (estimate.py, nominator.py)."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.affinity import Far, Near, selector, term, with_affinity
from support.builders import PodBuilder, node, pod
from support.preemption import by_filters, outcome
from support.world import World

from koordsched.api.core import PodAffinityTerm, TopologySpreadConstraint
from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.preemption.candidates import CandidateFinder, PreemptionCandidate
from koordsched.framework.preemption.estimate import Preemptor
from koordsched.plugins.defaultpreemption.plugin import DefaultPreemption

NODES = 9
ZONES = ["a", "b", "c", ""]
HOST, ZONE = "kubernetes.io/hostname", "zone"
APPS = ["x", "y", "z"]


class Bench:
    """A crowded cluster in three zones whose pods spread, repel and want each other, and use ports."""

    def __init__(self, random: Random) -> None:
        self.random, self.world, self.serial = random, World(), 0
        plugin = next(p for p in self.world.profile.post_filter if isinstance(p, DefaultPreemption))
        self.finder: CandidateFinder = plugin.engine.finder
        for i in range(NODES):
            made = node(f"n{i}").cpu("4").pods(6).label(HOST, f"n{i}")
            zone = random.choice(ZONES)
            self.world.cache.set_node((made.label(ZONE, zone) if zone else made).build())
        for _ in range(4 * NODES):
            self.run(f"n{random.randrange(NODES)}")
        for _ in range(random.choice([0, 0, 3, 8])):
            name = f"n{random.randrange(NODES)}"
            self.world.nominator.set(self.world.signed(self.draw(most_cpu=3).info()), name)

    def draw(self, most_cpu: int = 2) -> PodBuilder:
        """Draw a pod. Plain ones are frequent, so that many rows can be judged by amounts."""
        random = self.random
        self.serial += 1
        made = pod(f"p{self.serial}").uid(f"u{self.serial:03d}").priority(random.randint(0, 5)).cpu(str(random.randint(1, most_cpu)))
        made = made.label("app", random.choice(APPS)).started(f"2026-01-01T00:{self.serial % 60:02d}:00Z")
        if random.random() < 0.2:
            made = made.host_port(random.choice([80, 81]))
        if random.random() < 0.4:
            made = made.spread(*[self.spreading() for _ in range(random.randint(1, 2))])
        if random.random() < 0.2:
            near = Near([self.term()]) if random.random() < 0.4 else None
            far = Far([self.term()]) if random.random() < 0.7 else None
            made = with_affinity(made, near, far)
        return made

    def spreading(self) -> TopologySpreadConstraint:
        random = self.random
        return TopologySpreadConstraint(
            max_skew=random.randint(1, 3),
            topology_key=random.choice([ZONE, ZONE, HOST]),
            when_unsatisfiable="DoNotSchedule",
            label_selector=selector({"app": random.choice(APPS)}),
            min_domains=random.choice([None, None, 3]),
        )

    def term(self) -> PodAffinityTerm:
        return term(self.random.choice([ZONE, HOST]), selector({"app": self.random.choice(APPS)}))

    def run(self, name: str) -> None:
        there = self.world.cache.nodes_by_name[name]
        made = self.draw()
        if there.requested("cpu") + 1000 <= 4000 and len(there.pods) < 6:
            self.world.cache.set_pod(made.on(name).info(counted_on_node=True), name)

    def fail(self) -> tuple[PodInfo, Diagnosis] | None:
        """Let a pod that asks for much fail; None: it fits."""
        made = self.world.signed(self.draw(most_cpu=4).priority(self.random.randint(2, 9)).info())
        found = self.world.find(made)
        self.world.informer(POD).store[made.key] = made.pod
        return (made, found) if isinstance(found, Diagnosis) else None


seen: Counter[str] = Counter()


@settings(max_examples=300, deadline=None)
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
        found = bench.finder.best(preemptor, NODES)
        assert outcome(found) == outcome(by_filters(bench.finder, bench.world, preemptor))
        seen["candidate" if isinstance(found, PreemptionCandidate) else "refusal"] += 1


def test_both_outcomes_occur() -> None:
    for seed in range(40):
        bench = Bench(Random(seed))
        failed = bench.fail()
        if failed is not None and failed[1].simulation is not None:
            found = bench.finder.best(Preemptor(*failed, failed[1].simulation), NODES)
            seen["candidate" if isinstance(found, PreemptionCandidate) else "refusal"] += 1
    assert min(seen["candidate"], seen["refusal"]) >= 5
