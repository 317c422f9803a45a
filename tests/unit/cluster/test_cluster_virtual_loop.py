"""The virtual loop of the tests: time costs nothing, and nothing is left running."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
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


def raise_in_a_timer() -> None:
    def late() -> None:
        raise KeyError("a timer's")

    asyncio.get_running_loop().call_later(5, late)


def test_an_exception_in_a_timer_fails_what_runs_on_the_loop() -> None:
    async def wait_for_it(clock: VirtualClock) -> None:
        raise_in_a_timer()
        await asyncio.sleep(10)

    with pytest.raises(AssertionError, match=r"left to the event loop.*a timer's"):
        run_virtual(wait_for_it)


ASYNC_TEST = """
import asyncio, gc

async def test_a_timer_raises():
    asyncio.get_running_loop().call_later(0.01, {}.pop, "a timer's")
    await asyncio.sleep(0.05)

async def test_a_task_dies_unseen():
    asyncio.get_running_loop().create_task(die())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()

async def die():
    raise ValueError("a task's")

async def test_it_is_meant():
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    asyncio.get_running_loop().call_soon({}.pop, "nothing")
    await asyncio.sleep(0)
"""


def test_an_exception_that_is_left_to_any_loop_fails_the_test(tmp_path: Path) -> None:
    """What tests/conftest.py does, seen from outside: in a run of pytest of its own."""
    tests = Path(__file__).parents[2]
    (tmp_path / "conftest.py").write_text((tests / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(ASYNC_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "--tb=line", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "3 passed, 2 errors" in run.stdout, run.stdout
    assert "Exception in callback" in run.stdout
    assert "Task exception was never retrieved" in run.stdout
