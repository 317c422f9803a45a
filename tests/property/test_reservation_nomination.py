"""Of several reservations of a node a pod is given one that suits it in all respects, and is refused only where none does.

What suits is found by exhaustive search: for each reservation there is a world in which the pod matches this one alone, and the others are
strangers'; and one in which it matches none. (reservation.md §8, §9; deviceshare.md §8; nodenumaresource.md §12)
"""

from __future__ import annotations

from hypothesis import given, settings
from support.reservations import ReservationWorld
from support.reserved_units import GPUS, Case, Reserved, annotations_of, asking, cases, requests, world_of

from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, device_allocations
from koordsched.api.koordinator.reservation_links import RESERVATION_IGNORED
from koordsched.api.podinfo import PodInfo
from koordsched.plugins.deviceshare.state import DeviceState
from koordsched.plugins.nodenumaresource.state import NumaState


def given_in(world: ReservationWorld, info: PodInfo) -> str | None:
    """Return the name of the reservation that the pod is given in this world, "" for none; None: the pod is refused."""
    try:
        return world.give(info)[1]
    except LookupError as refused:
        message = str(refused)
    assert message.startswith("0/1 nodes are available"), f"refused in Reserve: {message}"
    return None


def check(world: ReservationWorld) -> None:
    """No CPU has two holders, no card is given out beyond itself, and the standing check agrees."""
    cpus, devices = world.cache.shared.find(NumaState), world.cache.shared.find(DeviceState)
    assert cpus is not None
    assert devices is not None
    taken, shares = 0, dict.fromkeys(range(GPUS), 0)
    for uid in world.cache.pods:
        held = cpus.held_by(uid)
        if held is not None:
            assert not taken & held.cpus
            taken |= held.cpus
        given_devices = devices.held_by(uid)
        for one in () if given_devices is None else given_devices.allocations.get("gpu", ()):
            shares[one.minor] += one.resources["koordinator.sh/gpu-core"]
    assert all(share <= 100 for share in shares.values()), shares
    for checked in world.cache.checked:
        if checked.name != "Reservation":  # the objects themselves are not watched here
            assert not list(checked.differences("n0"))


@settings(max_examples=60, deadline=None)
@given(cases(), requests)
def test_a_pod_is_placed_where_some_reservation_suits_or_the_node_does_without(case: Case, asked: dict[str, int]) -> None:
    world = world_of(case, set(range(len(case.reserved))))
    before = {uid: held(world, uid) for uid in world.cache.pods}
    found = given_in(world, asking("p", asked).info())
    alone = [given_in(world_of(case, {i}), asking("p", asked).info()) for i in range(len(case.reserved))]
    without = None if "required" in asked else given_in(world_of(case, set()), asking("p", asked).info())
    assert (found is None) == all(each is None for each in [*alone, without])
    if found:
        assert alone[int(found[1:])] == found
    elif found is not None:
        assert "required" not in asked
    if found is not None:
        check(world)
        for uid, parts in before.items():
            if uid != f"uid-{found}":
                assert held(world, uid) == parts
        if found and case.reserved[int(found[1:])].policy == "Restricted":
            check_restricted(world, case.reserved[int(found[1:])])


def held(world: ReservationWorld, uid: str) -> tuple[object, object]:
    cpus, devices = world.cache.shared.find(NumaState), world.cache.shared.find(DeviceState)
    assert cpus is not None
    assert devices is not None
    given_devices = devices.held_by(uid)
    return cpus.held_by(uid), None if given_devices is None else given_devices.held


def check_restricted(world: ReservationWorld, reserved: Reserved) -> None:
    """An owner has nothing beside what the reservation holds, of CPUs and of each type of which it holds any."""
    cpus, devices = world.cache.shared.find(NumaState), world.cache.shared.find(DeviceState)
    assert cpus is not None
    assert devices is not None
    of_cpus, of_devices = cpus.held_by("p"), devices.held_by("p")
    if of_cpus is not None and of_cpus.cpus and reserved.cpus:
        assert not of_cpus.cpus & ~sum(1 << cpu for cpu in reserved.cpus)
    whole = device_allocations({DEVICE_ALLOCATED: annotations_of(reserved).get(DEVICE_ALLOCATED, "{}")}) or {}
    for kind, given_devices in {} if of_devices is None else of_devices.allocations.items():
        assert not whole.get(kind) or {one.minor for one in given_devices} <= {one.minor for one in whole[kind]}


@settings(max_examples=40, deadline=None)
@given(cases(), requests)
def test_a_pod_that_ignores_reservations_gets_what_no_pod_uses(case: Case, asked: dict[str, int]) -> None:
    """As in a world without reservations; what it takes of them no other pod has while it runs."""
    asked = {key: value for key, value in asked.items() if key != "required"}
    world, empty = world_of(case, {0}), world_of(case._replace(reserved=[]), set())
    found = given_in(world, asking("p", asked).label(RESERVATION_IGNORED, "true").info())
    assert (found is None) == (given_in(empty, asking("p", asked).info()) is None)
    if found is not None:
        assert found == ""
        given_in(world, asking("q", asked).info())
        state = world.cache.shared.find(NumaState)
        assert state is not None
        first, second = state.held_by("p"), state.held_by("q")
        assert first is None or second is None or not first.cpus & second.cpus
