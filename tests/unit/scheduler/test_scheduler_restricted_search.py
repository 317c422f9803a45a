"""A node for a pod that may not go everywhere: what plugins restrict, decide and prefer, and what is asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from structlog.testing import capture_logs
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.fakes import Fake, FakeFilter, FakePreFilter, FakePreScore, FakeScore, pod_manifest, profile_config, registry_of
from support.restricting import CORNER, FIRST, ONE, ONLY, Corner, First, One, Only
from support.stages import Stage, begin, bound_to, nodes_of_pods, ref
from support.world import Setup, World

from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import Nodes
from koordsched.config import REFERENCE, Environment
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.handle import Handle
from koordsched.framework.interface import UNSIGNABLE, FilterNodesPlugin, Normalize, Plugin, PreFilterResult
from koordsched.framework.profile import PluginFactory, Profile
from koordsched.framework.shape import RestrictedShapeKey
from koordsched.framework.status import SKIP, Code, PluginError, Status, unschedulable
from koordsched.plugins import REGISTRY
from koordsched.queue.events import ActionType, EventHint, EventResource, cluster_event

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    preFilter: {{enabled: [{enabled}]}}
"""
CATALOGUE = REFERENCE.with_plugin("First", frozenset({"preFilter"})).with_plugin("Only", frozenset({"preFilter"}))
FULL = unschedulable("full")
NAMES = [f"n{i}" for i in range(6)]


class Bench:
    """Six nodes in two zones; a filter, a scorer that prefers later nodes, and plugins of each role."""

    def __init__(self, *more: Any, pre_filter: FakePreFilter | None = None) -> None:
        self.world = World()
        for i, name in enumerate(NAMES):
            self.put(node(name).cpu("4").label("zone", "ab"[i % 2]))
        self.only, self.corner, self.one, self.first = Only(), Corner(), One(), First()
        self.filter = FakeFilter("F")
        self.score = FakeScore("S", Normalize.DEFAULT, **{name: 10 * i for i, name in enumerate(NAMES, 1)})
        at_pre_filter = [*([pre_filter] if pre_filter else ()), self.only, self.corner, self.one, self.first, *more]
        config = profile_config(preFilter=at_pre_filter, filter=[self.filter], score=[self.score])
        self.profile = Profile(config, registry_of(*at_pre_filter, self.filter, self.score), self.world)
        self.shapes = self.profile.shapes

    def put(self, builder: NodeBuilder) -> None:
        self.world.cache.set_node(builder.build())

    def sign(self, builder: PodBuilder) -> PodInfo:
        info = builder.info()
        info.shape = self.shapes.key(info)
        return info

    def find(self, builder: PodBuilder) -> str | Diagnosis:
        return self.world.search.find(self.profile, self.sign(builder))[1]

    def message(self, builder: PodBuilder) -> str:
        found = self.find(builder)
        assert isinstance(found, Diagnosis)
        return found.message

    def refuse(self, *names: str) -> None:
        """Let the filter refuse these nodes from now on."""
        self.filter.refuse = dict.fromkeys(names, FULL)
        for name in NAMES:
            self.world.cache.table.mark(self.world.cache.nodes_by_name[name].row, 1)


def asks(key: str, value: str, name: str = "p") -> PodBuilder:
    return pod(name).uid(f"{name}-{key}-{value}").annotation(key, value)


# Restrictions


def test_the_best_node_of_a_restriction_gets_the_pod() -> None:
    bench = Bench()
    assert bench.find(pod("free")) == "n5"
    assert bench.find(asks(ONLY, "n1,n3")) == "n3"
    assert bench.find(asks(CORNER, "a")) == "n4"
    assert bench.find(asks(ONLY, "n1,n2,elsewhere").annotation(CORNER, "a")) == "n2"


class Twice(Corner):
    """Names a row twice."""

    name = "Twice"

    def restrict(self, pod: PodInfo, nodes: Nodes) -> NDArray[np.int32]:
        return np.array([1, 1], np.int32)


def test_rows_that_are_no_set_are_a_plugins_mistake_and_never_a_node_that_another_plugin_excludes() -> None:
    bench = Bench(Twice())
    with pytest.raises(ValueError, match="plugin Twice: a restriction is an ascending vector of int32 rows, each once"):
        bench.find(asks(CORNER, "a"))


