"""What the scheduler counts of reservations, and what it does when they and their owners change."""

from __future__ import annotations

import pytest
from support.builders import node, pod
from support.reservations import ReservationWorld, available, linked

from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, RESERVATION_IGNORED, allocated_text
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.object_store import Arrival
from koordsched.config.koordinator_args import ReservationArgs
from koordsched.plugins.reservation.check import ReservationCheck
from koordsched.plugins.reservation.info import NO_OWNERS, NOTHING
from koordsched.plugins.reservation.objects import ReservationObjects
from koordsched.plugins.reservation.plugin import ReservationPlugin
from koordsched.queue.events import QueueingHint

ONE = {"cpu": "1"}


def a_world(*names: str) -> ReservationWorld:
    world = ReservationWorld()
    for name in names or ("n",):
        world.cache.set_node(node(name).cpu("4").build())
    return world


def owner(name: str = "owner", app: str = "x", affinity: str = "") -> PodInfo:
    builder = pod(name).uid(f"uid-{name}").cpu("500m").label("app", app)
    return (builder.annotation(RESERVATION_AFFINITY, affinity) if affinity else builder).info()


def test_who_watches_owners_hears_that_one_was_given_a_reservation_and_that_it_was_bound() -> None:
    world = a_world()
    reservation = available("r", "n", ONE)
    world.reservations.put(reservation)
    heard: list[list[str]] = []
    world.reservations.changed.append(
        lambda uid: heard.append([each.pod.spec.node_name for each in world.reservations.by_uid[uid].owners.values()])
    )
    assert world.give(owner()) == ("n", "r")
    world.cache.set_pod(linked(pod("owner").uid("uid-owner").cpu("500m").label("app", "x"), reservation, "n"), "n")
    assert heard == [[""], ["n"]]


def test_a_pod_that_kept_the_annotation_of_an_attempt_that_ended_is_given_a_reservation_for_one_owner_like_any_other() -> None:
    """A process that was killed between PreBind and Bind leaves such a pod."""
    world = a_world()
    reservation = available("r", "n", ONE, allocateOnce=True)
    world.reservations.put(reservation)
    left = owner(affinity="{}")
    left.pod.metadata.annotations[RESERVATION_ALLOCATED] = allocated_text("r", "uid-r")
    assert world.give(left) == ("n", "r")


@pytest.mark.parametrize("order", [("uid-r", "uid-owner"), ("uid-owner", "uid-r")])
def test_a_simulation_may_remove_a_reservation_and_its_owner_in_any_order(order: tuple[str, str]) -> None:
    """A reservation gets back what its owner leaves, and its own pod goes before or after that: the node is empty, then as it was."""
    world = a_world()
    world.reservations.put(available("r", "n", {"cpu": "2"}))
    taken, there = owner(), world.cache.nodes_by_name["n"]
    world.cache.assume_pod(taken, "n")
    assert world.reservations.draw(taken, "uid-r") is None
    before, pods = there.requested("cpu"), dict(there.counted)
    with world.cache.simulate(there, remove=[there.counted[uid] for uid in order]):
        assert (there.requested("cpu"), there.requested("pods"), there.counted) == (0, 0, {})
    assert (there.requested("cpu"), there.counted) == (before, pods)
    assert world.cache.pods["uid-r"].info is pods["uid-r"]


