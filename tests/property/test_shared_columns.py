"""Columns that owners of credits share say of each owner's pods what columns of its own say, after any history (`Shapes.shared`)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node, pod
from support.reservations import ReservationWorld, available

from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.podinfo import PodInfo
from koordsched.framework.shape import Shape

NODES = tuple(f"n{i}" for i in range(4))
APPS = tuple(f"a{i}" for i in range(3))
REQUIRED = ("", "{}", '{"name":"r1"}')

where, apps, serials = st.sampled_from(NODES), st.sampled_from(APPS), st.integers(0, 3)
asks = st.tuples(apps, st.sampled_from(REQUIRED), st.sampled_from(["500m", "2"]))
events = st.lists(
    st.one_of(
        st.tuples(
            st.just("reserve"),
            serials,
            apps,
            where,
            st.sampled_from(["", "Aligned", "Restricted"]),
            st.booleans(),
            st.sampled_from(["", "", "3"]),
        ),
        st.tuples(st.just("end"), serials),
        st.tuples(st.just("give"), serials, asks),
        st.tuples(st.just("stranger"), serials, where),
        st.tuples(st.just("gone"), serials),
        st.tuples(st.just("look"), asks),
        st.tuples(st.just("look"), asks),
    ),
    max_size=20,
)


def owner(world: ReservationWorld, ask: tuple[str, str, str], uid: str = "asked") -> PodInfo:
    app, affinity, cpu = ask
    builder = pod(uid).uid(uid).cpu(cpu).label("app", app)
    return world.signed((builder.annotation(RESERVATION_AFFINITY, affinity) if affinity else builder).info())


def play(world: ReservationWorld, what: str, *details: Any) -> None:
    match what, details:
        case "reserve", (serial, app, node_name, policy, once, order):
            known = world.reservations.by_uid.get(f"uid-r{serial}")
            at = node_name if known is None else known.node_name
            labels = {"scheduling.koordinator.sh/reservation-order": order} if order else {}
            spec = {"allocatePolicy": policy, "allocateOnce": once, "metadata": {"labels": labels}}
            world.reservations.put(available(f"r{serial}", at, {"cpu": "2"}, app, **spec))
        case "end", (serial,):
            world.reservations.remove(f"uid-r{serial}")
        case "give", (serial, ask):
            play(world, "gone", serial)
            with suppress(LookupError):
                world.give(owner(world, ask, f"p{serial}"))
        case "stranger", (serial, node_name):
            play(world, "gone", serial)
            world.cache.set_pod(pod().uid(f"p{serial}").cpu("1").on(node_name).info(counted_on_node=True), node_name)
        case "gone", (serial,):
            world.cache.remove_pod(f"p{serial}")
        case "look", (ask,):
            look(world, ask)


def answers(world: ReservationWorld, shape: Shape, info: PodInfo) -> tuple[list[int], list[int]]:
    """Return the rows on which the pod may go, and their totals."""
    shapes = world.profile.shapes
    if shape.restriction is not None:
        rows = shapes.filter_restricted(shape, info, shape.restriction).feasible
        return rows.tolist(), shapes.totals(shape, info, rows)[1].tolist() if len(rows) > 1 else []
    if not shapes.filter(shape, info):
        return [], []
    shapes.pre_score(shape, info)
    shapes.score(shape, info)
    rows = shape.evaluation.feasible_rows()
    return rows.tolist(), [shape.evaluation.scores(row)[1] for row in rows.tolist()]


def look(world: ReservationWorld, ask: tuple[str, str, str]) -> bool:
    """Compare shared columns with the pod's own; whether it shares any."""
    info, shapes = owner(world, ask), world.profile.shapes
    with shapes.view(info):
        shared = shapes.shared(info)
        found = None if shared is None else answers(world, shared, info)
        own = shapes.pre_filter(info)
        assert shared is not own
        if own.pre_filtered.refusal is not None:
            assert found is None
            return False
        assert found is None or found == answers(world, own, info)
    return found is not None


def world_of_nodes() -> ReservationWorld:
    world = ReservationWorld()
    for name in NODES:
        world.cache.set_node(node(name).cpu("4").memory("8Gi").build())
    return world


@settings(max_examples=150, deadline=None)
@given(history=events)
def test_shared_columns_are_those_that_an_owner_would_have(history: list[tuple[Any, ...]]) -> None:
    world = world_of_nodes()
    for event in history:
        play(world, *event)
    for app in APPS:
        for affinity in REQUIRED:
            look(world, (app, affinity, "500m"))


def test_owners_of_different_reservations_share_columns_and_evaluate_their_own_rows_alone() -> None:
    world = world_of_nodes()
    for serial, app in enumerate(APPS):
        world.reservations.put(available(f"r{serial}", NODES[serial], {"cpu": "2"}, app))
    for app in APPS:
        assert look(world, (app, "", "500m"))
        assert look(world, (app, "{}", "500m"))
    shapes = {id(world.profile.shapes.key(owner(world, (app, "", "500m"))).shared) for app in APPS}  # type: ignore[union-attr]  # it has a key
    assert len(shapes) == 1


def test_an_owner_that_finds_no_node_has_columns_of_its_own_from_then_on() -> None:
    world = world_of_nodes()
    world.reservations.put(available("r0", "n0", {"cpu": "2"}, "a0"))
    asked = owner(world, ("a0", "{}", "3"))
    assert world.profile.shapes.key(asked).shared is not None  # type: ignore[union-attr]  # it has a key
    _, found = world.search.find(world.profile, asked)
    assert not isinstance(found, str)
    assert "Reservation(s) Insufficient cpu" in found.message
    assert world.profile.shapes.key(asked).shared is None  # type: ignore[union-attr]  # it has a key