def test_pods_that_are_restricted_otherwise_share_the_columns_and_wait_apart() -> None:
    bench = Bench()
    free, first, again, other = (bench.sign(made) for made in (pod("p"), asks(ONLY, "n1"), asks(ONLY, "n1", "q"), asks(ONLY, "n2")))
    assert first.shape is again.shape
    assert len({id(info.shape) for info in (free, first, other)}) == 3
    for info in (first, other):
        assert isinstance(info.shape, RestrictedShapeKey)
        assert info.shape.columns is free.shape
    for info in (free, first, other):
        bench.world.search.find(bench.profile, info)
    assert len(bench.shapes) == 1


def test_filters_are_asked_about_the_rows_of_a_restriction_until_all_rows_cost_no_more() -> None:
    bench = Bench()
    for names in ("n0", "n1,n2", "n3,n4,n5"):
        bench.filter.asked.clear()
        bench.find(asks(ONLY, names))
        assert bench.filter.asked == names.split(",")
    bench.filter.asked.clear()
    bench.find(asks(ONLY, "n2"))
    assert sorted(bench.filter.asked) == NAMES
    bench.filter.asked.clear()
    for made in (asks(ONLY, "n5"), asks(CORNER, "b"), pod("free")):
        bench.find(made)
    assert bench.filter.asked == []


def test_other_nodes_count_as_refused_by_the_plugins_that_restrict() -> None:
    bench = Bench()
    bench.refuse("n0", "n2")
    assert bench.message(asks(ONLY, "n0,n2")) == "0/6 nodes are available: 2 full, 4 node(s) didn't satisfy plugin(s) [Only]."
    both = bench.find(asks(ONLY, "n0,n2,n3").annotation(CORNER, "a"))
    assert isinstance(both, Diagnosis)
    assert both.message == "0/6 nodes are available: 2 full, 4 node(s) didn't satisfy plugin(s) [Corner Only]."
    assert both.plugins == {"Corner", "F", "Only"}
    statuses = [both.status_of(bench.world.cache.nodes_by_name[name].row) for name in ("n0", "n3")]
    assert [(status.plugin, status.code.value) for status in statuses if status] == [
        ("F", "Unschedulable"),
        ("", "UnschedulableAndUnresolvable"),
    ]


def test_a_percentage_of_nodes_to_score_counts_the_nodes_of_the_restriction() -> None:
    bench = Bench()
    names = [f"m{i}" for i in range(200)]
    for name in names:
        bench.put(node(name).cpu("4"))
    bench.score.scores = {name: i for i, name in enumerate(names)}
    at_pre_filter = [bench.only, bench.corner, bench.one, bench.first]
    config = profile_config(preFilter=at_pre_filter, filter=[bench.filter], score=[bench.score])
    registry = registry_of(*at_pre_filter, bench.filter, bench.score)
    for percentage, best in ((50, ["m99", "m199", "m99"]), (0, ["m199"] * 3)):
        bench.profile = Profile(config, registry, bench.world, percentage_of_nodes_to_score=percentage)
        bench.shapes = bench.profile.shapes
        assert [bench.find(asks(ONLY, ",".join(names))) for _ in range(3)] == best


def test_names_of_no_node_restrict_too() -> None:
    bench = Bench()
    assert bench.message(asks(ONLY, "zzz")) == "0/6 nodes are available: 6 node(s) didn't satisfy plugin(s) [Only]."
    bench.put(node("zzz").cpu("4"))
    assert bench.find(asks(ONLY, "zzz")) == "zzz"


def test_restrictions_that_leave_nothing_are_a_refusal_of_pre_filter() -> None:
    bench = Bench(pre_filter=FakePreFilter("A", PreFilterResult(frozenset({"n0", "n1"}))))
    assert bench.find(asks(ONLY, "n1,n2")) == "n1"
    found = bench.find(asks(ONLY, "n2"))
    assert isinstance(found, Diagnosis)
    assert found.message == "0/6 nodes are available: node(s) didn't satisfy plugin(s) [A Only] simultaneously."
    assert found.plugins == {"A", "Only"}
    assert bench.find(pod("free")) == "n1", "the others of the shape are not concerned"
    assert bench.filter.asked == ["n1", "n0", "n1"], "no filter was asked about a pod without nodes"