def test_what_kernels_read_after_owners_came_and_went_is_what_is_written_anew() -> None:
    """Each owner takes its part of the columns and gives it back: up to more than there is, with an amount inside, and limited owners."""
    inner = {"node.koordinator.sh/reservation": '{"resources":{"cpu":"500m"}}'}
    for policy in ("Restricted", "Aligned"):
        world = a_world()
        amounts = {"cpu": "2", "memory": "1Gi", "pods": "4"}
        world.reservations.put(available("r", "n", amounts, allocatePolicy=policy, metadata={"annotations": inner}))
        info, table = world.reservations.by_uid["uid-r"], world.reservations.table
        taken = [owner(f"o{number}") for number in range(5)]
        for step in ([*taken], taken[1:3], taken[3:]):
            for each in step:
                if each.uid in info.owners:
                    world.reservations.end_draw(each.uid)
                    world.cache.remove_pod(each.uid)
                else:
                    world.cache.assume_pod(each, "n")
                    assert world.reservations.draw(each, "uid-r") is None
                request = world.columns.request(each.resources)
                kept = table.fits(info.slot, request, 0, counted=False), table.score(info.slot, request)
                world.reservations._write(info)
                assert kept == (table.fits(info.slot, request, 0, counted=False), table.score(info.slot, request))
                assert world.cache.pods["uid-r"].info.resources is info.left().resources
                assert info.overdrawn == (len(info.owners) > 4)


def test_an_owner_of_one_reservation_is_no_owner_of_those_that_have_none() -> None:
    """Reservations without owners share what stands for none, which stays empty."""
    world = a_world()
    for name in ("r", "other"):
        world.reservations.put(available(name, "n", ONE, owner=name))
    first, other = (world.reservations.by_uid[f"uid-{name}"] for name in ("r", "other"))
    mine = owner(app="r", affinity="{}")
    assert world.give(mine) == ("n", "r")
    assert (list(first.owners), dict(first.allocated)) == (["uid-owner"], {"cpu": 500})
    assert (other.owners, other.allocated, other.left().resources.requests["cpu"]) == ({}, {}, 1000)
    world.reservations.end_draw(mine.uid)
    assert (first.owners, first.allocated) == ({}, {})
    assert (NO_OWNERS, NOTHING) == ({}, {})
    with pytest.raises(KeyError):
        other.drop_owner(mine.uid)


def test_owners_that_several_reservations_have_match_each_for_as_long_as_it_is_there() -> None:
    world = a_world("a", "b", "c")
    mine = owner(affinity="{}")

    def matched() -> list[str]:
        found = world.reservations.owner_of(mine)
        return [] if found is None else sorted(info.name for info in found.matcher.matched.values())

    for count, name in enumerate(("a", "b", "c"), 1):
        world.reservations.put(available(name, name, ONE))
        assert matched() == ["a", "b", "c"][:count]
    world.reservations.put(available("b", "b", ONE, owner="y"))  # it is for others now
    assert matched() == ["a", "c"]
    for name, left in (("a", ["c"]), ("c", [])):
        world.reservations.remove(f"uid-{name}")
        assert matched() == left
        assert list(world.reservations.on_node(name)) == []
    world.reservations.put(available("a", "a", ONE))
    assert matched() == ["a"]


def test_what_is_kept_from_owners_of_one_reservation_is_not_kept_from_those_of_others_that_came_before_or_after() -> None:
    """More than there was room for at first, and a resource that a node offers only later."""
    world = a_world()
    inner = {"annotations": {"node.koordinator.sh/reservation": '{"resources":{"cpu":"700m"}}'}}
    names = [f"r{number}" for number in range(70)] + ["inner"] + [f"s{number}" for number in range(70)]
    for name in names:
        world.reservations.put(available(name, "n", ONE, metadata=inner if name == "inner" else {}))
    world.cache.set_node(node("gpus").cpu("4").allocatable("nvidia.com/gpu", "1").build())
    world.reservations.put(available("gpu", "gpus", {"nvidia.com/gpu": "1"}))
    table, request = world.reservations.table, world.columns.request(owner().resources)
    limited = [name for name in names if table.fits(world.reservations.by_uid[f"uid-{name}"].slot, request, 0, counted=False)[1]]
    assert limited == ["inner"]
    world.reservations.remove("uid-inner")
    world.reservations.put(available("again", "n", ONE))  # in the slot that has become free
    assert not table.fits(world.reservations.by_uid["uid-again"].slot, request, 0, counted=False)[1]


