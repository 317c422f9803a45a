"""Supposing other pods on a node: what the filters are asked with, and what their refusals and failures become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.builders import node, pod
from support.fakes import Fake, FakePreFilter

from koordsched._core.change import Change
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.framework.interface import FilterNodesPlugin
from koordsched.framework.lift import PluginError
from koordsched.framework.plan import Evaluators, Plan
from koordsched.framework.shapes import Shapes
from koordsched.framework.status import SKIP, Code, Status, error, unschedulable
from koordsched.framework.what_if import Supposition


class Crowded(Fake, FilterNodesPlugin):
    """Refuses nodes on which as many pods run as it allows."""

    allowed = 1
    reads = Change.ALL

    def filter_nodes(self, state: Any, pod: PodInfo, nodes: Any) -> Any:
        self.asked.append(pod.key)
        return np.array([len(nodes.info(row).pods) >= self.allowed for row in nodes.rows.tolist()], np.int32)

    def explain(self, state: Any, pod: PodInfo, code: int) -> Status:
        return unschedulable(f"{pod.key} finds it crowded, code {code}")


class Prepared(FakePreFilter, Crowded):
    """Answers PreFilter anew in each supposed world."""

    def version(self, pod: PodInfo) -> Any:
        return self.now


class World:
    def __init__(self, plugin: Crowded, *pre_filters: Any) -> None:
        self.cache = Cache()
        self.cache.set_node(node("n1").cpu("4").build())
        self.info = pod("p").info()
        self.shapes = Shapes(Plan(Evaluators(filter=[plugin], pre_filter=[*pre_filters])), self.cache, 1 << 20)
        self.info.shape = self.shapes.key(self.info)

    def suppose(self) -> Supposition:
        return self.shapes.suppose(self.shapes.find(self.info))

    def refusal(self, **changes: Any) -> Status | None:
        return self.suppose().refusal(self.info, self.cache.nodes_by_name["n1"], **changes)


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


def test_a_pre_filter_that_refuses_in_the_supposed_world_refuses() -> None:
    plugin = Prepared("C")
    world = World(plugin, plugin)
    assert world.refusal() is None
    plugin.answer = unschedulable("no quota")
    assert world.refusal() == Status(Code.UNSCHEDULABLE, ("no quota",), "C")


def test_a_pre_filter_that_skips_in_the_supposed_world_turns_its_filter_off() -> None:
    plugin = Prepared("C")
    world = World(plugin, plugin)
    other = pod("other").uid("u9").info()
    assert world.refusal(add=[other]) is not None
    plugin.answer = SKIP
    assert world.refusal(add=[other]) is None


def test_a_pre_filter_that_fails_in_the_supposed_world_is_named() -> None:
    plugin = Prepared("C")
    world = World(plugin, plugin)
    supposition = world.suppose()
    plugin.answer = error("no answer")
    with pytest.raises(PluginError) as caught:
        supposition.refusal(world.info, world.cache.nodes_by_name["n1"])
    assert caught.value.status == Status(Code.ERROR, ('running PreFilter plugin "C": no answer',), "C")
    assert caught.value.point == "PreFilter"
