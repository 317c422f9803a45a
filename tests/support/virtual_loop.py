"""Running tests in virtual time: hours of backoff cost nothing, and the same test always sees the same order of things.

A directory of async tests opts in with two lines of its conftest.py:

    from support.virtual_loop import clock, no_task_left, pytest_asyncio_loop_factories
    __all__ = ["clock", "no_task_left", "pytest_asyncio_loop_factories"]

A synchronous test (hypothesis) calls `run_virtual(body)`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import pytest_asyncio

from koordsched import tasks
from koordsched.clock import VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping

    import pytest

T = TypeVar("T")


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give async tests a virtual loop (a hook of pytest-asyncio)."""
    return {"virtual": VirtualTimeLoop}


@pytest_asyncio.fixture
async def clock() -> VirtualClock:
    """The clock of the test's own loop."""
    return running_clock()


@pytest_asyncio.fixture(autouse=True)
async def no_task_left() -> AsyncIterator[None]:
    """Hold that a test leaves no task behind."""
    before = asyncio.all_tasks()
    yield
    check_no_task_left(before)


def running_clock() -> VirtualClock:
    """Return the clock of the running loop, which must be virtual."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return VirtualClock(loop)


def check_no_task_left(before: set[asyncio.Task[Any]]) -> None:
    left = [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]
    assert not left, f"tasks left behind: {left}"


def run_virtual(body: Callable[[VirtualClock], Awaitable[T]]) -> T:
    """Run the coroutine function with the clock of a fresh virtual loop; it must leave no task behind, and no exception to the loop.

    The latter is checked for each run, so that hypothesis sees which example it was.
    """
    left: list[dict[str, Any]] = []

    async def checked() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: left.append(context))
        before = asyncio.all_tasks()
        result = await body(running_clock())
        check_no_task_left(before)
        assert not tasks.restarts + tasks.failures, "work in the background raised; see the log"
        if left:
            raise AssertionError(f"an exception was left to the event loop: {left}") from left[0].get("exception")
        return result

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(checked())


@asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run the coroutines as tasks for the length of a block, then cancel them and wait for their end."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def settle() -> None:
    """Let everything that is ready run, without any time passing."""
    for _ in range(50):
        await asyncio.sleep(0)
