"""Where nodes have NUMA policies, a more important pod evicts what asking all filters finds (framework.md §7.4, nodenumaresource.md §12).

Nodes differ in policy, binding and amplification; pods hold amounts of zones, devices, and here and there CPUs of their own, of which only
simulations know.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import devices, numa
from support.builders import PodBuilder, node, pod
from support.preemption import by_filters, outcome
from support.world import EMPTY_CONFIG, Setup, World

from koordsched.api.koordinator.device_annotations import DEVICE_JOINT_ALLOCATE
from koordsched.api.koordinator.nodes import NUMA_TOPOLOGY_POLICY, node_policy
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.preemption.candidates import CandidateFinder, PreemptionCandidate
from koordsched.framework.preemption.estimate import Preemptor
from koordsched.plugins.defaultpreemption.plugin import DefaultPreemption
from koordsched.plugins.deviceshare.check import device_state
from koordsched.plugins.nodenumaresource.node_topology import read_options
from koordsched.plugins.nodenumaresource.state import numa_state

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo

CONFIG = EMPTY_CONFIG + "profiles:\n- plugins: {multiPoint: {enabled: [{name: NodeNUMAResource}, {name: DeviceShare}]}}\n"
DEVICES_FIRST = CONFIG.replace("{name: NodeNUMAResource}, {name: DeviceShare}", "{name: DeviceShare}, {name: NodeNUMAResource}")
POLICIES = ["SingleNUMANode", "SingleNUMANode", "Restricted", "BestEffort", ""]
GIB = 1 << 30
CARDS = 4  # of a node, half of them in each zone


class Bench:
    """Crowded nodes of two zones."""

    def __init__(self, random: Random) -> None:
        self.random, self.world, self.serial = random, World(Setup(random.choice([CONFIG, CONFIG, DEVICES_FIRST]))), 0
        plugin = next(each for each in self.world.profile.post_filter if isinstance(each, DefaultPreemption))
        self.finder: CandidateFinder = plugin.engine.finder
        for i in range(random.randint(1, 4)):
            self.describe(f"n{i}", random.choice(POLICIES))
            for _ in range(random.randint(2, 8)):
                self.run(f"n{i}")

    def describe(self, name: str, policy: str) -> None:
        random, world = self.random, self.world
        made = (
            node(name).cpu("16").memory("32Gi").pods(9).allocatable("koordinator.sh/gpu", "400").allocatable("koordinator.sh/rdma", "200")
        )
        made = made.label(NUMA_TOPOLOGY_POLICY, policy) if policy else made
        if random.random() < 0.1:
            made = made.annotation("node.koordinator.sh/resource-amplification-ratio", '{"cpu": 1.5}')
        if random.random() < 0.1:
            made = made.label("node.koordinator.sh/cpu-bind-policy", random.choice(["FullPCPUsOnly", "SpreadByPCPUs"]))
        world.cache.set_node(made.build())
        numa_state(world).set_policy(name, node_policy(made.build()))
        if random.random() < 0.9:
            numa_state(world).set_options(name, read_options(numa.topology(name, "2x1x4x2", memory=32 * GIB)))
        if random.random() < 0.8:
            device_state(world).set_device(devices.device(name, gpus="2x1x2", nics="2"))

    def draw(self, cpus: int) -> PodBuilder:
        random = self.random
        self.serial += 1
        made = pod(f"p{self.serial}").uid(f"u{self.serial:03d}").priority(random.randint(0, 5)).cpu(str(cpus))
        return made.memory(f"{random.randint(1, 6)}Gi").started(f"2026-01-01T00:{self.serial % 60:02d}:00Z")

    def run(self, name: str) -> None:
        """Let a pod run on the node, with what it would hold if it had been put in one zone, in two or in none."""
        random = self.random
        cpus = random.randint(1, 4)
        made, zone = self.draw(cpus), random.randrange(2)
        request = made.info().resources.requests
        amounts = {"cpu": str(cpus), "memory": str(request["memory"])}
        kind = random.choice(["one zone"] * 8 + ["two zones", "none", "none", "bound"])
        if kind == "one zone":
            made = numa.holding(made, "", {zone: amounts})
        elif kind == "two zones":
            halves = {"cpu": f"{500 * cpus}m", "memory": str(request["memory"] // 2)}
            made = numa.holding(made, "", {0: halves, 1: halves})
        elif kind == "bound":
            first = 8 * zone + random.randint(0, 4)
            held = {zone: amounts} if random.random() < 0.5 else None
            made = numa.holding(made.label("koordinator.sh/qosClass", "LSR"), f"{first}-{first + cpus - 1}", held)
        if random.random() < 0.7:
            percent, minor = random.choice([50, 50, 100]), random.randrange(CARDS)
            made = devices.holding(made.request("koordinator.sh/gpu", str(percent)), gpu={minor: percent})
        self.world.cache.set_pod(made.on(name).info(counted_on_node=True), name)

    def preemptor(self) -> PodInfo:
        random = self.random
        made = self.draw(random.choice([1, 2, 4, 6, 8, 12])).priority(random.randint(1, 6))
        percent = random.choice([0, 50, 100, 100, 200, 200, 400])
        made = made.request("koordinator.sh/gpu", str(percent)) if percent else made
        if percent == 200 and random.random() < 0.3:
            joint = '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'
            made = made.request("koordinator.sh/rdma", "50").annotation(DEVICE_JOINT_ALLOCATE, joint)
        if random.random() < 0.2:
            policy = random.choice(["SingleNUMANode", "Restricted"])
            spec = {"numaTopologyPolicy": policy} | ({"singleNUMANodeExclusive": "Preferred"} if random.random() < 0.5 else {})
            made = made.annotation("scheduling.koordinator.sh/numa-topology-spec", json.dumps(spec))
        if random.random() < 0.1:
            made = made.label("koordinator.sh/qosClass", "LSR")
        return self.world.signed(made.info())

    def check(self) -> PreemptionCandidate | None:
        """Check what is found for one more pod; return the candidate."""
        info = self.preemptor()
        found = self.world.find(info)
        if not isinstance(found, Diagnosis):
            return None
        preemptor = Preemptor(info, found, self.world.simulation(info))
        before = self.columns()
        best = self.finder.best(preemptor, 1000)
        assert self.columns() == before
        self.finder.victims.bring_up_to_date()  # nothing is where no pod has a lower priority
        assert outcome(best) == outcome(by_filters(self.finder, self.world, preemptor))
        return best if isinstance(best, PreemptionCandidate) else None

    def columns(self) -> list[Any]:
        """Return all that the columns say of devices and zones."""
        entries, nodes = device_state(self.world).entries.values(), numa_state(self.world).nodes.values()
        of_devices = [device_state(self.world).table.summary(entry.index) for entry in entries]
        return [of_devices, [numa_state(self.world).table.usage_of(each.index) for each in nodes]]

    def change(self, best: PreemptionCandidate | None) -> None:
        random, cache = self.random, self.world.cache
        name = random.choice(sorted(cache.nodes_by_name))
        what = random.choice(["victims leave", "victims leave", "leave", "come", "nominate", "policy"])
        if what == "victims leave" and best is not None:
            for victim in best.victims:
                cache.remove_pod(victim.uid)
        elif what == "leave":
            for uid in list(cache.nodes_by_name[name].pods)[:1]:
                cache.remove_pod(uid)
        elif what == "come":
            self.run(name)
        elif what == "nominate":
            self.world.nominator.set(self.preemptor(), name)
        elif what == "policy":
            made = node(name).label(NUMA_TOPOLOGY_POLICY, random.choice(["SingleNUMANode", "Restricted"]))
            numa_state(self.world).set_policy(name, node_policy(made.build()))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32))
def test_victims_are_those_that_asking_all_filters_finds(seed: int) -> None:
    bench = Bench(Random(seed))
    for _ in range(bench.random.randint(1, 5)):
        bench.change(bench.check())


def full(zone_cpus: int, monkeypatch: pytest.MonkeyPatch) -> tuple[World, CandidateFinder]:
    """Return nodes under SingleNUMANode on which pods of one GPU and so many CPUs hold all; nothing may be simulated but the last word."""
    world = World(Setup(CONFIG))
    for i in range(20):
        name = f"n{i}"
        made = node(name).cpu("16").memory("32Gi").pods(9).allocatable("koordinator.sh/gpu", "400")
        made = made.label(NUMA_TOPOLOGY_POLICY, "SingleNUMANode")
        world.cache.set_node(made.build())
        numa_state(world).set_policy(name, node_policy(made.build()))
        numa_state(world).set_options(name, read_options(numa.topology(name, "2x1x4x2", memory=32 * GIB)))
        device_state(world).set_device(devices.device(name, gpus="2x1x2"))
        for minor in range(CARDS):
            low = (
                pod(f"low-{i}-{minor}")
                .cpu(str(zone_cpus))
                .request("koordinator.sh/gpu", "100")
                .started(f"2026-01-01T00:00:{i + minor:02d}Z")
            )
            low = numa.holding(devices.holding(low, gpu=[minor]), "", {minor // 2: {"cpu": str(zone_cpus)}})
            world.cache.set_pod(low.on(name).info(counted_on_node=True), name)
    plugin = next(each for each in world.profile.post_filter if isinstance(each, DefaultPreemption))
    monkeypatch.setattr(plugin.engine.finder, "select_victims", None)
    return world, plugin.engine.finder


@pytest.mark.parametrize("cpus", [3, 1], ids=["CPUs of a zone decide", "devices of a zone decide"])
def test_no_node_is_simulated_where_all_have_a_policy(monkeypatch: pytest.MonkeyPatch, cpus: int) -> None:
    """Amounts of the node alone would evict the two pods that started last, of both zones."""
    world, finder = full(cpus, monkeypatch)
    info = world.signed(pod("high").priority(4).cpu("6").request("koordinator.sh/gpu", "200").info())
    found = world.find(info)
    assert isinstance(found, Diagnosis)
    best = finder.best(Preemptor(info, found, world.simulation(info)), 1000)
    assert isinstance(best, PreemptionCandidate)
    assert Counter(victim.pod.metadata.name[-1] in "01" for victim in best.victims) in ({True: 2}, {False: 2})


def test_a_pod_without_devices_is_put_in_a_zone_without_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    world, finder = full(4, monkeypatch)
    info = world.signed(pod("high").priority(4).cpu("8").info())
    found = world.find(info)
    assert isinstance(found, Diagnosis)
    best = finder.best(Preemptor(info, found, world.simulation(info)), 1000)
    assert isinstance(best, PreemptionCandidate)
    assert len(best.victims) == 2
    assert len({int(victim.pod.metadata.name[-1]) // 2 for victim in best.victims}) == 1
