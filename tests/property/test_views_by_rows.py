"""What columns say that were brought up to date with few rows hidden is what they say with all hidden (`Shapes.search_view`)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node, pod
from support.devices import allocation, device
from support.reservations import WITH_DEVICES, ReservationWorld, available, hides_more_than_counts
from support.world import Setup

from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED
from koordsched.api.podinfo import PodInfo
from koordsched.cache.credits import OwnerView
from koordsched.framework import shapes as module
from koordsched.framework.shapes import Shapes
from koordsched.plugins.deviceshare.check import device_state

GPU = "koordinator.sh/gpu"
NODES = tuple(f"n{i}" for i in range(5))

where, serials = st.sampled_from(NODES), st.integers(0, 7)
asks = st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(["", "100", "200"]))
events = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), serials, where, st.integers(0, 3), st.sampled_from(["", "Aligned", "Restricted"])),
        st.tuples(st.just("end"), serials),
        st.tuples(st.just("give"), serials, asks),
        st.tuples(st.just("give"), serials, asks),
        st.tuples(st.just("stranger"), serials, where),
        st.tuples(st.just("gone"), serials),
        st.tuples(st.just("node"), where, st.booleans()),
    ),
    min_size=3,
    max_size=25,
)


def asking(world: ReservationWorld, ask: tuple[str, str], uid: str = "asked") -> PodInfo:
    app, gpus = ask
    builder = pod(uid).uid(uid).cpu("500m").label("app", app)
    return world.signed((builder.request(GPU, gpus) if gpus else builder).info())


def play(world: ReservationWorld, what: str, *details: Any) -> None:
    match what, details:
        case "reserve", (serial, node_name, first, policy):
            known = world.reservations.by_uid.get(f"uid-r{serial}")
            at = node_name if known is None else known.node_name
            metadata = {"annotations": {DEVICE_ALLOCATED: allocation(gpu=[first, first + 4])}}
            amounts = {"cpu": "2", GPU: "200"}
            world.reservations.put(available(f"r{serial}", at, amounts, "xy"[serial % 2], allocatePolicy=policy, metadata=metadata))
        case "end", (serial,):
            world.reservations.remove(f"uid-r{serial}")
        case "give", (serial, ask):
            world.cache.remove_pod(f"p{serial}")
            with suppress(LookupError):
                world.give(asking(world, ask, f"p{serial}"))
        case "stranger", (serial, node_name):
            world.cache.remove_pod(f"p{serial}")
            world.cache.set_pod(pod().uid(f"p{serial}").cpu("1").on(node_name).info(counted_on_node=True), node_name)
        case "gone", (serial,):
            world.cache.remove_pod(f"p{serial}")
        case "node", (name, large):
            world.cache.set_node(node(name).cpu("8" if large else "3").memory("64Gi").allocatable(GPU, "800").build())


def answers(shapes: Shapes, info: PodInfo) -> tuple[list[int], list[int]]:
    """Return the rows on which the pod may go, and their totals."""
    shape = shapes.pre_filter(info)
    if not shapes.filter(shape, info):
        return [], []
    shapes.pre_score(shape, info)
    shapes.score(shape, info)
    rows = shape.evaluation.feasible_rows().tolist()
    return rows, [shape.evaluation.scores(row)[1] for row in rows]


def world_of_nodes() -> ReservationWorld:
    world = ReservationWorld(Setup(WITH_DEVICES))
    for name in NODES:
        play(world, "node", name, True)
        device_state(world).set_device(device(name, gpus="2x2x2,80Gi"))
    return world


@settings(max_examples=100, deadline=None)
@given(history=events)
def test_columns_are_the_same_whether_all_rows_are_hidden_or_those_that_are_asked_about(history: list[tuple[Any, ...]]) -> None:
    world = world_of_nodes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW_ROWS", 1)
        patch.setattr(module, "MOST_SHARED_ROWS", 0)
        for event in history:
            play(world, *event)
            for state in world.cache.pods.values():
                assert hides_more_than_counts(world.cache, state.info) is not world.cache.holds_amounts_alone(state.info.uid)
            facts = {name: column.tolist() for name, column in world.cache.table.columns().items()}
            for ask in (("x", "200"), ("y", "100"), ("x", "")):
                info, shapes = asking(world, ask), world.profile.shapes
                with shapes.search_view(info):
                    found = answers(shapes, info)
                fresh = shapes.apart()
                with fresh.view(info):
                    assert found == answers(fresh, info), ask
            assert facts == {name: column.tolist() for name, column in world.cache.table.columns().items()}


def test_an_equal_owner_hides_the_rows_that_have_changed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[list[int] | None] = []
    hide = OwnerView._hide

    def noted(self: OwnerView, rows: Any) -> None:
        hidden.append(None if rows is None else rows.tolist())
        hide(self, rows)

    monkeypatch.setattr(OwnerView, "_hide", noted)
    monkeypatch.setattr(module, "FEW_ROWS", 2)
    monkeypatch.setattr(module, "MOST_SHARED_ROWS", 0)
    world = world_of_nodes()
    for serial, name in enumerate(NODES):
        play(world, "reserve", 2 * serial, name, 0, "Restricted")
    node_name, _ = world.give(asking(world, ("x", "200"), "p0"))
    assert hidden[0] is None
    hidden.clear()
    world.give(asking(world, ("x", "200"), "p1"))
    row = world.cache.nodes_by_name[node_name].row
    assert hidden
    assert all(rows == [row] for rows in hidden)
