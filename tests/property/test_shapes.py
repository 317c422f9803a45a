"""Incremental evaluation equals full evaluation, after any sequence of node and pod events and new versions of plugins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.builders import NodeBuilder, PodBuilder, node, pod, requirement
from support.restricting import CORNER, FIRST, ONLY, Corner, First, Only
from support.world import Setup, World

from koordsched._core.change import NodeChange
from koordsched.api.core import TopologySpreadConstraint
from koordsched.api.meta import LabelSelector
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import NodeInfo, Nodes
from koordsched.config import REFERENCE, Environment
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import (
    Codes,
    FilterNodesPlugin,
    FilterPlugin,
    Normalize,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScoreNodesPlugin,
    ScorePlugin,
    Scores,
)
from koordsched.framework.row_refusals import NO_REFUSALS
from koordsched.framework.shapes import Shape, ShapeKey
from koordsched.framework.status import SKIP, Status, unresolvable, unschedulable
from koordsched.plugins import REGISTRY
from koordsched.scheduler.nominated_nodes import NominatedNodes

NODES = [f"n{i}" for i in range(6)]
ZONES = ["a", "b"]


class EvenPods(FilterPlugin):
    """A plain filter, lifted by the framework: nodes with three pods are full."""

    name = "EvenPods"

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("three is enough") if len(node.pods) >= 3 else None


class Relative(ScorePlugin):
    """A plain scorer whose normalisation depends on all feasible nodes."""

    name = "Relative"
    normalize = Normalize.CUSTOM

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status:
        return node.requested("cpu") - 500

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        low, high = scores.min(), scores.max()
        return (100 * (scores - low) // (high - low)) if high > low else np.zeros_like(scores)


class Spread(PreScorePlugin, ScoreNodesPlugin):
    """A columnar scorer that depends on which nodes are feasible, and stays away when there are more than four of them."""

    name = "Spread"
    depends_on_feasible = True
    skips_by_feasible = True

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write("Spread", len(nodes))
        return SKIP if len(nodes) > 4 else None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return np.full(len(nodes), 7 * state.read("Spread"), np.int64)


class Mood:
    """What Moody depends on besides row and signature."""

    filter = 0
    score = 0


class Moody(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    """Skips, restricts, refuses and filters as its version has it; its scores have a version of their own."""

    name = "Moody"
    reads = NodeChange.LABELS

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def version(self, pod: PodInfo) -> Hashable:
        return Mood.filter

    def score_version(self, pod: PodInfo) -> Hashable:
        return Mood.score

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        state.write("MoodyFilter", Mood.filter)
        if Mood.filter == 0:
            return SKIP
        if Mood.filter == 1:
            return PreFilterResult(frozenset(NODES[:3]))
        return unschedulable("moody") if Mood.filter == 2 else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        divisor: int = state.read("MoodyFilter")
        codes: Codes = (nodes.rows % divisor == 0).astype(np.int32)
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return unschedulable("not in the mood")

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write("MoodyScore", Mood.score)
        return SKIP if Mood.score == 0 else None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        factor: int = state.read("MoodyScore")
        return (nodes.rows * factor % 100).astype(np.int64)


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: EvenPods}, {name: Relative, weight: 2}, {name: Spread}, {name: Moody}]}
    preFilter: {enabled: [{name: Only}, {name: Corner}, {name: First}]}
    score: {enabled: [{name: NodeResourcesFitPlus, weight: 3}, {name: ScarceResourceAvoidance}]}
  pluginConfig:
  - name: NodeResourcesFitPlus
    args: {resources: {cpu: {type: LeastAllocated, weight: 1}, example.com/gpu: {type: MostAllocated, weight: 3}}}
  - {name: ScarceResourceAvoidance, args: {resources: [example.com/gpu]}}
"""
OWN = {
    "EvenPods": lambda _args, _handle: EvenPods(),
    "Relative": lambda _args, _handle: Relative(),
    "Spread": lambda _args, _handle: Spread(),
    "Moody": lambda _args, _handle: Moody(),
    "Only": lambda _args, _handle: Only(),
    "Corner": lambda _args, _handle: Corner(),
    "First": lambda _args, _handle: First(),
}
CATALOGUE = (
    REFERENCE.with_plugin("EvenPods", frozenset({"filter"}))
    .with_plugin("Relative", frozenset({"score"}))
    .with_plugin("Spread", frozenset({"preScore", "score"}))
    .with_plugin("Moody", frozenset({"preFilter", "filter", "preScore", "score"}))
    .with_plugin("Only", frozenset({"preFilter"}))
    .with_plugin("Corner", frozenset({"preFilter"}))
    .with_plugin("First", frozenset({"preFilter"}))
)
SETUP = Setup(CONFIG, Environment(catalogue=CATALOGUE), {**REGISTRY, **OWN})


