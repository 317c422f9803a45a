"""An owner sees the nodes without its placeholders, strangers see them with these, after any sequence of events.

What kept columns say is compared with a scheduler that has just begun on a cluster in which the owner's placeholders never were.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.affinity import Far, term, with_affinity
from support.builders import PodBuilder, node, pod
from support.numa import holding, lsr, topology
from support.owners import WITH_OWNERS
from support.world import World

from koordsched.api.core import TopologySpreadConstraint
from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.meta import LabelSelector
from koordsched.cluster.port import ADDED, WatchEvent

NODES = ("n0", "n1", "n2")
OWNERS = ("x", "y", "")
SPREAD = TopologySpreadConstraint(1, "zone", "DoNotSchedule", LabelSelector(match_labels={"app": "a"}))
APART = Far(required=[term("kubernetes.io/hostname", {"app": "a"}), term("zone", {"app": "b"})])

HELD: tuple[PodBuilder, ...] = (
    pod().cpu("2").memory("1Gi"),
    pod().cpu("5"),
    pod().cpu("1").host_port(80),
    holding(lsr(cpus=4), "0-3"),
    holding(lsr(cpus=2), "4-5"),
    pod().label("app", "a"),
    pod().label("app", "b").host_port(80),
    with_affinity(pod().label("app", "b"), far=Far(required=[term("kubernetes.io/hostname", {"app": "a"})])),
)
ASKING: tuple[PodBuilder, ...] = (
    pod().cpu("2").memory("1Gi"),
    pod().cpu("4"),
    pod().host_port(80),
    lsr(cpus=4),
    pod().label("app", "a").spread(SPREAD),
    with_affinity(pod().label("app", "a"), far=APART),
)

uids, named, owners = st.sampled_from([f"held-{i}" for i in range(4)]), st.sampled_from(NODES), st.sampled_from(OWNERS[:2])
events = st.lists(
    st.one_of(
        st.tuples(st.just("count"), uids, st.integers(0, len(HELD) - 1), named),
        st.tuples(st.just("count"), uids, st.integers(0, len(HELD) - 1), named),
        st.tuples(st.just("gone"), uids),
        st.tuples(st.just("grant"), uids, owners),
        st.tuples(st.just("grant"), uids, owners),
        st.tuples(st.just("revoke"), uids, owners),
        st.tuples(st.just("node"), named, st.sampled_from(["4", "8", "16"])),
        st.tuples(st.just("look"), owners, st.integers(0, len(ASKING) - 1)),
    ),
    max_size=14,
)


class Cluster:
    """A world, and what a new one would be made of."""

    def __init__(self) -> None:
        self.world = World(WITH_OWNERS)
        self.nodes: dict[str, str] = {}
        self.pods: dict[str, tuple[PodBuilder, str]] = {}
        self.owned: dict[str, set[str]] = {"x": set(), "y": set()}
        for name in NODES:
            self.play("node", name, "8")

    def play(self, kind: str, *details: Any) -> None:
        cache = self.world.cache
        match kind, details:
            case "count", (uid, which, name):
                if uid in self.pods:
                    name = self.pods[uid][1]  # a bound pod stays on its node
                self.pods[uid] = (HELD[which].uid(uid), name)
                if uid in cache.pods:
                    cache.remove_pod(uid)
                cache.set_pod(self.pods[uid][0].on(name).info(counted_on_node=True), name)
            case "gone", (uid,) if self.pods.pop(uid, None):
                cache.remove_pod(uid)
            case "grant", (uid, owner):
                self.owned[owner].add(uid)
                cache.credits.grant(owner, uid)
            case "revoke", (uid, owner):
                self.owned[owner].discard(uid)
                cache.credits.revoke(owner, uid)
            case "node", (name, cpu):
                self.nodes[name] = cpu
                set_node(self.world, name, cpu)
            case "look", (owner, which):
                self.world.find(asking(which, owner).info())

    def begun_anew(self, owner: str) -> World:
        """Return a world of all there is but the owner's placeholders."""
        world = World(WITH_OWNERS)
        for name, cpu in self.nodes.items():
            set_node(world, name, cpu)
        for uid, (builder, name) in self.pods.items():
            if uid not in self.owned.get(owner, ()):
                world.cache.set_pod(builder.on(name).info(counted_on_node=True), name)
        return world


