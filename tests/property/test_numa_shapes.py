"""After any sequence of events kept columns say of every node what those of a scheduler that has just begun say: verdict, words and scores.

This is what the plugin promises by `sign`, `reads` and `version`. Pods are also placed by the plugin itself, so that what it gives out
is what the one that begins anew reads from the annotations; and no CPU is ever given to two pods. Some pods have disks besides, whose NUMA
nodes another plugin knows and changes: what it reads, and the affinities between Filter and Score, are kept up to date too.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.disks import DISK, DiskHints
from support.numa import lsr, topology
from support.world import EMPTY_CONFIG, Setup, World

from koordsched._core.numa_facts import HintAnswer
from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.pods import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from koordsched.cluster.port import ADDED, DELETED, WatchEvent
from koordsched.config import Environment
from koordsched.framework.cycle_state import noted_changes
from koordsched.framework.shape import Shape
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


class Cluster:
    """A world, and what there is for one that begins with it."""

    def __init__(self, begun: bool) -> None:
        self.world = World(SETUP)
        self.nodes: dict[str, Any] = {}
        self.topologies: dict[str, Any] = {}
        self.pods: dict[int, tuple[PodBuilder, str]] = {}
        self.versions = 0
        for kind, *details in BEGUN if begun else ():
            self.play(kind, details)

    def play(self, kind: str, details: list[Any]) -> None:
        match kind, details:
            case "node", [name, which]:
                meta = KINDS[which].build().metadata
                self.nodes[name] = replace(KINDS[which].build(), metadata=replace(meta, name=name, uid=name, resource_version=self.next()))
                apply_node(self.world, self.nodes[name])
            case "no node", [name] if name in self.nodes:
                self.world.informer(NODE)._objects.apply(WatchEvent(DELETED, self.nodes.pop(name)))
                self.world.cache.remove_node(name)
            case "topology", [name, layout, reserved]:
                extra = {"node.koordinator.sh/reservation": {"reservedCPUs": "0-1"}} if reserved else {}
                self.topologies[name] = topology(name, layout, memory=4 << 30, annotations=extra)
                self.world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, self.topologies[name]))
            case "no topology", [name] if name in self.topologies:
                self.world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(DELETED, self.topologies.pop(name)))
            case "disks", [name, which]:
                disks_of(self.world).set(name, DISKS[which])
            case "place", [number, which] if number not in self.pods:
                self.place(
                    number, PodBuilder(replace(PODS[which].build(), metadata=replace(PODS[which].build().metadata, uid=f"{number}")))
                )
            case "undone turn", [kinds]:
                self.undone_turn(kinds)
            case "gone", [number] if self.pods.pop(number, None):
                self.world.cache.remove_pod(f"{number}")

    def next(self) -> str:
        self.versions += 1
        return str(self.versions)

    def place(self, number: int, builder: PodBuilder) -> None:
        """Schedule and bind a pod, if it fits."""
        info, profile = self.world.signed(builder.info()), self.world.profile
        state, found = self.world.search.find(profile, info)
        if not isinstance(found, str):
            return
        self.world.cache.assume_pod(info, found)
        refusal = profile.run_reserve(state, info, found)
        assert refusal is None, f"Filter let {found} pass, and Reserve said {refusal}"
        work, _ = profile.pre_bind_work(state, info, found)
        for plugin in work:
            asyncio.run(plugin.pre_bind(state, info, found))
        for key, text in (item for changes in noted_changes(state, info.pod) for item in changes.annotations.items()):
            assert text is not None
            builder = builder.annotation(key, text)
        self.pods[number] = (builder, found)
        bound = info.with_pod(builder.on(found).build())
        self.world.cache.set_pod(bound, found)

    def undone_turn(self, kinds: list[int]) -> None:
        """Place pods in one turn and undo them: every allocation is what it was."""
        world, table = self.world, self.world.cache.table
        numa = world.profile.made["NodeNUMAResource"]
        assert isinstance(numa, NodeNUMAResource)
        before = {name: (dict(node.pods), node.usage()) for name, node in numa._numa.nodes.items()}
        end = table.log_end
        table.begin_turn()
        placed = []
        for index, which in enumerate(kinds):
            built = PODS[which].build()
            info = world.signed(PodBuilder(replace(built, metadata=replace(built.metadata, uid=f"member-{index}"))).info())
            state, found = world.search.find(world.profile, info)
            if isinstance(found, str):
                world.cache.assume_pod(info, found)
                assert world.profile.run_reserve(state, info, found) is None
                placed.append((state, info, found))
        for state, info, found in reversed(placed):
            world.profile.run_unreserve(state, info, found)
            world.cache.forget_pod(info.uid)
        assert table.rewind_turn()
        assert table.log_end == end
        assert {name: (dict(node.pods), node.usage()) for name, node in numa._numa.nodes.items()} == before

    def begun_anew(self, without: str = "") -> World:
        """Return a world of all there is, but for the pods of one node."""
        world = World(SETUP)
        for nrt in self.topologies.values():
            world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, nrt))
        for made in self.nodes.values():
            apply_node(world, made)
        disks_of(world).nodes.update(disks_of(self.world).nodes)
        for builder, where in self.pods.values():
            if where == without:
                continue
            world.cache.set_pod(builder.on(where).info(counted_on_node=True), where)
        return world


def disks_of(world: World) -> DiskHints:
    made = world.profile.made[DiskHints.name]
    assert isinstance(made, DiskHints)
    return made


def apply_node(world: World, made: Any) -> None:
    world.informer(NODE)._objects.apply(WatchEvent(ADDED, made))
    world.cache.set_node(made)


def said(world: World, builder: PodBuilder) -> dict[str, Any] | str:
    """Return for each node the refusal or the scores of a pod; or why the pod is refused as a whole."""
    info = world.signed(builder.info())
    shapes = world.profile.shapes
    shape = shapes.pre_filter(info)
    shapes.filter(shape, info)
    if shape.pre_filtered.refusal is not None:
        return shape.pre_filtered.refusal.message
    shapes.pre_score(shape, info)
    shapes.score(shape, info)
    answers: dict[str, Any] = {}
    for row in world.cache.table.live_rows().tolist():
        name = world.cache.nodes().info(row).name
        f, code = shape.evaluation.verdict(row)
        feasible = shape.evaluation.is_feasible(row)
        answers[name] = scores(shape, row) if feasible else shape.filters[f].explain(shape.state, info, code).message
    return answers


def scores(shape: Shape, row: int) -> list[int]:
    """Return the raw scores of those who take part, and the total."""
    raw, total = shape.evaluation.scores(row)
    return [score for s, score in enumerate(raw) if shape.evaluation.is_enabled(s)] + [total]


def shown(world: World) -> dict[str, Any]:
    """Return what REST says of every node."""
    plugin = world.profile.made["NodeNUMAResource"]
    assert isinstance(plugin, NodeNUMAResource)
    (route,) = plugin.routes()
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
        found = [said(cluster.world, builder) for builder in PODS]
        check_exclusive(cluster.world)
    other = cluster.begun_anew()
    assert found == [said(other, builder) for builder in PODS]
    assert shown(cluster.world) == shown(other)


@given(events, named, st.booleans())
@settings(max_examples=30)
def test_a_simulation_without_a_nodes_pods_is_as_if_they_were(sequence: list[tuple[Any, ...]], name: str, begun: bool) -> None:
    cluster = Cluster(begun)
    for kind, *details in sequence:
        cluster.play(kind, details)
    target = cluster.world.cache.node(name)
    if target is None:
        return
    shown_before = shown(cluster.world)
    without = cluster.begun_anew(without=name)
    for builder in PODS:
        info = cluster.world.signed(builder.info())
        simulation = cluster.world.profile.shapes.simulation(cluster.world.profile.shapes.pre_filter(info))
        refusal = simulation.simulate_on_node(info, target, remove=list(target.pods.values()))
        expected = said(without, builder)
        expected = expected if isinstance(expected, str) else expected[name]
        assert (refusal.message if refusal is not None else "") == (expected if isinstance(expected, str) else "")
    assert shown(cluster.world) == shown_before