@pytest.mark.parametrize("score", [-1, 101])
def test_a_score_out_of_range_is_an_error_of_the_pod_that_names_it(score: int) -> None:
    bench = Bench()
    bench.score.normalize, bench.score.scores = Normalize.NONE, {"n1": 100, "n3": score, "n4": 0}
    text = f'plugin "S" returns an invalid score {score}, it should in the range of [0, 100] after normalizing'
    with pytest.raises(PluginError) as caught:
        bench.find(asks(ONLY, "n1,n3"))
    assert (caught.value.status, caught.value.point) == (Status(Code.ERROR, (text,), "S"), "Score")
    assert bench.find(asks(ONLY, "n1,n4")) == "n1"


def test_a_plugin_whose_pre_score_skips_gives_no_score_and_the_others_do() -> None:
    first, second, only = FakePreScore("A", n1=100), FakePreScore("B", n3=10), Only()
    world = World()
    for name in NAMES:
        world.cache.set_node(node(name).cpu("4").build())
    profile = Profile(
        profile_config(preFilter=[only], preScore=[first, second], score=[first, second]), registry_of(only, first, second), world
    )
    found = []
    for first.answer in (None, SKIP):
        first.asked.clear()
        second.asked.clear()
        found.append(world.search.find(profile, asks(ONLY, "n1,n3").info())[1])
        assert second.asked == ["PreScore of 2", "n1", "n3"]
        assert first.asked == ["PreScore of 2", *([] if first.answer is SKIP else ["n1", "n3"])]
    assert found == ["n1", "n3"]


class Short(Fake, FilterNodesPlugin):
    """Forgets the last node."""

    def filter_nodes(self, _state: object, _pod: PodInfo, nodes: Nodes) -> NDArray[np.int32]:
        return np.zeros(len(nodes) - 1, np.int32)

    def explain(self, _state: object, _pod: PodInfo, code: int) -> Status:
        raise AssertionError(code)


def test_an_answer_of_another_length_than_the_question_is_an_error() -> None:
    short, only = Short("F"), Only()
    world = World()
    for name in NAMES:
        world.cache.set_node(node(name).cpu("4").build())
    profile = Profile(profile_config(preFilter=[only], filter=[short]), registry_of(only, short), world)
    with pytest.raises(ValueError, match=r"^1 answers for 2 rows$"):
        world.search.find(profile, asks(ONLY, "n1,n3").info())


def test_a_status_instead_of_nodes_refuses_or_fails_the_pod_alone() -> None:
    bench = Bench()
    assert bench.message(asks(ONLY, "-")) == "0/6 nodes are available: nowhere today."
    with pytest.raises(PluginError, match='running PreFilter plugin "Only": failed'):
        bench.find(asks(ONLY, "?"))
    with pytest.raises(PluginError, match=r"^unreadable$"):
        bench.find(asks(ONLY, "!"))
    assert bench.find(pod("free")) == "n5"


def test_a_pod_that_no_plugin_signs_is_restricted_all_the_same() -> None:
    bench = Bench()
    info = bench.sign(asks(ONLY, "n1"))
    info.shape = None
    assert bench.world.search.find(bench.profile, info)[1] == "n1"
    broken = asks(ONLY, "!").info()
    with pytest.raises(PluginError, match="unreadable"):
        bench.world.search.find(bench.profile, broken)


def test_a_restriction_is_found_once_and_again_after_what_it_depends_on_has_changed() -> None:
    bench = Bench()
    kept = bench.sign(asks(CORNER, "a"))

    def find() -> object:
        return bench.world.search.find(bench.profile, kept)[1]

    assert (find(), find(), bench.corner.asked) == ("n4", "n4", 1)
    bench.put(node("n1").cpu("4").label("zone", "b").taint("slow", "NoSchedule"))
    assert (find(), bench.corner.asked) == ("n4", 1)
    bench.put(node("n5").cpu("4").label("zone", "a"))
    assert (find(), bench.corner.asked) == ("n5", 2)
    bench.corner.shift = 1
    assert (find(), bench.corner.asked) == ("n3", 3)
    bench.put(node("n7").cpu("4").label("zone", "b"))
    assert (find(), bench.corner.asked) == ("n3", 4), "S gives it nothing"