def spreading(key: str, skew: int = 1, app: str = "a", *, hard: bool = True, honor_taints: bool = False) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
        label_selector=LabelSelector(match_labels={"app": app}),
        node_taints_policy="Honor" if honor_taints else None,
    )


TEMPLATES = [
    pod("plain").cpu("500m").memory("256Mi"),
    pod("big").cpu("3"),
    pod("nothing"),
    pod("zone-a").cpu("100m").node_selector({"zone": "a"}),
    pod("not-a").requires(requirement("zone", "NotIn", "a")),
    pod("prefers-b").cpu("100m").prefers(10, requirement("zone", "In", "b")).prefers(3, requirement("gen", "Gt", "3")),
    pod("tolerant").tolerates("dedicated", "x", "NoSchedule"),
    pod("port").host_port(80),
    pod("image").image("app:1").image("base"),
    pod("gpu").request("example.com/gpu", "1"),
    pod("pinned").requires(requirement("zone", "Exists")),
    pod("even").label("app", "a").spread(spreading("zone")),
    pod("apart").label("app", "a").spread(spreading("kubernetes.io/hostname"), spreading("zone", skew=2)),
    pod("roughly").label("app", "b").spread(spreading("zone", app="b", hard=False), spreading("kubernetes.io/hostname", hard=False)),
    pod("choosy").node_selector({"zone": "a"}).spread(spreading("gen", skew=2, honor_taints=True), spreading("gen", hard=False)),
]

names = st.sampled_from(NODES)
by_name = st.sets(st.sampled_from([*NODES, "elsewhere"]), min_size=1).map(lambda chosen: {ONLY: ",".join(sorted(chosen))})
by_zone = st.sampled_from(ZONES).map(lambda zone: {CORNER: zone})
restrictions = by_name | by_zone | st.tuples(by_name, by_zone).map(lambda both: both[0] | both[1])


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    """Draw a node with anything a plugin reads."""
    made = node(name).cpu(draw(st.sampled_from(["1", "2", "4"]))).memory(draw(st.sampled_from(["1Gi", "4Gi"])))
    made = made.pods(draw(st.sampled_from([2, 110])))
    zone = draw(st.sampled_from([*ZONES, ""]))
    made = made.label("zone", zone) if zone else made
    made = made.label("gen", draw(st.sampled_from(["1", "5", "x"])))
    for key, effect in draw(
        st.sets(st.tuples(st.sampled_from(["dedicated", "slow"]), st.sampled_from(["NoSchedule", "PreferNoSchedule"])))
    ):
        made = made.taint(key, effect, "x")
    made = made.cordoned() if draw(st.booleans()) else made
    for image in draw(st.sets(st.sampled_from(["app:1", "base:latest", "other:2"]))):
        made = made.image(300 << 20, image)
    return made.allocatable("example.com/gpu", 1) if draw(st.booleans()) else made


