"""The virtual loop of the tests: time costs nothing, and nothing is left running."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from support.virtual_loop import run_virtual

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock


def test_virtual_time_passes_by_the_clock_of_the_loop() -> None:
    async def sleep_a_day(clock: VirtualClock) -> float:
        begun = clock.now()
        await asyncio.sleep(86_400)
        return clock.now() - begun

    assert run_virtual(sleep_a_day) == 86_400


def test_a_task_left_behind_is_named() -> None:
    async def forget_a_task(clock: VirtualClock) -> None:
        asyncio.get_running_loop().create_task(asyncio.sleep(1000), name="forgotten")

    with pytest.raises(AssertionError, match="forgotten"):
        run_virtual(forget_a_task)
