"""Victims on any nodes, for a pod that the limit of its group keeps out (elasticquota.md §10, DEV-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from support.builders import node, pod
from support.world import World

from koordsched.api.podinfo import PodInfo
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.preemption.engine import PreemptionEngine
from koordsched.framework.preemption.estimate import Preemptor
from koordsched.framework.preemption.limit import LimitRoom
from koordsched.framework.preemption.rules import PreemptionRules, VictimRule
from koordsched.framework.status import Status, unschedulable


class Limited(VictimRule):
    """All pods are one group, which has to release so many milli-CPUs."""

    key = "limited"

    def __init__(self, world: World, milli: int) -> None:
        self._world = world
        self._milli = milli

    def members(self, preemptor: PodInfo) -> Iterable[str]:
        return list(self._world.cache.pods)

    def to_release(self, preemptors: Sequence[PodInfo]) -> Mapping[str, int]:
        return {"cpu": self._milli}


@pytest.fixture
def world() -> World:
    """Three nodes: two with a pod of two of their two cores each, one that is empty."""
    world = World()
    for name, cpu in (("n1", "2"), ("n2", "2"), ("n3", "4")):
        world.cache.set_node(node(name).cpu(cpu).build())
    for name, on, priority in (("a", "n1", 1), ("b", "n2", 2)):
        world.cache.set_pod(pod(name).cpu("2").priority(priority).on(on).info(counted_on_node=True), on)
    return world


def room(world: World, milli: int, made: PodInfo) -> LimitRoom | Status:
    engine = PreemptionEngine(world, PreemptionRules(plugin="Test", victims=Limited(world, milli)))
    diagnosis = Diagnosis.of_pre_filter(3, frozenset({"Test"}), unschedulable("over its limit"))
    diagnosis.simulate = lambda: world.profile.shapes.simulation_for(made)
    assert diagnosis.simulation is not None
    found = engine._choose(Preemptor(made, diagnosis, diagnosis.simulation), 100)
    assert isinstance(found, LimitRoom | Status)
    return found


def high(world: World, cpu: str) -> PodInfo:
    return world.signed(pod("high").cpu(cpu).priority(9).info())


def names(found: LimitRoom | Status) -> tuple[str, dict[str, list[str]]]:
    assert isinstance(found, LimitRoom), found
    return found.node, {on: [victim.pod.metadata.name for victim in victims] for on, victims in found.victims.items()}


def test_victims_are_taken_on_several_nodes_and_the_pod_goes_where_there_is_room(world: World) -> None:
    assert names(room(world, 4000, high(world, "4"))) == ("n3", {"n1": ["a"], "n2": ["b"]})


def test_the_pod_may_go_where_a_victim_leaves(world: World) -> None:
    world.cache.remove_node("n3")
    node_name, victims = names(room(world, 4000, high(world, "2")))
    assert (node_name in {"n1", "n2"}, victims) == (True, {"n1": ["a"], "n2": ["b"]})


def test_no_pod_is_evicted_if_all_together_release_too_little(world: World) -> None:
    found = room(world, 5000, high(world, "4"))
    assert isinstance(found, Status)
    assert "Evicting pods there would not bring the pod's group below its limit" in found.message


def test_no_pod_is_evicted_if_no_node_takes_the_pod(world: World) -> None:
    found = room(world, 4000, high(world, "8"))
    assert isinstance(found, Status)
    assert "Insufficient cpu" in found.message


def test_a_node_is_not_taken_whose_room_is_nominated_for_a_pod_that_comes_first(world: World) -> None:
    world.nominator.set(world.signed(pod("ahead").cpu("2").priority(10).info()), "n3")
    # n3 has room for two more cores; the victims on n1 and n2 leave two each.
    node_name, victims = names(room(world, 4000, high(world, "2")))
    assert (node_name, victims) == ("n3", {"n1": ["a"], "n2": ["b"]})
    world.nominator.set(world.signed(pod("more").cpu("1").priority(10).info()), "n3")
    node_name, _ = names(room(world, 4000, high(world, "2")))
    assert node_name in {"n1", "n2"}
    found = room(world, 4000, high(world, "4"))
    assert isinstance(found, Status)
    assert "3 Insufficient cpu" in found.message


def test_of_the_nominated_pods_those_of_lower_priority_do_not_count(world: World) -> None:
    world.nominator.set(world.signed(pod("behind").cpu("4").priority(8).info()), "n3")
    assert names(room(world, 4000, high(world, "4")))[0] == "n3"
