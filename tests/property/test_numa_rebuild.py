"""What nodes are believed to have given out depends on what there is, not on the order in which it became known."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import NodeBuilder, node
from support.numa import NumaBench, holding, lsr, topology

from koordsched._core.numa_facts import CpuCounts, NumaStatus
from koordsched.api.koordinator.cpulist import cpu_ids, format_cpus
from koordsched.api.koordinator.pods import EXCLUSIVE_POLICY_TEXTS, amount_text
from koordsched.api.koordinator.policies import CpuExclusivePolicy
from koordsched.api.quantity import QuantityFormat
from koordsched.cache.plugin_state import StateDifference
from koordsched.plugins.nodenumaresource.node_allocations import NodeAllocations, PodAllocation
from koordsched.plugins.nodenumaresource.state import NumaCheck, NumaState, numa_state

NODES = ("n0", "n1")
PODS = ("p0", "p1", "p2", "p3")
LAYOUTS = ("1x1x4x2", "2x1x4x2", "2x2x2x2,linux")
CPUS = "node.koordinator.sh/cpu-topology"
RATIO = "node.koordinator.sh/resource-amplification-ratio"
DESCRIPTIONS: list[dict[str, Any]] = [
    {},
    {CPUS: "{bad"},
    {CPUS: None},
    {"node.koordinator.sh/reservation": {"reservedCPUs": "0,5-6"}},
    {RATIO: {"cpu": 2}},
]
NODE_ANNOTATIONS: tuple[dict[str, str], ...] = ({}, {RATIO: '{"cpu":1.5}'}, {RATIO: "{bad"})


class Held(NamedTuple):
    """What a pod was given on a node."""

    node: str
    cpus: int
    exclusive: CpuExclusivePolicy
    amounts: dict[int, dict[str, int]]


amounts = st.dictionaries(
    st.integers(0, 3), st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 5000), min_size=1), max_size=2
)
held = st.builds(Held, st.sampled_from(NODES), st.integers(1, 2**16 - 1), st.sampled_from(CpuExclusivePolicy), amounts)
events = st.lists(
    st.one_of(
        st.tuples(st.just("bound"), st.sampled_from(PODS), held),
        st.tuples(st.just("reserved"), st.sampled_from(PODS), held),
        st.tuples(st.just("confirmed"), st.sampled_from(PODS)),
        st.tuples(st.just("gone"), st.sampled_from(PODS)),
        st.tuples(st.just("tried"), st.sampled_from(NODES), st.sets(st.sampled_from(PODS))),
        st.tuples(st.just("topology"), st.sampled_from(NODES), st.sampled_from(LAYOUTS), st.sampled_from(range(len(DESCRIPTIONS)))),
        st.tuples(st.just("no topology"), st.sampled_from(NODES)),
        st.tuples(st.just("node"), st.sampled_from(NODES), st.sampled_from(range(len(NODE_ANNOTATIONS)))),
        st.tuples(st.just("no node"), st.sampled_from(NODES)),
        st.tuples(st.just("sharing"), st.sampled_from(NODES), st.integers(1, 2)),
    ),
    min_size=1,
    max_size=30,
)


class Cluster:
    """Plays events to a bench and remembers what there is."""

    def __init__(self) -> None:
        self.bench = NumaBench()
        self.state = numa_state(self.bench)
        self.pods: dict[str, Held] = {}
        self.reserved: set[str] = set()  # those of the pods that are not bound yet
        self.nodes: dict[str, int] = {}
        self.topologies: dict[str, tuple[str, int]] = {}
        self.sharing: dict[str, int] = {}

    def play(self, kind: str, details: list[Any]) -> None:
        match kind, details:
            case "bound", [name, given]:
                self.gone(name)
                self.bind(name, given)
            case "reserved", [name, given]:
                self.gone(name)
                self.bench.cache.assume_pod(lsr(name).info(), given.node)
                info = self.bench.cache.pods[uid(name)].info
                self.state.reserve(given.node, PodAllocation.of(info, given.cpus, given.exclusive, given.amounts))
                self.pods[name] = given
                self.reserved.add(name)
            case "confirmed", [name] if name in self.reserved:
                self.bind(name, self.pods[name])
            case "gone", [name]:
                self.gone(name)
            case "tried", [name, names]:
                self.tried(name, [each for each in names if each in self.pods and self.pods[each].node == name])
            case "topology", [name, layout, which]:
                self.topologies[name] = (layout, which)
                self.bench.describe(topology(name, layout, annotations=DESCRIPTIONS[which]))
            case "no topology", [name] if self.topologies.pop(name, None) is not None:
                self.bench.undescribe(name)
            case "node", [name, which]:
                self.nodes[name] = which
                self.bench.set(node_of(name, which))
            case "no node", [name] if self.nodes.pop(name, None) is not None:
                self.bench.remove(name)
            case "sharing", [name, count]:
                self.sharing[name] = count
                self.state.set_max_ref_count(name, count)

    def bind(self, name: str, given: Held) -> None:
        self.pods[name] = given
        self.reserved.discard(name)
        texts = {
            numa: {resource: amount_text(resource, amount, QuantityFormat.DECIMAL_SI) for resource, amount in at.items()}
            for numa, at in given.amounts.items()
        }
        written = holding(lsr(name), format_cpus(given.cpus), texts, exclusive=EXCLUSIVE_POLICY_TEXTS[given.exclusive])
        self.bench.put(written, given.node)

    def gone(self, name: str) -> None:
        if self.pods.pop(name, None) is not None:
            self.reserved.discard(name)
            self.bench.cache.remove_pod(uid(name))

    def tried(self, name: str, victims: list[str]) -> None:
        """Do without some pods of a node for a moment."""
        info = self.bench.cache.nodes_by_name.get(name)
        if info is None:
            return
        end = self.bench.cache.table.log_end
        with self.bench.cache.simulate(info, remove=[info.pods[uid(each)] for each in victims]):
            left = {each: given for each, given in self.pods.items() if each not in victims}
            check(self.state.node(name), left)
        assert self.bench.cache.table.log_end == end

    def rebuilt(self, chance: random.Random) -> Cluster:
        """Return another that learns what there is in another order, as one that starts now."""
        facts: list[tuple[str, list[Any]]] = [("node", [name, which]) for name, which in self.nodes.items()]
        facts += [("topology", [name, *which]) for name, which in self.topologies.items()]
        facts += [("sharing", [name, count]) for name, count in self.sharing.items()]
        facts += [("bound", [name, given]) for name, given in self.pods.items()]
        chance.shuffle(facts)
        other = Cluster()
        for kind, details in facts:
            other.play(kind, details)
        return other


def uid(name: str) -> str:
    return f"uid-default-{name}"


def node_of(name: str, which: int) -> NodeBuilder:
    builder = node(name).cpu("64")
    for key, text in NODE_ANNOTATIONS[which].items():
        builder = builder.annotation(key, text)
    return builder


def believed(state: NumaState) -> dict[str, Any]:
    """Return all that the state knows, by node."""
    return {name: _believed(state, found) for name, found in state.nodes.items()}


def _believed(state: NumaState, found: NodeAllocations) -> dict[str, Any]:
    cpus = found.cpus
    bound = {} if cpus is None else {cpu: (cpus.ref_count(cpu), cpus.exclusive_of(cpu)) for cpu in cpu_ids(cpus.bound)}
    return {
        "pods": found.pods,
        "bound": bound,
        "allocated": found.allocated,
        "single": found.single,
        "shared": found.shared,
        "zones": found.zones,
        "facts": state.table.node_of(found.index),
        "usage": state.table.usage_of(found.index),
    }


def check(found: NodeAllocations, pods: dict[str, Held]) -> None:
    """Compare a node with counting everything anew."""
    here = [given for given in pods.values() if given.node == found.name]
    assert found.pods.keys() == {uid(name) for name, given in pods.items() if given.node == found.name}
    assert found.allocated == summed(here)
    if found.cpus is None or found.topology is None:
        return
    everything = found.topology.all
    times = {cpu: sum(given.cpus >> cpu & 1 for given in here) for cpu in cpu_ids(everything)}
    assert {cpu: found.cpus.ref_count(cpu) for cpu in times} == times
    free = {cpu for cpu, count in times.items() if count < found.max_ref_count and not found.reserved >> cpu & 1}
    counts = found.usage().cpus
    assert (counts.bound, counts.free) == (sum(1 for count in times.values() if count), len(free))
    for numa in found.topology.node_ids:
        zone = {cpu for cpu in times if found.topology.cpus_of_node(numa) >> cpu & 1}
        assert found.status(numa) is expected_status(zone, here, set(times))
    assert found.usage().cpus == CpuCounts(*map(sum, zip(*(zone.cpus for zone in found.usage().zones.values()), strict=True)))


def differences(cluster: Cluster) -> list[StateDifference]:
    """Return what the check of the state finds."""
    (checked,) = cluster.bench.cache.checked
    return [found for name in {*NODES, *checked.names()} for found in checked.differences(name)]


def summed(here: list[Held]) -> dict[int, dict[str, int]]:
    sums: dict[int, dict[str, int]] = {}
    for each in here:
        for numa, at in each.amounts.items():
            for resource, amount in at.items():
                sums.setdefault(numa, {})[resource] = sums.get(numa, {}).get(resource, 0) + amount
    return sums


def expected_status(zone: set[int], here: list[Held], everything: set[int]) -> NumaStatus:
    holders = [set(cpu_ids(given.cpus)) & everything for given in here]
    present = [cpus for cpus in holders if cpus & zone]
    if any(cpus - zone for cpus in present):
        return NumaStatus.SHARED
    return NumaStatus.SINGLE if present else NumaStatus.IDLE


@given(events, st.randoms(use_true_random=False))
@settings(max_examples=120, deadline=None)
def test_any_order_of_pods_nodes_and_topologies_comes_to_the_same(sequence: list[tuple[Any, ...]], chance: random.Random) -> None:
    cluster = Cluster()
    for kind, *details in sequence:
        cluster.play(kind, details)
        for name in NODES:
            check(cluster.state.node(name), cluster.pods)
        assert differences(cluster) == []
    assert believed(cluster.rebuilt(chance).state) == believed(cluster.state)
    for name in PODS:
        cluster.gone(name)
    for name in NODES:
        cluster.play("no topology", [name])
        cluster.play("no node", [name])
        cluster.play("sharing", [name, 1])
    assert not cluster.state.nodes
    assert not cluster.state._where
    assert not cluster.state._aside


@given(events, held)
@settings(max_examples=80, deadline=None)
def test_reserving_and_releasing_leaves_no_trace(sequence: list[tuple[Any, ...]], given_now: Held) -> None:
    cluster = Cluster()
    for kind, *details in sequence:
        cluster.play(kind, details)
    before = deepcopy(believed(cluster.state))
    info = lsr("late").info()
    cluster.state.reserve(given_now.node, PodAllocation.of(info, given_now.cpus, given_now.exclusive, given_now.amounts))
    assert believed(cluster.state) != before
    cluster.state.release(info.uid)
    assert believed(cluster.state) == before


@given(events, st.sampled_from(NODES), st.integers(0, 6), st.integers(1, 255))
@settings(max_examples=120, deadline=None)
def test_a_state_that_was_damaged_is_found_and_rebuilt(sequence: list[tuple[Any, ...]], name: str, how: int, cpus: int) -> None:
    cluster = Cluster()
    for kind, *details in sequence:
        cluster.play(kind, details)
    before, state = deepcopy(believed(cluster.state)), cluster.state
    node = state.nodes.get(name)
    (checked,) = cluster.bench.cache.checked
    assert isinstance(checked, NumaCheck)
    if node is None:
        state.reserve(name, PodAllocation("u9", "default", "other", cpus=cpus))
    else:
        damage(state, node, how, cpus)
    if believed(state) != before and not cluster.reserved:  # what is reserved is written nowhere but in the state
        assert {found.column for found in differences(cluster)}
    for each in {*NODES, *checked.names()}:
        if list(checked.differences(each)):
            checked.rebuild(each)
    assert differences(cluster) == []
    if not cluster.reserved:
        assert believed(state) == before


def damage(state: NumaState, node: NodeAllocations, how: int, cpus: int) -> None:
    held = next(iter(node.pods.values()), None)
    if how == 0:
        state.reserve(node.name, PodAllocation("u9", "default", "other", cpus=cpus))
    elif how == 1 and held is not None:
        state.release(held.uid)
    elif how == 2 and held is not None:
        state.reserve(node.name, replace(held, cpus=held.cpus ^ cpus))
    elif how == 3:
        state.set_options(node.name, None)
    elif how == 4 and node.cpus is not None:
        node.cpus.add(cpus, 0)
    elif how == 5:
        node.allocated.setdefault(0, {})["cpu"] = cpus
    else:
        state.table.clear_node(node.index)
