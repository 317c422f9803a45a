"""Other pods on a node, simulated: what the filters are asked with, and what their refusals and failures become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.builders import node, pod
from support.fakes import Fake, FakePreFilter

from koordsched._core.change import NodeChange
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.framework.evaluation_plan import EvaluationPlan, Evaluators
from koordsched.framework.interface import FilterNodesPlugin
from koordsched.framework.shapes import Shapes
from koordsched.framework.simulation import NodeSimulation
from koordsched.framework.status import SKIP, Code, PluginError, Status, error, unresolvable, unschedulable


class Crowded(Fake, FilterNodesPlugin):
    """Refuses nodes on which as many pods run as it allows."""

    allowed = 1
    reads = NodeChange.ALL

    def filter_nodes(self, state: Any, pod: PodInfo, nodes: Any) -> Any:
        self.asked.append(pod.key)
        return np.array([len(nodes.info(row).pods) >= self.allowed for row in nodes.rows.tolist()], np.int32)

    def explain(self, state: Any, pod: PodInfo, code: int) -> Status:
        return unschedulable(f"{pod.key} finds it crowded, code {code}")


class Prepared(FakePreFilter, Crowded):
    """Answers PreFilter anew in each simulation."""

    def version(self, pod: PodInfo) -> Any:
        return self.now

    def pre_filter(self, state: Any, pod: PodInfo, nodes: Any) -> Any:
        self.there = {nodes.info(row).name: sorted(nodes.info(row).pods) for row in nodes.rows.tolist()}
        return super().pre_filter(state, pod, nodes)


class PreparedOnce(FakePreFilter, Crowded):
    """Reads in Filter what its PreFilter wrote."""

    read: Any = None

    def pre_filter(self, state: Any, pod: PodInfo, nodes: Any) -> Any:
        state.write(self.name, "prepared")
        return super().pre_filter(state, pod, nodes)

    def filter_nodes(self, state: Any, pod: PodInfo, nodes: Any) -> Any:
        self.read = state.read(self.name)
        return super().filter_nodes(state, pod, nodes)


class World:
    def __init__(self, plugin: Crowded, *pre_filters: Any) -> None:
        self.cache = Cache()
        self.cache.set_node(node("n1").cpu("4").build())
        self.info = pod("p").info()
        self.shapes = Shapes(EvaluationPlan(Evaluators(filter=[plugin], pre_filter=[*pre_filters])), self.cache, 1 << 20)
        self.info.shape = self.shapes.key(self.info)

    def simulation(self) -> NodeSimulation:
        return self.shapes.simulation(self.shapes.pre_filter(self.info))

    def refusal(self, **changes: Any) -> Status | None:
        return self.simulation().simulate_on_node(self.info, self.cache.nodes_by_name["n1"], **changes)


def test_pods_more_and_less_are_seen_by_the_filters_and_gone_afterwards() -> None:
    plugin = Crowded("C")
    world = World(plugin)
    other = pod("other").uid("u9").info()
    assert world.refusal() is None
    assert world.refusal(add=[other]) == Status(Code.UNSCHEDULABLE, ("default/p finds it crowded, code 1",), "C")
    assert set(plugin.asked) == {"default/p"}
    world.cache.set_pod(other, "n1")
    assert world.refusal() is not None
    assert world.refusal(remove=[other]) is None
    assert list(world.cache.nodes_by_name["n1"].pods) == ["u9"]


def test_a_pre_filter_that_is_repeated_sees_the_nodes_as_they_are_simulated() -> None:
    plugin = Prepared("C")
    world = World(plugin, plugin)
    world.cache.set_node(node("n2").build())
    simulation, other = world.simulation(), pod("other").uid("u9").info()
    assert plugin.there == {"n1": [], "n2": []}
    simulation.simulate_on_node(world.info, world.cache.nodes_by_name["n1"], add=[other])
    assert plugin.there == {"n1": ["u9"], "n2": []}


def test_a_pre_filter_that_refuses_inside_a_simulation_refuses() -> None:
    plugin = Prepared("C")
    world = World(plugin, plugin)
    assert world.refusal() is None
    plugin.answer = unschedulable("no quota")
    assert world.refusal() == Status(Code.UNSCHEDULABLE, ("no quota",), "C")


def test_a_pre_filter_that_skips_inside_a_simulation_turns_its_filter_off() -> None:
    plugin = Prepared("C")
    world = World(plugin, plugin)
    other = pod("other").uid("u9").info()
    assert world.refusal(add=[other]) is not None
    plugin.answer = SKIP
    assert world.refusal(add=[other]) is None


def test_filters_after_a_pre_filter_that_refused_and_does_not_inside_the_simulation_are_prepared() -> None:
    quota, plugin = Prepared("Q"), PreparedOnce("C")
    quota.answer = unresolvable("no quota")
    world = World(plugin, quota, plugin)
    simulation = world.simulation()
    assert simulation.filter_node(world.info, world.cache.nodes_by_name["n1"]) == Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("no quota",), "Q"
    )
    assert plugin.read is None
    quota.answer = None
    assert simulation.simulate_on_node(world.info, world.cache.nodes_by_name["n1"]) is None
    assert plugin.read == "prepared"


def test_a_pre_filter_that_fails_inside_a_simulation_is_named() -> None:
    plugin = Prepared("C")
    world = World(plugin, plugin)
    simulation = world.simulation()
    plugin.answer = error("no answer")
    with pytest.raises(PluginError) as caught:
        simulation.simulate_on_node(world.info, world.cache.nodes_by_name["n1"])
    assert caught.value.status == Status(Code.ERROR, ('running PreFilter plugin "C": no answer',), "C")
    assert caught.value.point == "PreFilter"
