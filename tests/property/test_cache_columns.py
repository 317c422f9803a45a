"""Pods make no columns, whatever they name; what nodes made is forgotten with them; and no id is read as what it stood for before."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.affinity import Far, term, with_affinity
from support.builders import NodeBuilder, PodBuilder, node, pod, requirement
from support.described import described
from support.world import World

from koordsched._core.change import NodeChange
from koordsched.api.core import TopologySpreadConstraint
from koordsched.api.meta import LabelSelector
from koordsched.cache import columns as columns_module
from koordsched.cache.cache import Cache
from koordsched.framework.diagnosis import Diagnosis

KNOWN = ["n0", "n1", "n2"]  # nodes that come and go
STRANGE = ["x0", "x1"]  # nodes that pods are bound to and that may never come
WORDS = ["a", "b", "c"]  # of which invented names are made, of nodes' things as of pods'
words = st.sets(st.sampled_from(WORDS), max_size=3)


def resource(word: str) -> str:
    return f"example.com/{word}"


@st.composite
def hostile_pods(draw: st.DrawFn, name: str) -> PodBuilder:
    """Make a pod that names what there may or may not be."""
    made = pod(name, draw(st.sampled_from(["default", "other"]))).cpu("1")
    if draw(st.booleans()):
        made = with_affinity(made, far=Far(required=[term(word, {"app": word}) for word in sorted(draw(words))]))
    for word in sorted(draw(words)):
        made = made.request(resource(word), draw(st.sampled_from([1, 2])))
    for word in sorted(draw(words)):
        made = made.tolerates(word, word, operator="Equal")
    for port in draw(st.sets(st.integers(1, 5), max_size=3)):
        made = made.host_port(port, host_ip=draw(st.sampled_from(["", "10.0.0.1", "10.0.0.2"])))
    if draw(st.integers(0, 2)) == 0:
        made = made.node_selector({word: draw(st.sampled_from(WORDS)) for word in sorted(draw(words))})
    if draw(st.integers(0, 2)) == 0:
        made = made.prefers(3, requirement(draw(st.sampled_from(WORDS)), "In", draw(st.sampled_from(WORDS))))
    if draw(st.integers(0, 2)) == 0:
        key, when = draw(st.sampled_from(WORDS)), draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]))
        selector = LabelSelector({"app": draw(st.sampled_from(WORDS))})
        made = made.spread(TopologySpreadConstraint(1, key, when, selector))
    return made.label("app", draw(st.sampled_from(WORDS))).image(draw(st.sampled_from(WORDS)))


@st.composite
def strange_nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    made = node(name).cpu("8").pods(20)
    for word in sorted(draw(words)):
        made = made.label(word, draw(st.sampled_from(WORDS)))
    for word in sorted(draw(words)):
        made = made.allocatable(resource(word), draw(st.sampled_from([0, 1, 4])))
    for word in sorted(draw(words)):
        made = made.taint(word, draw(st.sampled_from(["NoSchedule", "PreferNoSchedule"])), word)
    for word in sorted(draw(words)):
        made = made.image(10**9, f"docker.io/library/{word}:latest")
    return made.cordoned() if draw(st.integers(0, 4)) == 0 else made


def held(cache: Cache) -> dict[str, Any]:
    """Return the names of all columns and ids, and how many columns the table has."""
    columns, table = cache.columns, cache.table.columns()
    return {
        "resources": sorted(columns.resources),
        "labels": {key: sorted(column.values.ids) for key, column in columns.labels.items()},
        "names": sorted(columns.name_column.values.ids),
        "taints": len(columns.taints.ids),
        "taint sets": len(columns.taint_sets.ids),
        "images": sorted(columns.images),
        "ports": len(columns.host_ports),
        "nodes": sorted(cache.nodes_by_name),
        "columns": (len(table["allocatable"]), len(table["requested"]), len(table["attribute"]), len(table["bit"])),
    }


class HostilePods(RuleBasedStateMachine):
    """A world with a node that stays; pods and nodes that come, name things, and go."""

    @initialize(idle=st.sampled_from([0, 2, 16]))
    def begin(self, idle: int) -> None:
        self.limits = [patch.object(columns_module, "IDLE_COLUMNS", idle), patch.object(columns_module, "IDLE_IDS", idle)]
        for limit in self.limits:
            limit.start()
        self.world = World()
        self.cache = self.world.cache
        self.steady = (
            node("steady").cpu("8").pods(20).label("zone", "z").label("a", "b").allocatable(resource("a"), 2).taint("t", "NoSchedule")
        )
        self.cache.set_node(self.steady.build())
        self.before, self.bytes_before = held(self.cache), self.cache.table.nbytes()
        self.nodes = {"steady": self.steady}
        self.bound: dict[str, tuple[PodBuilder, str]] = {}
        self.count = 0

    def teardown(self) -> None:
        if not hasattr(self, "limits"):
            return
        try:
            for uid in self.bound:
                self.cache.remove_pod(uid)
            for name in self.nodes.keys() - {"steady"}:
                self.cache.remove_node(name)
            self.cache.columns.forget_unused()
            assert held(self.cache) == self.before
            assert self.cache.table.nbytes() < 2 * self.bytes_before  # room is given back when three quarters of it are not needed
        finally:
            for limit in self.limits:
                limit.stop()

    @rule(data=st.data(), name=st.sampled_from(KNOWN + STRANGE[:1]))
    def set_node(self, data: st.DataObject, name: str) -> None:
        self.nodes[name] = data.draw(strange_nodes(name))
        self.cache.set_node(self.nodes[name].build())

    @rule(name=st.sampled_from(KNOWN + STRANGE[:1]))
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cache.remove_node(name)

    @rule(data=st.data(), name=st.sampled_from([*KNOWN, *STRANGE, "steady"]))
    def bind_pod(self, data: st.DataObject, name: str) -> None:
        columns = held(self.cache)["columns"]
        self.count += 1
        made = data.draw(hostile_pods(f"p{self.count}")).uid(f"u{self.count}").on(name)
        self.bound[f"u{self.count}"] = (made, name)
        self.cache.set_pod(made.info(counted_on_node=True), name)
        assert held(self.cache)["columns"][:3] == columns[:3]

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        if self.bound:
            uid = data.draw(st.sampled_from(sorted(self.bound)))
            del self.bound[uid]
            self.cache.remove_pod(uid)

    @rule(name=st.sampled_from([*KNOWN, *STRANGE, "steady"]), value=st.integers(0, 1))
    def mend_wrong_row(self, name: str, value: int) -> None:
        """What was held for a row is held as before when the row was wrong and is written anew."""
        info, table, columns = self.cache.nodes_by_name.get(name), self.cache.table, self.cache.columns
        if info is None:
            return
        if not info.shares_row:
            for attribute in range(table.attributes):
                table.set_attribute(attribute, info.row, value, int(NodeChange.LABELS))
            for used in columns.host_ports.lists():
                table.clear_bit(used.bit, info.row)
            table.set_allocatable(info.row, {1: 77})
            table.add(info.row, columns.request(pod().cpu("3").request(resource("a"), 5).info().resources))
        self.cache.rewrite(name)

    @rule(data=st.data())
    def attempt_pending_pods(self, data: st.DataObject) -> None:
        """Equal pods get the same answer from columns that were kept as in a world made anew."""
        columns = held(self.cache)
        self.count += 1
        made = data.draw(hostile_pods("pending"))
        fresh = World(cache=self.rebuilt())
        for each in (made, pod("plain").cpu("1"), pod("gpu").request(resource("a"), 1)):
            kept, anew = self.answer(self.world, each), self.answer(fresh, each)
            assert kept == anew
        assert held(self.cache) == columns

    def answer(self, world: World, builder: PodBuilder) -> Any:
        info = world.signed(builder.info())
        shape = world.profile.shapes.pre_filter(info)
        world.profile.shapes.filter(shape, info)
        if not shape.feasible_count:
            found = world.search.find(world.profile, info)[1]
            assert isinstance(found, Diagnosis)
            return found.message
        world.profile.shapes.pre_score(shape, info)
        world.profile.shapes.score(shape, info)
        evaluation = shape.evaluation
        names = {info.row: name for name, info in world.cache.nodes_by_name.items() if info.node is not None}
        return {names[row]: evaluation.scores(row)[1] for row in evaluation.feasible_rows().tolist()}

    def rebuilt(self) -> Cache:
        cache = Cache()
        for there in self.nodes.values():
            cache.set_node(there.build())
        for bound, name in self.bound.values():
            cache.set_pod(bound.info(counted_on_node=True), name)
        return cache

    @invariant()
    def equals_a_cache_built_anew(self) -> None:
        if hasattr(self, "cache"):
            assert described(self.cache) == described(self.rebuilt())


TestHostilePods = HostilePods.TestCase
TestHostilePods.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)
