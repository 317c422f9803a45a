"""Capacity that belongs to an owner: who sees it, when it is looked at again, and that a view leaves nothing behind."""

from __future__ import annotations

import pytest
from support.builders import node, pod
from support.counted import cache_of
from support.owners import CONFIG, WITH_OWNERS
from support.world import Setup, World

from koordsched.api.meta import LabelSelector
from koordsched.api.podinfo import PodInfo
from koordsched.api.selectors import label_selector_matcher
from koordsched.cache.nodes import Nodes
from koordsched.cache.pod_counts import PodQuery, pod_counts
from koordsched.config import Environment
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import PreFilterPlugin
from koordsched.framework.status import Status, unschedulable
from koordsched.queue.profile import FEASIBLE, INFEASIBLE


@pytest.fixture
def world() -> World:
    """Return a world whose only node is full of a placeholder of x: all CPUs and port 80."""
    made = World(WITH_OWNERS)
    made.cache.set_node(node("n1").cpu("4").memory("8Gi").build())
    made.cache.set_pod(pod("held").uid("held").cpu("4").host_port(80).on("n1").info(counted_on_node=True), "n1")
    made.cache.credits.grant("x", "held")
    return made


def asking(world: World, owner: str, cpu: str = "2") -> PodInfo:
    builder = pod(f"of-{owner}").cpu(cpu).host_port(80)
    return world.signed((builder.label("owner", owner) if owner else builder).info())


def test_the_owner_alone_fits(world: World) -> None:
    assert world.find(asking(world, "x")) == "n1"
    for owner in ("y", ""):
        found = world.find(asking(world, owner))
        assert isinstance(found, Diagnosis)
        assert found.message.startswith("0/1 nodes are available: 1 node(s) didn't have free ports")


def test_probes_and_simulations_see_what_the_owner_sees(world: World) -> None:
    mine, other = asking(world, "x"), asking(world, "")
    assert world.profile.probe(mine)[0] is FEASIBLE
    assert world.profile.probe(other)[0] is INFEASIBLE
    target = world.cache.nodes_by_name["n1"]
    shapes = world.profile.shapes
    with shapes.view(mine):
        simulation = shapes.simulation(shapes.pre_filter(mine))
    assert simulation.filter_node(mine, target) is None
    assert simulation.simulate_on_node(mine, target, add=[pod("more").uid("more").cpu("3").info()]) is not None
    assert simulation.fit_filter(mine) is None


def test_what_the_placeholder_holds_may_change(world: World) -> None:
    mine = asking(world, "x", cpu="3")
    assert world.find(mine) == "n1"
    world.cache.set_pod(pod("held").uid("held").cpu("1").on("n1").info(counted_on_node=True), "n1")
    world.cache.set_pod(pod("taken").uid("taken").cpu("3").on("n1").info(counted_on_node=True), "n1")
    assert isinstance(world.find(mine), Diagnosis)
    assert world.find(asking(world, "x", cpu="1")) == "n1"


def test_a_credit_may_be_granted_before_its_placeholder_is_counted_and_revoked(world: World) -> None:
    late = asking(world, "y")
    world.cache.credits.grant("y", "held")
    assert world.find(late) == "n1"
    world.cache.credits.revoke("y", "held")
    world.cache.credits.revoke("y", "held")
    assert isinstance(world.find(late), Diagnosis)
    world.cache.credits.grant("y", "later")
    assert isinstance(world.find(late), Diagnosis)
    assert len(world.cache.credits) == 2


def test_placeholders_that_an_owner_loses_one_after_the_other_are_no_longer_hidden(world: World) -> None:
    for name in ("more", "again"):
        world.cache.set_pod(pod(name).uid(name).on("n1").info(counted_on_node=True), "n1")
        world.cache.credits.grant("x", name)
    info = world.cache.nodes_by_name["n1"]
    seen = []
    for lost in ("more", "held", ""):
        with world.cache.view("x"):
            seen.append(sorted(info.pods))
        world.cache.credits.revoke("x", lost)
    assert seen == [[], ["more"], ["held", "more"]]


def test_a_view_leaves_columns_ports_and_log_as_they_were(world: World) -> None:
    table, ports = world.cache.table, world.columns.host_ports
    before = {name: column.tolist() for name, column in table.columns().items()}
    end, lists = table.log_end, len(ports)
    with world.cache.view("x"), world.cache.view("x"):
        assert world.cache.nodes_by_name["n1"].pods == {}
        assert not world.cache.shows_all
    assert {name: column.tolist() for name, column in table.columns().items()} == before
    assert (table.log_end, len(ports)) == (end, lists)
    assert world.cache.shows_all


def test_later_pods_of_an_owner_ask_about_the_rows_that_changed_since(world: World) -> None:
    for number in range(2, 6):
        world.cache.set_node(node(f"n{number}").cpu("4").memory("8Gi").build())
    mine = asking(world, "x", cpu="1")
    world.find(mine)
    shape = world.profile.shapes._kept.peek(mine.shape)  # type: ignore[arg-type]
    assert shape is not None
    fit = [plugin.name for plugin in shape.filters].index("NodeResourcesFit")
    asked = shape.evaluated[fit].count
    world.find(mine)
    assert shape.evaluated[fit].count == asked, "nothing has changed"
    for name in ("n1", "n2"):
        world.cache.set_pod(pod(f"on-{name}").uid(f"on-{name}").cpu("1").on(name).info(counted_on_node=True), name)
    world.find(mine)
    assert shape.evaluated[fit].count == asked + 2