def test_of_several_plugins_that_restrict_each_may_change_its_mind() -> None:
    bench = Bench()
    at_pre_filter: list[Plugin] = [bench.corner, bench.only]
    config = profile_config(preFilter=at_pre_filter, filter=[bench.filter], score=[bench.score])
    bench.profile = Profile(config, registry_of(*at_pre_filter, bench.filter, bench.score), bench.world)
    bench.shapes = bench.profile.shapes
    kept = bench.sign(asks(CORNER, "a").annotation(ONLY, "n0,n1,n2,n3"))
    found = []
    for bench.corner.shift in (0, 1, 1, 0):
        found.append(bench.world.search.find(bench.profile, kept)[1])
    assert found == ["n2", "n3", "n3", "n2"]
    assert (bench.corner.asked, bench.only.asked) == (3, 3)


def test_a_node_that_a_nominated_pod_with_a_port_makes_too_small_is_counted_once() -> None:
    world = World()
    world.cache.set_node(node("n1").cpu("4").build())
    world.nominator.set(pod("vip").uid("vip").priority(10).cpu("3").host_port(80).info(), "n1")
    refused = world.find(pod("p").cpu("2").info())
    assert isinstance(refused, Diagnosis)
    assert refused.message == "0/1 nodes are available: 1 Insufficient cpu."
    blocked = world.find(pod("q").cpu("1").host_port(80).info())
    assert isinstance(blocked, Diagnosis)
    assert blocked.message.startswith("0/1 nodes are available: 1 node(s) didn't have free ports")
    assert world.find(pod("r").cpu("1").info()) == "n1"


def test_a_probe_looks_at_the_nodes_of_the_restriction_and_keeps_the_reasons_while_they_hold() -> None:
    bench = Bench()
    waiting = bench.sign(asks(ONLY, "n0,n2"))
    assert bench.shapes.why_infeasible(waiting) is None
    bench.refuse("n0", "n2")
    first = bench.shapes.why_infeasible(waiting)
    assert first is not None
    assert bench.shapes.why_infeasible(waiting) is first
    assert bench.shapes.unchanged_diagnosis(waiting) is first
    assert bench.shapes.unchanged_diagnosis(bench.sign(pod("free"))) is None
    bench.refuse("n0", "n2", "n5")
    assert bench.shapes.why_infeasible(waiting) is first, "n5 is none of its nodes"
    bench.filter.refuse["n2"] = unschedulable("worse")
    bench.world.cache.table.mark(2, 1)
    assert bench.shapes.unchanged_diagnosis(waiting) is None
    second = bench.shapes.why_infeasible(waiting)
    assert second is not None
    assert second.message == "0/6 nodes are available: 1 full, 1 worse, 4 node(s) didn't satisfy plugin(s) [Only]."


def test_what_only_a_nominated_pod_keeps_from_a_restricted_pod_is_no_reason_to_be_kept() -> None:
    """The nomination ends without a change of the node; the pod is then to be tried, and not returned as refused already."""
    world, only = World(), Only()
    world.cache.set_node(node("n1").cpu("4").build())
    world.cache.set_node(node("n2").cpu("4").build())
    fit = world.profile.made["NodeResourcesFit"]
    assert isinstance(fit, FilterNodesPlugin)
    profile = Profile(profile_config(preFilter=[only, fit], filter=[fit]), registry_of(only, fit), world)

    def find(made: PodBuilder) -> tuple[PodInfo, str | Diagnosis]:
        info = made.info()
        info.shape = profile.shapes.key(info)
        return info, world.search.find(profile, info)[1]

    world.nominator.set(pod("vip").uid("vip").priority(10).cpu("3").info(), "n1")
    info, found = find(asks(ONLY, "n1").cpu("2"))
    assert isinstance(found, Diagnosis)
    assert "1 Insufficient cpu" in found.message
    assert profile.shapes.unchanged_diagnosis(info) is None
    world.nominator.remove("vip")
    assert profile.shapes.unchanged_diagnosis(info) is None
    assert find(asks(ONLY, "n1", "again").cpu("2"))[1] == "n1"