def test_a_reservation_whose_amounts_cannot_be_read_is_reported_once_and_no_difference() -> None:
    world = a_world()
    stored: dict[str, Reservation] = {}
    objects = ReservationObjects(world, ReservationArgs())
    check = ReservationCheck(world.cache, world.reservations, stored)

    def see(cpu: str, version: str) -> None:
        made = available("r", "n", {"cpu": cpu}, metadata={"resourceVersion": version})
        before, stored["r"] = stored.get("r"), made
        objects.on_update(before, made) if before is not None else objects.on_add(made, Arrival.LATER)

    see("1", "1")
    assert list(check.differences("n")) == []
    world.said.clear()
    for version in ("2", "3"):
        see("many", version)
        assert (list(check.differences("n")), world.cache.is_assumed("uid-r"), "uid-r" in world.cache.pods) == ([], False, False)
        check.rebuild("n")
    assert [text.partition(":")[0] for text in world.said] == ["malformed Reservation", "InvalidReservation r"]
    assert "many" in world.said[-1]
    see("2", "4")
    assert list(check.differences("n")) == []
    assert world.reservations.by_uid["uid-r"].allocatable == {"cpu": 2000}
    stored["r"] = available("r", "n", {"cpu": "many"}, metadata={"resourceVersion": "5"})  # a change that was lost is found
    assert [difference.column for difference in check.differences("n")] == ["version of reservation r"]


@pytest.mark.parametrize("inner", ['{"resources":{"cpu":"-2"}}', '{"resources":{"cpu":"500m","memory":"-1"}}'])
def test_a_part_that_is_kept_from_owners_cannot_be_less_than_nothing(inner: str) -> None:
    """It is ignored, as one that cannot be read (reservation.md §18): owners must not get more than is reserved."""
    world = a_world()
    metadata = {"annotations": {"node.koordinator.sh/reservation": inner}}
    world.reservations.put(available("r", "n", ONE, metadata=metadata))
    large = pod("large").uid("uid-large").cpu("2").label("app", "x").annotation(RESERVATION_AFFINITY, "{}").info()
    with pytest.raises(LookupError, match=r"Reservation\(s\) Insufficient cpu"):
        world.give(large)
    fits = pod("fits").uid("uid-fits").cpu("1").label("app", "x").annotation(RESERVATION_AFFINITY, "{}").info()
    assert world.give(fits) == ("n", "r")


def answers_of_the_hint(world: ReservationWorld, info: PodInfo, old: Reservation | None, new: Reservation | None) -> QueueingHint:
    plugin = next(plugin for plugin in world.profile.post_filter if isinstance(plugin, ReservationPlugin))
    (hint,) = [registered.hint for registered in plugin.events_to_register() if registered.selective]
    assert hint is not None
    return hint(info, old, new)


def test_a_change_of_a_reservation_retries_its_owners_and_an_end_all_pods() -> None:
    world = ReservationWorld()
    world.cache.set_node(node("n1").cpu("4").build())
    own, other = available("own", "n1", {"cpu": "1"}, "web"), available("other", "n1", {"cpu": "1"}, "db")
    for reservation in (own, other):
        world.reservations.put(reservation)
    web, stranger = pod("a").label("app", "web").info(), pod("b").info()
    ignoring = pod("c").label(RESERVATION_IGNORED, "true").info()
    queue, skip = QueueingHint.QUEUE, QueueingHint.SKIP
    assert [answers_of_the_hint(world, info, own, own) for info in (web, stranger, ignoring)] == [queue, skip, queue]
    assert [answers_of_the_hint(world, info, None, other) for info in (web, stranger, ignoring)] == [skip, skip, queue]
    assert answers_of_the_hint(world, web, other, None) is queue
    reserve_pod = PodInfo.of_reservation(other)
    assert answers_of_the_hint(world, reserve_pod, own, own) is queue
