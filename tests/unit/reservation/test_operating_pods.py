"""Pods in operating mode: what the cache counts of them, and what is compared with the cluster (reservation.md §16)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.builders import PodBuilder, node, pod
from support.reservations import ReservationWorld, available, linked

from koordsched.api.core import Pod, PodCondition, PodStatus
from koordsched.api.kinds import POD
from koordsched.api.koordinator.operating_pods import (
    CURRENT_OWNER,
    OPERATING_MODE,
    RESERVATION_MODE,
    RESERVATION_OWNERS,
    has_current_owner,
    lends_otherwise,
    operating_reservation,
    problem_of_operating,
)
from koordsched.api.podinfo import PodInfo
from koordsched.plugins.reservation.check import ReservationCheck

OWNERS = '[{"labelSelector": {"matchLabels": {"app": "x"}}}]'
READY = PodStatus(phase="Running", conditions=(PodCondition("Ready", "True"),))


def operating(cpu: str = "6", **annotations: str) -> Pod:
    made = pod("op").uid("op").cpu(cpu).label(OPERATING_MODE, RESERVATION_MODE).annotation(RESERVATION_OWNERS, OWNERS).on("n1")
    for key, text in annotations.items():
        made = made.annotation({"current": CURRENT_OWNER, "owners": RESERVATION_OWNERS}[key], text)
    return replace(made.build(), status=READY)


class Bench(ReservationWorld):
    """One node of ten CPUs with the pod, counted as handlers of pods do it: the plugin's first, then the scheduler's."""

    def __init__(self, there: Pod) -> None:
        super().__init__()
        self.cache.set_node(node("n1").cpu("10").pods(9).build())
        self.check = ReservationCheck(self.cache, self.reservations, {})
        self.see(there)

    def see(self, there: Pod) -> None:
        self.reservations.put_pod(there)
        self.cache.set_pod(PodInfo(there, counted_on_node=True), "n1")

    @property
    def used(self) -> int:
        return self.cache.nodes_by_name["n1"].requested("cpu")

    @property
    def wrong(self) -> list[str]:
        return [difference.column for difference in self.check.differences("n1")]


def owner(name: str, cpu: str = "4") -> PodBuilder:
    return pod(name).uid(name).cpu(cpu).label("app", "x")


def test_what_its_owner_takes_is_counted_once_and_comes_back() -> None:
    bench = Bench(operating())
    assert bench.used == 6000
    mine = owner("mine").info()
    assert bench.give(mine) == ("n1", "op")
    assert bench.used == 6000, "2 are left of the operating pod, 4 are the owner's"
    assert bench.cache.pods["op"].info.resources.requests == {"cpu": 2000}
    bench.see(replace(operating(), metadata=replace(operating().metadata, resource_version="2")))
    assert bench.used == 6000, "the pod is seen again, and counted as before"
    assert bench.wrong == []
    bench.take_back(mine)
    assert bench.used == 6000
    assert bench.cache.pods["op"].info.resources.requests == {"cpu": 6000}
    assert bench.wrong == []


def test_it_is_counted_whole_once_it_is_in_operating_mode_no_more() -> None:
    bench = Bench(operating())
    bench.give(owner("mine").info())
    plain = replace(operating(), metadata=replace(operating().metadata, labels={}))
    bench.reservations.remove("op")
    bench.cache.set_pod(PodInfo(plain, counted_on_node=True), "n1")
    assert bench.used == 10_000
    assert bench.reservations.reservation_of("mine") is None
    assert bench.wrong == []


def test_it_may_be_resized() -> None:
    bench = Bench(operating())
    bench.give(owner("mine").info())
    bench.see(operating("8"))
    assert bench.used == 8000
    assert bench.cache.pods["op"].info.resources.requests == {"cpu": 4000}


def test_links_are_found_again_in_any_order() -> None:
    first = Bench(operating())
    bound = linked(owner("mine"), operating_reservation(operating()), "n1")
    first.cache.set_pod(bound, "n1")
    later = ReservationWorld()
    later.cache.set_node(node("n1").cpu("10").pods(9).build())
    later.cache.set_pod(bound, "n1")
    later.reservations.put_pod(operating())
    later.cache.set_pod(PodInfo(operating(), counted_on_node=True), "n1")
    for world in (first, later):
        assert world.cache.nodes_by_name["n1"].requested("cpu") == 6000
        assert [info.name for info in world.reservations.on_node("n1")] == ["op"]
        assert world.reservations.reservation_of("mine") is world.reservations.by_uid["op"]


def test_it_takes_one_owner_and_none_beside_a_current_one() -> None:
    bench = Bench(operating(current='{"name": "other", "uid": "u"}'))
    assert bench.give(owner("mine", "1").info()) == ("n1", "")
    bench.see(operating())
    assert bench.give(owner("first", "1").info()) == ("n1", "op")
    assert bench.give(owner("second", "1").info()) == ("n1", "")


def test_a_reservation_of_its_name_is_another_one() -> None:
    bench = Bench(operating("2"))
    bench.reservations.put(available("op", "n1", {"cpu": "3"}, metadata={"uid": "uid-r"}))
    by_name = owner("mine", "1").annotation("scheduling.koordinator.sh/reservation-affinity", '{"name": "op"}').info()
    matcher = bench.reservations.owner_of(by_name)
    assert matcher is not None
    assert sorted(matcher.matcher.matched) == ["op", "uid-r"]
    bench.reservations.remove("op")
    assert sorted(matcher.matcher.matched) == ["uid-r"]
    bench.reservations.remove("uid-r")
    assert not matcher.matcher.matched


def test_a_lost_placeholder_is_noticed_and_made_anew() -> None:
    bench = Bench(operating())
    mine = owner("mine").info()
    bench.give(mine)
    bench.reservations.by_uid["op"].count(mine, -1)
    assert bench.wrong
    bench.check.rebuild("n1")
    assert bench.wrong == []
    assert bench.used == 6000
    assert bench.reservations.reservation_of("mine") is bench.reservations.by_uid["op"]


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '[{"labelSelector": 1}]'])
def test_owners_that_cannot_be_read_are_none_and_named(text: str) -> None:
    annotations = operating(owners=text).metadata.annotations
    assert RESERVATION_OWNERS in problem_of_operating(annotations)
    assert operating_reservation(operating(owners=text)).spec.owners == ()


def test_a_current_owner_that_cannot_be_read_is_none_and_named() -> None:
    annotations = operating(current="{").metadata.annotations
    assert not has_current_owner(annotations)
    assert CURRENT_OWNER in problem_of_operating(annotations)
    assert problem_of_operating(operating(current='{"name": "o"}').metadata.annotations) == ""


def test_only_what_makes_it_another_reservation_moves_its_owners() -> None:
    before = operating()
    assert not lends_otherwise(before, replace(before, metadata=replace(before.metadata, resource_version="9")))
    assert lends_otherwise(replace(before, status=PodStatus(phase="Running")), before)
    assert lends_otherwise(operating(current='{"name": "o"}'), before)


def test_it_is_a_pod_that_may_be_evicted_and_then_lends_nothing() -> None:
    """A pod that must use it does not fit without it; it is there again when the simulation is over."""
    bench = Bench(operating())
    mine = bench.signed(owner("mine").annotation("scheduling.koordinator.sh/reservation-affinity", "{}").info())
    bench.informer(POD).store[mine.key] = mine.pod
    assert bench.find(mine) == "n1"
    there = bench.cache.nodes_by_name["n1"]
    shapes = bench.profile.shapes
    with shapes.view(mine):
        simulation = shapes.simulation(shapes.pre_filter(mine))
    assert simulation.filter_node(mine, there) is None
    filler = pod("filler").uid("filler").cpu("7").info()
    assert simulation.simulate_on_node(mine, there, add=[filler], remove=[bench.cache.pods["op"].info]) is not None
    assert simulation.filter_node(mine, there) is None
    assert bench.used == 6000