def test_a_restricted_pod_that_no_plugin_signs_is_refused_with_its_reasons() -> None:
    unsigned = FakePreFilter("U")
    unsigned.signature = UNSIGNABLE
    bench = Bench(pre_filter=unsigned)
    bench.refuse("n0", "n2")
    info = bench.sign(asks(ONLY, "n0,n2"))
    assert info.shape is None
    for _ in range(2):
        assert bench.message(asks(ONLY, "n0,n2")) == "0/6 nodes are available: 2 full, 4 node(s) didn't satisfy plugin(s) [Only]."


def test_what_is_known_of_a_restricted_pod_ends_with_it() -> None:
    bench = Bench()
    bench.refuse(*NAMES)
    info = bench.sign(asks(ONLY, "n0"))
    shape = bench.shapes.pre_filter(info)
    assert bench.shapes.why_infeasible(info) is not None
    assert shape.restricted is not None
    assert len(shape.restricted) == 1
    del info
    assert len(shape.restricted) == 0


# FindOneNode and PreferNodes


def test_find_one_node_decides_over_restrictions_and_preferences_and_filters_have_the_last_word() -> None:
    bench = Bench()
    assert bench.find(asks(ONE, "n1").annotation(ONLY, "n2,n3").annotation(FIRST, "n4")) == "n1"
    assert bench.one.offered == [["n2", "n3"]]
    bench.refuse("n1")
    assert bench.message(asks(ONE, "n1")) == "0/6 nodes are available: 1 full, 5 node(s) didn't satisfy plugin(s) []."
    assert bench.message(asks(ONE, "zzz")) == "0/6 nodes are available: 6 node(s) didn't satisfy plugin(s) []."
    refused = bench.find(asks(ONE, "-"))
    assert isinstance(refused, Diagnosis)
    assert (refused.message, set(refused.plugins), refused.of_shape) == ("0/6 nodes are available: no plan.", {"One"}, False)
    with pytest.raises(PluginError, match="lost the plan"):
        bench.find(asks(ONE, "?"))


def test_a_refusal_of_the_only_node_is_that_of_the_pod_alone_and_of_the_plugin_that_chose_it_too() -> None:
    bench = Bench()
    bench.refuse("n1", "n2")
    chosen = bench.find(asks(ONE, "n1"))
    assert isinstance(chosen, Diagnosis)
    assert (set(chosen.plugins), chosen.of_shape) == ({"F", "One"}, False)
    restricted = bench.find(asks(ONLY, "n2").annotation(ONE, "n1"))
    assert isinstance(restricted, Diagnosis)
    assert (set(restricted.plugins), restricted.of_shape) == ({"F", "One"}, False)
    alone = bench.find(asks(ONLY, "n2"))
    assert isinstance(alone, Diagnosis)
    assert (set(alone.plugins), alone.of_shape) == ({"F", "Only"}, True)


PLANNED = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "plans.example.com")


