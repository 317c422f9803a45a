"""What plugins are handed at the points that ask about nodes, however they are asked; and what is used again instead of made anew."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from support.builders import node, pod
from support.fakes import Fake, FakeScore, VersionedFilter, profile_config, registry_of
from support.plugins import PluginBench
from support.world import World

from koordsched.api.core import Taint, Toleration
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import NodeInfo, Nodes
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import (
    FilterPlugin,
    Normalize,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    Scores,
)
from koordsched.framework.kept_shapes import USED_ONCE
from koordsched.framework.profile import Profile
from koordsched.framework.row_refusals import NO_REFUSALS, RowRefusals
from koordsched.framework.sampling import Sampler
from koordsched.framework.shapes import Shape
from koordsched.framework.status import Status, unschedulable
from koordsched.framework.tolerations import LONG_LIST, first_untolerated, tolerances_of


class Asked(VersionedFilter, PreFilterPlugin, PreScorePlugin, ScorePlugin):
    """Keeps what it is handed at each point, by the names of the nodes."""

    def __init__(self) -> None:
        super().__init__("A")
        self.normalize = Normalize.CUSTOM
        self.handed: list[tuple[str, CycleState, PodInfo, tuple[str, ...]]] = []

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        self.handed.append(("PreFilter", state, pod, _names(nodes)))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.handed.append(("Filter", state, pod, (node.name,)))
        return self.refuse.get(node.name)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        self.handed.append(("PreScore", state, pod, _names(nodes)))
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        self.handed.append(("Score", state, pod, (node.name,)))
        return int(node.name.removeprefix("n"))

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        self.handed.append(("Normalize", state, pod, _names(nodes)))
        assert scores.tolist() == [int(name.removeprefix("n")) for name in _names(nodes)]
        return 100 - scores  # the other way round

    def of(self, point: str) -> list[tuple[str, ...]]:
        return [names for each, _, _, names in self.handed if each == point]


def _names(nodes: Nodes) -> tuple[str, ...]:
    return tuple(nodes.info(row).name for row in nodes.rows.tolist())


class Bench:
    def __init__(self) -> None:
        self.handle = PluginBench(*(node(f"n{number}") for number in range(4)))
        self.asked = Asked()
        self.asked.refuse = {"n3": unschedulable("no")}
        config = profile_config(preFilter=[self.asked], filter=[self.asked], preScore=[self.asked], score=[self.asked])
        self.profile = Profile(config, registry_of(self.asked), self.handle)
        self.pod = pod("p").info()
        self.pod.shape = self.profile.shapes.key(self.pod)

    def shape(self) -> Shape:
        shape = self.profile.shapes.pre_filter(self.pod)
        self.profile.shapes.filter(shape, self.pod)
        return shape

    def find(self) -> str:
        shape = self.shape()
        self.profile.shapes.pre_score(shape, self.pod)
        self.profile.shapes.score(shape, self.pod)
        best, _ = shape.evaluation.best()
        return self.name(shape.evaluation.pick(best, 0))

    def name(self, row: int) -> str:
        info = self.handle.cache.infos[row]
        assert info is not None
        return info.name


def test_a_plugin_that_looks_at_one_node_at_a_time_is_handed_state_pod_and_node() -> None:
    bench = Bench()
    assert bench.find() == "n0"
    asked = bench.asked
    assert asked.of("PreFilter") == [("n0", "n1", "n2", "n3")]
    assert sorted(asked.of("Filter")) == [("n0",), ("n1",), ("n2",), ("n3",)]
    assert asked.of("PreScore") == asked.of("Normalize") == [("n0", "n1", "n2")]
    assert sorted(asked.of("Score")) == [("n0",), ("n1",), ("n2",)]
    assert {id(pod) for _, _, pod, _ in asked.handed} == {id(bench.pod)}
    assert all(isinstance(state, CycleState) for _, state, _, _ in asked.handed)


def test_a_plugin_whose_version_moved_is_handed_all_nodes_again() -> None:
    bench = Bench()
    bench.find()
    bench.asked.handed.clear()
    bench.asked.now = 1
    bench.asked.refuse = {"n0": unschedulable("no")}
    assert bench.find() == "n1"
    assert bench.asked.of("PreFilter") == [("n0", "n1", "n2", "n3")]
    assert sorted(bench.asked.of("Filter")) == [("n0",), ("n1",), ("n2",), ("n3",)]
    assert bench.asked.of("Normalize") == [("n1", "n2", "n3")]
    assert {id(pod) for _, _, pod, _ in bench.asked.handed} == {id(bench.pod)}


def test_a_custom_normalisation_of_a_sample_is_handed_the_sample() -> None:
    bench = Bench()
    sampler = Sampler(bench.handle.cache)
    shape = bench.shape()
    rows = sampler.sample(shape.evaluation.feasible_rows(), 2)
    assert [bench.name(row) for row in rows.tolist()] == ["n0", "n1"]
    bench.profile.shapes.pre_score(shape, bench.pod)
    bench.profile.shapes.score(shape, bench.pod)
    assert sampler.totals(shape, bench.pod, rows).tolist() == [100, 99]
    assert bench.asked.of("Normalize")[-1] == ("n0", "n1")
    assert [bench.name(row) for row in sampler.sample(shape.evaluation.feasible_rows(), 2).tolist()] == ["n2", "n0"], (
        "it goes on where it ended"
    )


@pytest.mark.parametrize("length", [1, LONG_LIST, LONG_LIST + 1])
def test_a_list_of_tolerations_means_the_same_however_long_it_is_but_only_short_ones_are_kept(length: int) -> None:
    handle = PluginBench(node("n1").taint("k", "NoSchedule", "v"), node("n2").taint("other", "NoSchedule"), node("n3"))
    tolerances = tolerances_of(handle.columns)
    tolerant = pod("p").tolerates("k", "v", operator="Equal")
    for number in range(length - 1):
        tolerant = tolerant.tolerates(f"none-{number}", operator="Exists")
    listed = tolerant.build().spec.tolerations
    assert len(listed) == length
    compiled = tolerances.compile(listed)
    assert (tolerances.compile(listed) is compiled) is (length <= LONG_LIST)
    rows = handle.cache.nodes().rows
    sets = handle.cache.table.attribute_of
    ids = [sets(handle.columns.taint_set_attribute, row) for row in rows.tolist()]
    assert len(set(ids)) == 3


class OneOff(Fake, FilterPlugin):
    """Gives each pod a shape of its own."""

    reads = FakeScore("S").reads

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.key

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None


def test_columns_of_shapes_that_had_to_go_are_used_again() -> None:
    handle, plugin = PluginBench(node("n1")), OneOff("O")
    profile = Profile(profile_config(filter=[plugin]), registry_of(plugin), handle)
    seen = []
    for number in range(4 * USED_ONCE):
        info = pod(f"p{number}").info()
        info.shape = profile.shapes.key(info)
        seen.append((info, profile.shapes.pre_filter(info).evaluation))
    assert len({id(evaluation) for _, evaluation in seen}) <= USED_ONCE + 1


def test_joining_with_nothing_makes_nothing_new() -> None:
    some = RowRefusals.of({1: unschedulable("full")})
    assert NO_REFUSALS.joined(some) is some.joined(NO_REFUSALS) is some
    assert NO_REFUSALS.joined(NO_REFUSALS) is NO_REFUSALS


@pytest.mark.parametrize(("operator", "tolerated"), [("Equal", True), ("", True), ("Exists", True), ("Gt", False), ("exists", False)])
def test_an_operator_that_is_none_tolerates_nothing(operator: str, tolerated: bool) -> None:
    taint = Taint(key="k", value="v", effect="NoSchedule")
    toleration = Toleration(key="k", value="v", operator=operator)
    assert (first_untolerated((taint,), (toleration,)) is None) is tolerated
    world = World()
    world.cache.set_node(node("n1").cpu("4").taint("k", "NoSchedule", "v").build())
    assert (world.find(pod("p").tolerates("k", "v", operator=operator).info()) == "n1") is tolerated
