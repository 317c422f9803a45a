"""What Filter says of all rows in one call about the reservations of a pod is what the plugins say, asked about one after the other.

The model is `ReservationChoice` without the sources of the plugins: it lets each reservation lend in turn and asks what Reserve would do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.reserved_units import CONFIG, asking, cases, requests, world_of_nodes

from koordsched.framework.reservation_filters import ReservationFilters
from koordsched.plugins.reservation.nomination import ReservationChoice

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
    check, seen = ReservationChoice.check, []

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
    event(f"some row refused: {any(seen)}")