def test_what_is_counted_for_the_first_time_within_a_view_leaves_out_what_is_hidden(world: World) -> None:
    counts, query = pod_counts(world.cache), PodQuery(None, label_selector_matcher(LabelSelector(match_labels={"app": "a"})))
    for name in ("one", "two"):
        world.cache.set_pod(pod(name).uid(name).label("app", "a").on("n1").info(counted_on_node=True), "n1")
    world.cache.credits.grant("x", "one")
    held = counts.count(PodQuery(None, label_selector_matcher(LabelSelector(match_labels={"app": "b"}))))
    row = world.cache.nodes_by_name["n1"].row
    with world.cache.view("x"):
        begun = counts.count(query)
        assert begun.of(row) == 1
    assert begun.of(row) == 2
    with world.cache.view("x"):
        assert (begun.of(row), held.of(row)) == (1, 0)
    assert (begun.of(row), held.of(row)) == (2, 0)
    assert list(counts.differences("n1")) == []


def test_a_node_that_becomes_known_is_seen_without_its_placeholder(world: World) -> None:
    world.cache.set_pod(pod("early").uid("early").cpu("4").on("late").info(counted_on_node=True), "late")
    world.cache.credits.grant("y", "early")
    mine = asking(world, "y", cpu="3")
    assert isinstance(world.find(mine), Diagnosis)
    world.cache.set_node(node("late").cpu("4").memory("8Gi").build())
    assert world.find(mine) == "late"
    world.cache.remove_pod("early")
    world.cache.set_pod(pod("early").uid("early").cpu("4").on("n1").info(counted_on_node=True), "n1")
    assert world.find(mine) == "late"


def test_two_owners_views_are_never_mixed(world: World) -> None:
    world.cache.credits.grant("y", "other")
    with world.cache.view("x"), pytest.raises(ValueError, match="the view of 'y' was asked for within that of 'x'"), world.cache.view("y"):
        raise AssertionError("two views at once")


def test_a_simulated_pod_leaves_no_list_of_ports_behind() -> None:
    cache = cache_of("n1")
    with cache.simulate(cache.nodes_by_name["n1"], add=[pod("new").uid("new").host_port(443).info()]):
        assert len(cache.columns.host_ports) == 1
    assert len(cache.columns.host_ports) == 0


def test_a_change_of_credits_concerns_its_owner_alone(world: World) -> None:
    stranger, mine = asking(world, ""), asking(world, "x")
    shapes = world.profile.shapes
    world.find(stranger)
    world.find(mine)
    theirs = shapes._kept.peek(stranger.shape)  # type: ignore[arg-type]
    assert theirs is not None
    world.cache.credits.grant("x", "other")
    assert world.find(mine) == "n1"
    assert theirs.evaluation.is_current()
    assert theirs.prepared


class NodesAreUsed(PreFilterPlugin):
    """Refuses every pod while pods are on all nodes. Without a version: nothing but the credits changes in its test."""

    name = "NodesAreUsed"
    signs = ("pod.metadata.namespace",)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None if any(not nodes.info(row).pods for row in nodes.rows.tolist()) else unschedulable("no node without pods")


def test_a_shape_that_pre_filter_let_pass_is_asked_again_after_a_change_of_credits() -> None:
    config = CONFIG.replace("{name: Owners}", "{name: Owners}, {name: NodesAreUsed}")
    catalogue = WITH_OWNERS.environment.catalogue.with_plugin("NodesAreUsed", frozenset({"preFilter"}))
    registry = {**WITH_OWNERS.registry, "NodesAreUsed": lambda _args, _handle: NodesAreUsed()}
    world = World(Setup(config, Environment(catalogue=catalogue), registry))
    world.cache.set_node(node("n1").cpu("4").build())
    world.cache.set_pod(pod("held").uid("held").on("n1").info(counted_on_node=True), "n1")
    world.cache.credits.grant("x", "held")
    mine, shapes = asking(world, "x"), world.profile.shapes
    assert world.find(mine) == "n1"
    assert shapes.pre_filter_refusal(mine) is None
    world.cache.credits.revoke("x", "held")
    refusal = shapes.pre_filter_refusal(mine)
    assert refusal is not None
    assert refusal.message == "no node without pods"
    assert isinstance(world.find(mine), Diagnosis)


def test_what_others_find_free_when_a_pod_ends_is_what_does_not_go_back(world: World) -> None:
    """Preemption counts a victim with that (reservation.md §11)."""
    owned, seen = world.cache.credits, list[tuple[str, str]]()
    owned.call_when_drawn(lambda uid, placeholder: seen.append((uid, placeholder)))
    drawing = pod("drawing").uid("d").cpu("1").memory("1Gi").on("n1").info(counted_on_node=True)
    assert owned.freed_by(drawing) is drawing.resources
    owned.draw("d", "held")
    assert owned.freed_by(drawing).requests == {}
    owned.draw("d", "held", frozenset(["cpu"]))
    assert owned.freed_by(drawing).requests == {"memory": 1 << 30}
    owned.draw("d", "held", frozenset(["cpu"]))
    assert seen == [("d", "held")] * 2, "nothing changed the third time"
    assert list(owned.drawn_on()) == ["held"]
    owned.set_overdrawn("held", overdrawn=True)
    assert owned.freed_by(drawing) is drawing.resources, "at most all of it"
    assert seen == [("d", "held")] * 3
    owned.set_overdrawn("held", overdrawn=True)
    owned.set_overdrawn("held", overdrawn=False)
    assert owned.freed_by(drawing).requests == {"memory": 1 << 30}
    assert seen == [("d", "held")] * 4
    owned.end_draw("d")
    assert owned.freed_by(drawing) is drawing.resources
    assert not owned.drawn_on()
