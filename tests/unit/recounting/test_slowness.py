"""What tests that promise seconds allow for a machine that is busy (support/slowness.py)."""

from __future__ import annotations

import time

from support.slowness import Slowness


def test_a_process_that_waits_for_its_turn_is_slower() -> None:
    with Slowness() as slowness:
        alone = slowness.factor
        slowness._took += 2 * slowness._used  # as if two others had been running all the while
        time.sleep(0)
    assert alone >= 1.0
    assert slowness.factor >= 2.0
