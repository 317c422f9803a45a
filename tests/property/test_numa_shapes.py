"""After any sequence of events kept columns say of every node what those of a scheduler that has just begun say: verdict, words and scores.

This is what the plugin promises by `sign`, `reads` and `version`. Pods are also placed by the plugin itself, so that what it gives out
is what the one that begins anew reads from the annotations; and no CPU is ever given to two pods. Some pods have disks besides, whose NUMA
nodes another plugin knows and changes: what it reads, and the affinities between Filter and Score, are kept up to date too.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.disks import DISK, DiskHints
from support.numa import lsr, topology
from support.placing import PlacingCluster
from support.world import EMPTY_CONFIG, Setup, World

from koordsched._core.numa_facts import HintAnswer
from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.pods import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from koordsched.cluster.port import ADDED, DELETED, WatchEvent
from koordsched.config import Environment
from koordsched.plugins import REGISTRY
from koordsched.plugins.nodenumaresource.plugin import NodeNUMAResource

CONFIG = f"{EMPTY_CONFIG}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: NodeNUMAResource}}, {{name: DiskHints}}]}}}}}}]\n"
CATALOGUE = Environment().catalogue.with_plugin(DiskHints.name, frozenset({"filter", "score"}))
SETUP = Setup(CONFIG, Environment(catalogue=CATALOGUE), {**REGISTRY, DiskHints.name: DiskHints})
POLICY = "node.koordinator.sh/numa-topology-policy"
BIND = "node.koordinator.sh/cpu-bind-policy"
RATIO = "node.koordinator.sh/resource-amplification-ratio"
NODES = ("n0", "n1", "n2")
LAYOUTS = ("1x1x4x2", "2x1x4x2", "2x2x2x2,linux")

PLAIN = node().cpu("32").memory("8Gi").allocatable(DISK, "99")
KINDS: tuple[NodeBuilder, ...] = (
    PLAIN,
    node().cpu("6").memory("2Gi"),
    PLAIN.label(BIND, "FullPCPUsOnly"),
    PLAIN.label(BIND, "SpreadByPCPUs"),
    PLAIN.label(POLICY, "SingleNUMANode"),
    PLAIN.label(POLICY, "Restricted").label("node.koordinator.sh/numa-allocate-strategy", "MostAllocated"),
    PLAIN.label(POLICY, "BestEffort"),
    PLAIN.annotation(RATIO, '{"cpu":1.5}'),
    PLAIN.annotation(RATIO, "{").label(POLICY, "Foo"),
)
PODS: tuple[PodBuilder, ...] = (
    pod(),
    pod().cpu("2").memory("1Gi"),
    pod().cpu("1500m"),
    lsr(cpus=2),
    lsr(cpus=4).memory("1Gi"),
    lsr(cpus=4).annotation(RESOURCE_SPEC, '{"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}'),
    lsr(cpus=6).annotation(NUMA_TOPOLOGY_SPEC, '{"numaTopologyPolicy":"SingleNUMANode"}'),
    pod().cpu("9").annotation(NUMA_TOPOLOGY_SPEC, '{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}'),
    lsr(cpus="2500m"),
    lsr(cpus=2).request(DISK, "1"),
    pod().cpu("3").memory("1Gi").request(DISK, "1"),
    pod().request(DISK, "1").annotation(NUMA_TOPOLOGY_SPEC, '{"numaTopologyPolicy":"SingleNUMANode"}'),
    lsr(cpus=4).request(DISK, "1").annotation(NUMA_TOPOLOGY_SPEC, '{"numaTopologyPolicy":"Restricted"}'),
)
LOCAL = frozenset({DISK})
DISKS = (
    HintAnswer(),
    HintAnswer(LOCAL, [(0b01, 0)]),
    HintAnswer(LOCAL, [(0b10, 500), (0b11, 0)]),
    HintAnswer(LOCAL, [(0b01, 0), (0b10, 500)], refused={0b10: 3}),
    HintAnswer(code=4),
)

named, sorts = st.sampled_from(NODES), st.integers(0, len(PODS) - 1)
events = st.lists(
    st.one_of(
        st.tuples(st.just("node"), named, st.integers(0, len(KINDS) - 1)),
        st.tuples(st.just("no node"), named),
        st.tuples(st.just("topology"), named, st.sampled_from(LAYOUTS), st.booleans()),
        st.tuples(st.just("no topology"), named),
        st.tuples(st.just("disks"), named, st.integers(0, len(DISKS) - 1)),
        st.tuples(st.just("place"), st.integers(0, 5), sorts),
        st.tuples(st.just("place"), st.integers(0, 5), sorts),
        st.tuples(st.just("gone"), st.integers(0, 5)),
        st.tuples(st.just("undone turn"), st.lists(sorts, max_size=4)),
    ),
    min_size=1,
    max_size=14,
)


BEGUN: list[tuple[Any, ...]] = [("node", "n0", 4), ("node", "n1", 5), *(("topology", name, "2x1x4x2", False) for name in NODES)]
"""Nodes that align CPUs and disks, with which some of the clusters begin."""


class Cluster(PlacingCluster):
    setup, kinds, sorts = SETUP, KINDS, PODS

    def __init__(self, begun: bool) -> None:
        super().__init__()
        self.topologies: dict[str, Any] = {}
        for kind, *details in BEGUN if begun else ():
            self.play(kind, details)

    def play_own(self, kind: str, details: list[Any]) -> None:
        match kind, details:
            case "topology", [name, layout, reserved]:
                extra = {"node.koordinator.sh/reservation": {"reservedCPUs": "0-1"}} if reserved else {}
                self.topologies[name] = topology(name, layout, memory=4 << 30, annotations=extra)
                self.world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, self.topologies[name]))
            case "no topology", [name] if name in self.topologies:
                self.world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(DELETED, self.topologies.pop(name)))
            case "disks", [name, which]:
                disks_of(self.world).set(name, DISKS[which])

    def describe(self, world: World) -> None:
        for nrt in self.topologies.values():
            world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, nrt))
        disks_of(world).nodes.update(disks_of(self.world).nodes)

    def facts(self, world: World) -> object:
        kept = {name: (dict(node.pods), node.usage()) for name, node in plugin_of(world)._numa.nodes.items()}
        return kept, shown(world)


def plugin_of(world: World) -> NodeNUMAResource:
    made = world.profile.made["NodeNUMAResource"]
    assert isinstance(made, NodeNUMAResource)
    return made


def disks_of(world: World) -> DiskHints:
    made = world.profile.made[DiskHints.name]
    assert isinstance(made, DiskHints)
    return made


def shown(world: World) -> dict[str, Any]:
    """Return what REST says of every node."""
    (route,) = plugin_of(world).routes()
    return {name: json.loads(json.dumps(route.answer({"nodeName": name}).body)) for name in NODES}


def check_exclusive(world: World) -> None:
    """Hold that no CPU has two pods."""
    for body in shown(world).values():
        assert all(cpu["refCount"] == 1 for cpu in body.get("allocatedCPUs", {}).values())


@given(events, st.booleans())
@settings(max_examples=60)
def test_kept_columns_say_of_every_node_what_new_ones_would(sequence: list[tuple[Any, ...]], begun: bool) -> None:
    cluster = Cluster(begun)
    for kind, *details in sequence:
        cluster.play(kind, details)
        found = cluster.said(cluster.world)
        check_exclusive(cluster.world)
    other = cluster.begun_anew()
    assert found == cluster.said(other)
    assert shown(cluster.world) == shown(other)


@given(events, named, st.booleans())
@settings(max_examples=30)
def test_a_simulation_without_a_nodes_pods_is_as_if_they_were(sequence: list[tuple[Any, ...]], name: str, begun: bool) -> None:
    cluster = Cluster(begun)
    for kind, *details in sequence:
        cluster.play(kind, details)
    cluster.check_simulation(name)