class IncrementalEqualsFull(RuleBasedStateMachine):
    """Events change the cache; long-lived shapes follow it, and are compared with shapes that are made anew."""

    @initialize()
    def begin(self) -> None:
        self.world = World(SETUP)
        self.pods = [self.world.signed(template.info()) for template in TEMPLATES]
        self.running: dict[str, str] = {}
        self.count = 0
        Mood.filter = Mood.score = 0

    @rule(data=st.data(), name=names)
    def set_node(self, data: st.DataObject, name: str) -> None:
        self.world.cache.set_node(data.draw(nodes(name)).build())

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.world.cache.remove_node(name)

    @rule(template=st.sampled_from(TEMPLATES), name=names)
    def run_pod(self, template: PodBuilder, name: str) -> None:
        self.count += 1
        info = template.uid(f"running-{self.count}").on(name).info(counted_on_node=True)
        self.world.cache.set_pod(info, name)
        self.running[info.uid] = name

    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        if self.running:
            uid = data.draw(st.sampled_from(sorted(self.running)))
            self.world.cache.remove_pod(uid)
            del self.running[uid]

    @rule(data=st.data())
    def begin_to_end_pod(self, data: st.DataObject) -> None:
        if self.running:
            uid = data.draw(st.sampled_from(sorted(self.running)))
            running = self.world.cache.pods[uid].info.pod
            ending = PodBuilder(running).deleted_at("2026-01-01T00:00:00Z")
            self.world.cache.set_pod(ending.info(counted_on_node=True), self.running[uid])

    @rule(filter_mood=st.integers(0, 5), score_mood=st.integers(0, 3))
    def change_moods(self, filter_mood: int, score_mood: int) -> None:
        Mood.filter, Mood.score = filter_mood, score_mood

    @rule(index=st.integers(0, len(TEMPLATES) - 1))
    def look_without_ranking(self, index: int) -> None:
        shapes, info = self.world.profile.shapes, self.pods[index]
        shapes.filter(shapes.pre_filter(info), info)

    @rule(index=st.integers(0, len(TEMPLATES) - 1), restriction=restrictions)
    def choose_restricted(self, index: int, restriction: dict[str, str]) -> None:
        made = TEMPLATES[index]
        for key, value in restriction.items():
            made = made.annotation(key, value)
        info = self.world.signed(made.info())
        assert outcome(self.world, info) == expected_outcome(World(SETUP, self.world.cache), TEMPLATES[index].info(), restriction)

    @rule(template=st.sampled_from(TEMPLATES), name=names, priority=st.integers(0, 2))
    def nominate(self, template: PodBuilder, name: str, priority: int) -> None:
        self.count += 1
        self.world.nominator.set(template.uid(f"nominated-{self.count}").priority(priority).info(), name)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        nominated = sorted(uid for pods in self.world.nominator.nodes.values() for uid in pods)
        if nominated:
            self.world.nominator.remove(data.draw(st.sampled_from(nominated)))

    @rule(index=st.integers(0, len(TEMPLATES) - 1), priority=st.integers(0, 2), preferred=st.lists(names, min_size=1, unique=True))
    def single_rows_equal_columns(self, index: int, priority: int, preferred: list[str]) -> None:
        """One row asked about alone, with the pods that are nominated there, is what the columns say with them; so is a preferred node."""
        profile, cache = self.world.profile, self.world.cache
        nominated = NominatedNodes(cache, self.world.nominator)
        info = self.world.signed(TEMPLATES[index].priority(priority).info())
        shape = profile.shapes.pre_filter(info)
        if shape.pre_filtered.refusal is not None:
            return
        alone = [nominated.fits(profile, shape, info, cache.infos[row]) for row in cache.table.live_rows().tolist()]
        profile.shapes.filter(shape, info)
        refused = set(nominated.refusals(profile, shape, info, shape.evaluation).rows.tolist())
        together = [shape.evaluation.is_feasible(row) and row not in refused for row in cache.table.live_rows().tolist()]
        assert alone == together
        fitting = {cache.infos[row].name for row, fits in zip(cache.table.live_rows().tolist(), together, strict=True) if fits}
        if shape.restriction is None and not fitting.isdisjoint(preferred):
            prefers = self.world.signed(TEMPLATES[index].priority(priority).annotation(FIRST, ",".join(preferred)).info())
            assert self.world.find(prefers) == next(name for name in preferred if name in fitting)

    @rule(index=st.integers(0, len(TEMPLATES) - 1))
    def choose(self, index: int) -> None:
        self.world.find(self.pods[index])

    @rule(data=st.data(), kept=st.booleans())
    def group_turn(self, data: st.DataObject, kept: bool) -> None:
        """Place pods in one turn, evaluating other shapes in between, then keep them all or undo them as if they had never been."""
        world, table = self.world, self.world.cache.table
        idle = [info for info in self.pods if self.is_current(info)]
        before, end = columns(world), table.log_end
        table.begin_turn()
        placed: list[PodInfo] = []
        for index, place in data.draw(st.lists(st.tuples(st.integers(0, len(TEMPLATES) - 1), st.booleans()), max_size=6)):
            self.count += 1
            info = world.signed(TEMPLATES[index].uid(f"member-{self.count}").info()) if place else self.pods[index]
            idle = [other for other in idle if other.shape is not info.shape]
            found = world.find(info)
            if place and isinstance(found, str):
                world.cache.assume_pod(info, found)
                placed.append(info)
        if kept:
            table.keep_turn()
            self.running |= {info.uid: world.cache.pods[info.uid].node.name for info in placed}
            return
        for info in reversed(placed):
            world.cache.forget_pod(info.uid)
        assert table.rewind_turn()
        assert columns(world) == before
        assert table.log_end == end
        kept_shapes = world.profile.shapes._kept
        keys = [(info, info.shape) for info in idle]
        assert all(self.is_current(info) for info, key in keys if isinstance(key, ShapeKey) and kept_shapes.peek(key))  # some made room

    def is_current(self, info: PodInfo) -> bool:
        """Answer whether the pod's shape is kept and has nothing to ask, not even for a new version."""
        shapes = self.world.profile.shapes
        shape = shapes._kept.peek(info.shape) if isinstance(info.shape, ShapeKey) else None
        if shape is None or not shape.prepared or [plugin.version(info) for plugin in shape.versioned] != shape.versions:
            return False
        return shape.pre_filtered.refusal is None and shape.evaluation.is_current()

    @invariant()
    def long_lived_shapes_equal_new_ones(self) -> None:
        if not hasattr(self, "world"):
            return
        anew = World(SETUP, self.world.cache)
        for template, known in zip(TEMPLATES[self.count % 3 :: 3], self.pods[self.count % 3 :: 3], strict=True):
            fresh = anew.signed(template.info())
            assert view(self.world, known) == view(anew, fresh)


