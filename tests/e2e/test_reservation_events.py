"""Reservations change faster than they can be looked at one by one while pods wait (issue 21): nothing is left over, and nothing piles up.

The benchmark `side_by_side.reservation_events`, small: what it does in full size is in docs/benchmarks.md.
"""

from __future__ import annotations

import asyncio

from side_by_side.reservation_events import Run, Settings
from support.controlplane.plane import ControlPlane

PODS = 60


def test_all_changes_of_reservations_are_taken_in_and_all_pods_wait_still(plane: ControlPlane) -> None:
    found = asyncio.run(Run(plane, Settings(nodes=10, pods=PODS, rate=400.0, seconds=2.0)).run())
    assert found.changes > 0
    assert found.pending == PODS
