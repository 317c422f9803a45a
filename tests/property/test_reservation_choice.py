"""What Filter says of all rows in one call about the reservations of a pod is what the plugins say, asked about one after the other.

The model is `ReservationChoice` without the sources of the plugins: it lets each reservation lend in turn and asks what Reserve would do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.reservations import ReservationWorld, available
from support.reserved_units import (
    CONFIG,
    Case,
    Reserved,
    amounts_of,
    annotations_of,
    asking,
    cases,
    requests,
    world_of_nodes,
)

from koordsched.framework.reservation_filters import ReservationFilters
from koordsched.plugins.reservation.nomination import UNSUITED, ReservationChoice

LEAST_FRAGMENTED = CONFIG.replace(
    "profiles:\n-",
    """profiles:
- pluginConfig:
  - name: DeviceShare
    args: {kind: DeviceShareArgs, apiVersion: kubescheduler.config.k8s.io/v1, scoringStrategy: {type: LeastFragmented}}
 """,
)


@contextmanager
def compared() -> Iterator[list[int]]:
    """Compare each answer of Filter with the model's. Yields the codes of all rows that were answered."""
    check: Any = ReservationChoice.check
    seen: list[int] = []

    def both(choice: ReservationChoice, *asked: Any) -> None:
        *question, codes = asked
        before, expected = codes.copy(), codes.copy()
        with patch.object(ReservationFilters, "sources", lambda *_: None):
            check(choice, *question, expected)
        check(choice, *question, codes)
        named = [None if code == was else choice.explain(int(code)) for code, was in zip(codes, before, strict=True)]
        assert named == [None if code == was else choice.explain(int(code)) for code, was in zip(expected, before, strict=True)]
        assert np.array_equal(codes, expected)
        seen.extend(codes.tolist())

    with patch.object(ReservationChoice, "check", both):
        yield seen


@settings(max_examples=120, deadline=None)
@given(st.lists(cases(), min_size=1, max_size=3), st.lists(requests, min_size=1, max_size=5), st.sampled_from([CONFIG, LEAST_FRAGMENTED]))
def test_all_rows_in_one_call_are_answered_as_each_reservation_is(drawn: list[Any], pods: list[dict[str, int]], config: str) -> None:
    world = world_of_nodes(drawn, {0, 1, 2}, config)
    with compared() as seen:
        for serial, asked in enumerate(pods):  # each on what the ones before it took
            try:
                world.give(asking(f"p{serial}", asked).info())
            except LookupError:
                event("refused")
    event(f"some row refused by what reservations hold: {any(code & UNSUITED for code in seen)}")


def world_of_many(nodes: int, reservations: int, allocated: dict[str, Any], numa_policy: str = "") -> ReservationWorld:
    """Return a world of so many nodes with so many reservations each, of which the first and the second hold this."""
    world = world_of_nodes([Case(numa_policy, Reserved("", {}, [], [], ""), []) for _ in range(nodes)], set())
    for number in range(nodes):
        for place in range(reservations):
            reserved = Reserved("Restricted", allocated.get("shares", [{}] * 2)[place], [], allocated.get("cpus", [[]] * 2)[place], "")
            annotations = {"annotations": annotations_of(reserved)}
            world.reservations.put(available(f"r{number}-{place}", f"n{number}", amounts_of(reserved), "x", metadata=annotations))
    return world


@pytest.mark.parametrize("numa_policy", ["", "SingleNUMANode", "Restricted", "BestEffort"])
@pytest.mark.parametrize(
    ("allocated", "asked"),
    [
        ({"shares": [{0: 100}, {2: 100, 3: 100}]}, {"cpus": 0, "gpu": 200, "binds": False}),
        ({"cpus": [[0, 1], [4, 5, 6, 7]]}, {"cpus": 4, "gpu": 0, "binds": True, "whole": True, "required": True}),
        ({"shares": [{0: 100}, {2: 100, 3: 100}], "cpus": [[0, 1], [4, 5, 6, 7]]}, {"cpus": 2, "gpu": 100, "binds": True}),
    ],
    ids=["devices", "CPUs", "both"],
)
def test_no_plugin_is_asked_about_single_reservations(allocated: dict[str, Any], asked: dict[str, int], numa_policy: str) -> None:
    """One call answers Filter for all nodes, however many these are, and one each reservation in Reserve.

    But under BestEffort, where hints of several plugins are merged in Python.
    """
    world = world_of_many(8, 2, allocated, numa_policy)
    never = AssertionError("a plugin was asked about one reservation")
    with patch.object(ReservationFilters, "refusal", side_effect=never), rows_of_calls() as calls:
        if numa_policy == "BestEffort" and asked["gpu"]:
            with pytest.raises(AssertionError, match="a plugin was asked"):
                world.search.find(world.profile, world.signed(asking("p", asked).info()))
            return
        assert world.give(asking("p", asked).info())[1]
    assert calls == [8]


@contextmanager
def rows_of_calls() -> Iterator[list[int]]:
    """Yield of how many rows each question of Filter was."""
    check, calls = ReservationChoice.check, list[int]()

    def counting(choice: ReservationChoice, *asked: Any) -> None:
        calls.append(len(asked[-1]))
        check(choice, *asked)

    with patch.object(ReservationChoice, "check", counting):
        yield calls


def test_a_reservation_that_holds_what_cannot_be_counted_is_asked_about_by_itself() -> None:
    """A device that no Device lists is known as long as a pod holds it: which devices there are depends on what is asked."""
    world = world_of_many(1, 2, {"shares": [{0: 100}, {9: 100}]})
    with compared() as seen:
        assert world.give(asking("p", {"cpus": 0, "gpu": 100, "binds": False}).info()) == ("n0", "r0-0")
        with pytest.raises(LookupError, match="Insufficient"):
            world.give(asking("q", {"cpus": 0, "gpu": 100, "binds": False, "required": True}).info())
    assert seen
