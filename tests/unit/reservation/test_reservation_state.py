"""What the scheduler counts of reservations, and what it does when they and their owners change."""

from __future__ import annotations

from support.builders import node, pod
from support.reservations import ReservationWorld, available, linked

from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_text
from koordsched.api.podinfo import PodInfo

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
