"""Slices: when work on the event loop pauses, and for how long."""

from __future__ import annotations

import asyncio

from support.virtual_loop import run_virtual

from koordsched.clock import VirtualClock
from koordsched.slices import PAUSE_SECONDS, SLICE_SECONDS, Slices


class Worked:
    """A reading of time that passes by working alone."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_slice_ends_after_its_time_and_the_next_one_is_as_long() -> None:
    worked, pauses = Worked(), []

    async def body(_clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        with Slices(worked, 0.5) as slices:
            for _ in range(9):
                worked.seconds += 0.26 * SLICE_SECONDS
                before = loop.time()
                await slices.pause()
                pauses.append(loop.time() - before)
        assert abs(slices.seconds - 9 * 0.26 * SLICE_SECONDS) < 1e-9

    run_virtual(body)
    assert [round(pause, 6) for pause in pauses] == [0, 0, 0, 0.5, 0, 0, 0, 0.5, 0]


def test_what_passes_between_two_blocks_is_no_work() -> None:
    worked = Worked()

    async def body(_clock: VirtualClock) -> None:
        loop, slices = asyncio.get_running_loop(), Slices(worked)
        for _ in range(2):
            worked.seconds += 10 * SLICE_SECONDS
            with slices:
                await slices.pause()
        assert (loop.time(), slices.seconds) == (0.0, 0.0)
        with slices:
            worked.seconds += SLICE_SECONDS * 1.5
            await slices.pause()
        assert loop.time() == PAUSE_SECONDS

    run_virtual(body)