def columns(world: World) -> dict[str, list[object]]:
    return {name: column.tolist() for name, column in world.cache.table.columns().items()}


def outcome(world: World, info: PodInfo) -> dict[str, object]:
    """Return what a restricted pod comes to: refused as a whole, the nodes that pass, their totals, and why no node does."""
    shapes = world.profile.shapes
    shape = shapes.pre_filter(info)
    restriction = shape.restriction
    if shape.pre_filtered.refusal is not None or (restriction is not None and restriction.refusal is not None):
        return {"refused": True}
    assert restriction is not None
    verdicts = shapes.filter_restricted(shape, info, restriction)
    refusals: Counter[Status] = Counter()
    for refusal in shapes.diagnoses.of_restricted(shape, info, restriction, verdicts).refusals:
        refusals[refusal.status] += refusal.nodes
    seen: dict[str, object] = {"feasible": verdicts.feasible.tolist(), "refusals": refusals}
    if len(verdicts.feasible):
        seen["totals"] = shapes.totals(shape, info, verdicts.feasible)[1].tolist()
    return seen


def expected_outcome(world: World, info: PodInfo, restriction: dict[str, str]) -> dict[str, object]:
    """Return the same of an unrestricted pod of the same shape, from columns that other nodes are taken out of."""
    shapes, cache = world.profile.shapes, world.cache
    shape = shapes.pre_filter(world.signed(info))
    allowed = {info.name: info for info in cache.nodes_by_name.values() if info.node is not None}
    plugins = set(shape.pre_filtered.named)
    named = list(shape.pre_filtered.named.values())
    if ONLY in restriction:
        named.append(frozenset(restriction[ONLY].split(",")))
        plugins.add("Only")
    left = set(frozenset.intersection(*named)) if named else set(allowed)
    inside = {name for name in left if name in allowed}
    if CORNER in restriction:
        zoned = {
            name for name, info in allowed.items() if info.node is not None and info.node.metadata.labels.get("zone") == restriction[CORNER]
        }
        if not zoned:
            left = set()
        inside &= zoned
        plugins.add("Corner")
    if shape.pre_filtered.refusal is not None or not left:
        return {"refused": True}
    shapes.filter(shape, info)
    rows = np.array(sorted(allowed[name].row for name in inside), np.int32)
    refusals: Counter[Status] = Counter()
    for f, code in (shape.evaluation.verdict(row) for row in rows.tolist()):
        if f >= 0:
            refusals[shape.filters[f].explain(shape.state, info, code).with_plugin(shape.filters[f].name)] += 1
    if len(allowed) > len(rows):
        refusals[unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]")] += len(allowed) - len(rows)
    feasible = shape.evaluation.feasible_among(rows)
    seen: dict[str, object] = {"feasible": feasible.tolist(), "refusals": refusals}
    if len(feasible):
        shapes.overrule(shape, np.setdiff1d(shape.evaluation.feasible_rows(), feasible))
        shapes.pre_score(shape, info)
        shapes.score(shape, info)
        seen["totals"] = [shape.evaluation.scores(row)[1] for row in feasible.tolist()]
    return seen


def view(world: World, info: PodInfo) -> dict[str, object]:
    """Return what a shape knows, by row, after a full round; of a restricted one (Moody names nodes) what its pods come to."""
    shapes = world.profile.shapes
    shape: Shape = shapes.pre_filter(info)
    if shape.restriction is not None:
        return outcome(world, info)
    shapes.filter(shape, info)
    if shape.pre_filtered.refusal is not None:
        return {"refusal": shape.pre_filtered.refusal}
    rows = world.cache.table.live_rows().tolist()
    seen: dict[str, object] = {
        "verdicts": [shape.evaluation.verdict(row) for row in rows],
        "feasible": shape.evaluation.feasible_rows().tolist(),
    }
    if shape.feasible_count == 0:
        return seen | {"message": shapes.diagnoses.of_shape(shape, info, NO_REFUSALS).message}
    shapes.pre_score(shape, info)
    shapes.score(shape, info)
    enabled = [s for s in range(len(shape.scorers)) if shape.evaluation.is_enabled(s)]
    scores = {row: shape.evaluation.scores(row) for row in shape.evaluation.feasible_rows().tolist()}
    return seen | {
        "enabled": enabled,
        "raw": {row: [raw[s] for s in enabled] for row, (raw, _) in scores.items()},
        "total": {row: total for row, (_, total) in scores.items()},
        "best": shape.evaluation.best(),
    }


IncrementalEqualsFull.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestIncrementalEqualsFull = IncrementalEqualsFull.TestCase