class Planner(One):
    """Sends each pod where its annotation says, or where the plan says instead; a new plan is an event that only this plugin registers."""

    def __init__(self) -> None:
        super().__init__()
        self.plan: dict[str, str] = {}
        self.handle: Handle

    def begin(self, handle: Handle) -> None:
        self.handle = handle

    def events_to_register(self) -> Sequence[EventHint]:
        return [EventHint(PLANNED)]

    def find_one_node(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> str | Status:
        found = super().find_one_node(state, pod, nodes)
        return self.plan.get(found, found) if isinstance(found, str) else found


async def test_pods_whose_only_nodes_differ_wait_apart_and_for_the_plugin_that_chooses_too(stage: Stage) -> None:
    planner = Planner()
    async with stage((planner, "preFilter")) as world:
        pods = [pod_manifest(name, "4") for name in ("on-a", "on-b", "for-a", "for-b")]
        for manifest in pods:
            manifest["metadata"]["annotations"] = {ONE: manifest["metadata"]["name"][-1]}
        await begin(world, *pods, nodes="a b c")
        assert nodes_of_pods(world) == {"for-a": "", "for-b": "", "on-a": "a", "on-b": "b"}, "though c is free"
        await world.delete(ref("on-b"))
        await asyncio.sleep(15)
        assert bound_to(world, "for-b") == "b", "for-a, of the same shape, is refused still and does not keep it waiting"
        assert bound_to(world, "for-a") == ""
        planner.plan["a"] = "c"
        planner.handle.announce(PLANNED)
        await asyncio.sleep(15)
        assert bound_to(world, "for-a") == "c"
        world.scheduler.queue.check_invariants()


def test_the_first_preferred_node_that_passes_gets_the_pod_without_scores() -> None:
    bench = Bench()
    assert bench.find(asks(FIRST, "zzz,n1,n5")) == "n1"
    assert bench.score.asked == []
    assert bench.filter.asked == ["n1"], "no other node is looked at"
    bench.refuse("n1")
    assert bench.find(asks(FIRST, "n1,n0")) == "n0"
    assert bench.find(asks(FIRST, "n1")) == "n5", "none passes: as if nothing was preferred"
    assert bench.find(asks(FIRST, "n0,n2").annotation(ONLY, "n2,n4")) == "n2"
    assert bench.message(asks(FIRST, "-")) == "0/6 nodes are available: no preference."


def real_world(plugin: str) -> World:
    """Return six nodes, the default plugins with First or Only, and a pod of priority 10 nominated for n1, of whose 4 CPUs it takes 3."""
    made: dict[str, PluginFactory] = {"First": lambda _args, _handle: First(), "Only": lambda _args, _handle: Only()}
    world = World(Setup(CONFIG.format(enabled=f"{{name: {plugin}}}"), Environment(catalogue=CATALOGUE), {**REGISTRY, **made}))
    for name in NAMES:
        world.cache.set_node(node(name).cpu("4").build())
    world.nominator.set(pod("vip").uid("vip").priority(10).cpu("3").info(), "n1")
    return world


def test_the_nodes_of_a_restriction_keep_room_for_pods_that_are_nominated_there() -> None:
    world = real_world("Only")
    assert world.find(asks(ONLY, "n1,n2").cpu("2").info()) == "n2"
    assert world.find(asks(ONLY, "n1").cpu("2").priority(11).info()) == "n1"
    refused = world.find(asks(ONLY, "n1").cpu("2").info())
    assert isinstance(refused, Diagnosis)
    assert refused.message == "0/6 nodes are available: 1 Insufficient cpu, 5 node(s) didn't satisfy plugin(s) [Only]."
    world.cache.set_pod(pod("there").cpu("4").on("n2").info(counted_on_node=True), "n2")
    assert world.find(asks(ONLY, "n1,n2,n3").cpu("2").info()) == "n3"


def test_a_nominated_node_outside_the_restriction_is_logged_with_the_pod() -> None:
    bench = Bench()
    with capture_logs() as logs:
        assert bench.find(asks(ONLY, "n1").nominated("n1")) == "n1"
        assert logs == []
        bench.find(asks(ONLY, "n1").nominated("n0"))
    event = "the node that a pod is nominated for is none of those it is restricted to"
    assert logs == [{"event": event, "log_level": "warning", "pod": "default/p", "node": "n0"}]


def test_a_preferred_node_keeps_room_for_pods_that_are_nominated_there() -> None:
    world = real_world("First")
    assert world.find(asks(FIRST, "n1,n2").cpu("2").info()) == "n2"
    assert world.find(asks(FIRST, "n1,n2").cpu("1").info()) == "n1"
    assert world.find(asks(FIRST, "n1,n2").cpu("2").priority(11).info()) == "n1"


def test_the_nominated_node_comes_first_even_outside_the_restriction() -> None:
    bench = Bench()
    nominated = asks(ONLY, "n1,n3").annotation(FIRST, "n3").nominated("n0")
    assert bench.find(nominated) == "n0"
    assert bench.filter.asked == ["n3", "n0"], "the preferred one, which PreFilter decides on, then the nominated one"
    bench.refuse("n0")
    assert bench.find(nominated) == "n3"
    assert bench.message(asks(ONLY, "-").nominated("n1")) == "0/6 nodes are available: nowhere today."


def test_only_the_first_plugin_of_a_role_is_asked_and_the_others_are_logged() -> None:
    class Second(First):
        name = "Second"

        def prefer_nodes(self, *_: object) -> list[str]:
            raise AssertionError

    with capture_logs() as logs:
        bench = Bench(Second())
    assert bench.find(asks(FIRST, "n2")) == "n2"
    assert [(line["asked"], line["ignored"]) for line in logs if line.get("role") == "PreferNodes"] == [("First", ["Second"])]
