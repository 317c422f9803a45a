"""A more important pod that needs devices evicts exactly the pods that trying one after the other would evict (framework.md §7.4)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node
from support.devices import device, gpus, holding
from support.world import Setup, World

from koordsched.api.kinds import POD_DISRUPTION_BUDGET
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.preemption.candidates import CandidateFinder, PreemptionCandidate
from koordsched.framework.preemption.estimate import Preemptor
from koordsched.framework.preemption.rules import PreemptionRules, VictimRule
from koordsched.framework.preemption.victims_index import DisruptionBudgets, VictimsIndex
from koordsched.plugins.deviceshare.state import device_state

PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: DeviceShare}]}}}]
"""
CARDS = 4
Running = list[tuple[int, int, int]]
"""By card: percent of it, the pod's priority, and when it started."""

running = st.lists(st.tuples(st.sampled_from([0, 50, 100]), st.integers(0, 3), st.integers(0, 9)), min_size=CARDS, max_size=CARDS)


def cluster(nodes: list[Running]) -> World:
    world = World(Setup(PROFILE))
    for i, cards in enumerate(nodes):
        name = f"n{i}"
        world.cache.set_node(node(name).cpu("64").allocatable("koordinator.sh/gpu", "400").build())
        device_state(world).set_device(device(name, gpus="2x1x2"))
        for minor, (percent, priority, started) in enumerate(cards):
            for part in range(100 // percent if percent else 0):
                made = gpus(f"low-{i}-{minor}-{part}", percent).priority(priority).started(f"2026-01-01T00:0{started}:00Z")
                world.cache.set_pod(holding(made, gpu={minor: percent}).on(name).info(counted_on_node=True), name)
    return world


@settings(max_examples=60, deadline=None)
@given(st.lists(running, min_size=1, max_size=4), st.sampled_from([50, 100, 200]), st.integers(1, 4))
def test_victims_are_those_of_trying_one_pod_after_the_other(nodes: list[Running], percent: int, priority: int) -> None:
    world = cluster(nodes)
    info = world.signed(gpus("high", percent).priority(priority).info())
    found = world.find(info)
    if not isinstance(found, Diagnosis):
        return
    rules = PreemptionRules(plugin="Test", victims=VictimRule())
    budgets = DisruptionBudgets(world.informer(POD_DISRUPTION_BUDGET))
    finder = CandidateFinder(world.cache, world.nominator, VictimsIndex(world.cache, budgets, rules.victims), budgets, rules)
    preemptor = Preemptor(info, found, world.simulation(info))
    best = finder.best(preemptor, 1000)
    tried = [finder.select_victims(preemptor, world.cache.nodes_by_name[f"n{i}"].row) for i in range(len(nodes))]
    candidates = [each for each in tried if isinstance(each, PreemptionCandidate)]
    if not candidates:
        assert not isinstance(best, PreemptionCandidate)
        return
    assert isinstance(best, PreemptionCandidate)
    assert [victim.uid for victim in best.victims] in [
        [victim.uid for victim in each.victims] for each in candidates if each.row == best.row
    ]
    assert finder.rank(best) == min(map(finder.rank, candidates))