def set_node(world: World, name: str, cpu: str) -> None:
    world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology(name, "1x1x4x2", memory=8 << 30)))
    made = node(name).cpu(cpu).memory("8Gi").label("zone", "a" if name == "n0" else "b").label("kubernetes.io/hostname", name).build()
    world.informer(NODE)._objects.apply(WatchEvent(ADDED, made))
    world.cache.set_node(made)


def asking(which: int, owner: str) -> PodBuilder:
    return ASKING[which].label("owner", owner) if owner else ASKING[which]


def said(world: World, builder: PodBuilder) -> dict[str, Any] | str:
    """Return for each node the refusal or the scores of a pod, as its owner sees the nodes; or why it is refused as a whole."""
    info = world.signed(builder.info())
    shapes = world.profile.shapes
    with shapes.view(info):
        shape = shapes.pre_filter(info)
        shapes.filter(shape, info)
        if shape.pre_filtered.refusal is not None:
            return shape.pre_filtered.refusal.message
        shapes.pre_score(shape, info)
        shapes.score(shape, info)
    evaluation = shape.evaluation
    answers: dict[str, Any] = {}
    enabled = [s for s in range(len(shape.scorers)) if evaluation.is_enabled(s)]
    for row in world.cache.table.live_rows().tolist():
        name, (f, code) = world.cache.nodes().info(row).name, evaluation.verdict(row)
        if evaluation.is_feasible(row):
            raw, total = evaluation.scores(row)
            answers[name] = [*(raw[s] for s in enabled), total]
        else:
            answers[name] = shape.filters[f].explain(shape.state, info, code).message
    return answers


def refusals(world: World, builder: PodBuilder) -> list[tuple[str | None, str | None]]:
    """Return of each node what is said of a pod there with one pod more and some less: first the view, then the simulation,
    and the other way round."""
    info, found = world.signed(builder.info()), []
    simulation = world.profile.shapes.simulation_for(info)
    for name in NODES:
        target = world.cache.nodes_by_name[name]
        more = [pod("more").uid("more").label("app", "a").host_port(80).cpu("1").info()]
        less = [each for each in target.counted.values() if each.uid in {"held-0", "held-2"}]
        inside = simulation.simulate_on_node(info, target, add=more, remove=less)
        with world.cache.simulate(target, add=more, remove=less):
            outside = simulation.filter_node(info, target)
        found.append((None if inside is None else inside.message, None if outside is None else outside.message))
    return found


@given(events)
@settings(max_examples=60, deadline=None)
@example([("count", "held-0", 1, "n0"), ("grant", "held-0", "x"), ("count", "held-0", 0, "n0")])
@example([("count", "held-0", 2, "n1"), ("count", "held-1", 2, "n1"), ("grant", "held-0", "x"), ("count", "held-1", 0, "n0")])
@example([("count", "held-0", 3, "n0"), ("grant", "held-0", "x"), ("look", "x", 3), ("revoke", "held-0", "x")])
def test_each_owner_sees_the_nodes_without_its_placeholders(sequence: list[tuple[Any, ...]]) -> None:
    cluster = Cluster()
    for event in [("look", "x", 0), *sequence]:
        cluster.play(*event)
        before = {name: column.tolist() for name, column in cluster.world.cache.table.columns().items()}
        end = cluster.world.cache.table.log_end
        found = {owner: [said(cluster.world, asking(which, owner)) for which in range(len(ASKING))] for owner in OWNERS}
        assert {name: column.tolist() for name, column in cluster.world.cache.table.columns().items()} == before
        assert cluster.world.cache.table.log_end == end
    for owner in OWNERS:
        begun = cluster.begun_anew(owner)
        assert found[owner] == [said(begun, asking(which, owner)) for which in range(len(ASKING))]
        assert [refusals(cluster.world, asking(which, owner)) for which in range(len(ASKING))] == [
            refusals(begun, asking(which, owner)) for which in range(len(ASKING))
        ]
    assert [said(cluster.world, asking(which, "x")) for which in range(len(ASKING))] == found["x"]
