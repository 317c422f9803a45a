"""Controllers of plugins: which of them run, and the queue that they work off. In virtual time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from structlog.testing import capture_logs
from support.virtual_loop import clock, pytest_asyncio_loop_factories

from koordsched import tasks
from koordsched.cluster.port import TooManyRequests
from koordsched.framework.controllers import FIRST_RETRY, HOLD_STEP, KEYS_A_TURN, LONGEST_HOLD, LONGEST_RETRY, WorkQueue, is_enabled

__all__ = ["clock", "pytest_asyncio_loop_factories"]


@pytest.mark.parametrize(
    ("flag", "enabled"),
    [
        (["*"], True),
        ([], False),
        (["Quota"], True),
        (["Gang"], False),
        (["-Quota"], False),
        (["*", "-Quota"], False),
        (["-Quota", "*"], False),
        (["-Quota", "Quota"], False),
        (["Quota", "-Quota"], True),
        (["-Gang", "*"], True),
        (["-Gang"], False),
        (["-*"], False),
    ],
)
def test_the_first_item_that_names_the_plugin_decides_and_else_the_star(flag: list[str], enabled: bool) -> None:
    assert is_enabled("Quota", flag) == enabled


class Worker:
    """Works off a queue of names; a name in `broken` fails, one in `again` is wanted again after so many seconds."""

    def __init__(self, interval: float = 1.0) -> None:
        self.queue: WorkQueue[str] = WorkQueue("test", interval)
        self.done: list[tuple[float, str]] = []
        self.broken: set[str] = set()
        self.again: dict[str, float] = {}

    async def work(self, key: str) -> float | None:
        self.done.append((asyncio.get_running_loop().time(), key))
        if key in self.broken:
            raise ValueError(key)
        return self.again.get(key)

    async def for_seconds(self, seconds: float) -> list[tuple[float, str]]:
        """Run for so long; return what was done, with times from the beginning."""
        began = asyncio.get_running_loop().time()
        self.done.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.queue.run(self.work)
        return [(round(time - began, 3), key) for time, key in self.done]


async def test_what_gathered_before_it_runs_is_done_once_in_order() -> None:
    worker = Worker()
    for key in "abab":
        worker.queue.add(key)
    assert len(worker.queue) == 2
    assert await worker.for_seconds(10) == [(0, "a"), (0, "b")]


async def test_a_key_is_handed_out_at_most_once_an_interval_and_no_change_is_lost() -> None:
    worker = Worker(interval=2.0)

    async def changes() -> None:
        for _ in range(50):
            worker.queue.add("a")
            await asyncio.sleep(0.1)

    task = asyncio.create_task(changes())
    assert await worker.for_seconds(20) == [(0, "a"), (2, "a"), (4, "a"), (6, "a")]  # the last change is at 4.9 s
    await task


async def test_a_key_that_is_due_later_gives_way_to_an_earlier_time_for_it() -> None:
    worker = Worker()
    worker.queue.add("a", after=8.0)
    worker.queue.add("a", after=3.0)
    worker.queue.add("a", after=5.0)
    worker.queue.add("b", after=4.0)
    assert await worker.for_seconds(20) == [(3, "a"), (4, "b")]


async def test_the_first_key_of_all_is_due_when_it_says_also_right_after_the_loop_has_begun() -> None:
    worker = Worker()
    worker.queue.add("a", after=0.25)
    assert await worker.for_seconds(0.3) == [(0.25, "a")]


async def test_a_key_that_is_added_again_and_again_takes_no_more_room() -> None:
    worker = Worker()
    for _ in range(1000):
        worker.queue.add("a")
        worker.queue.add("b", after=5.0)
    assert (len(worker.queue), len(worker.queue._heap)) == (2, 2)
    assert await worker.for_seconds(10) == [(0, "a"), (5, "b")]


async def test_work_may_ask_to_be_done_again() -> None:
    worker = Worker()
    worker.again["a"] = 15.0
    worker.queue.add("a")
    assert await worker.for_seconds(40) == [(0, "a"), (15, "a"), (30, "a")]


async def test_what_fails_is_tried_again_ever_more_rarely_and_keeps_no_other_waiting() -> None:
    worker = Worker()
    worker.broken.add("a")
    worker.queue.add("a")
    worker.queue.add("b")
    assert await worker.for_seconds(10) == [(0, "a"), (0, "b"), (FIRST_RETRY, "a"), (3, "a"), (7, "a")]
    assert tasks.failures["test"] == 4
    for _ in range(10):
        await worker.for_seconds(LONGEST_RETRY)
    assert len(await worker.for_seconds(10 * LONGEST_RETRY + 1)) == 10
    worker.broken.clear()
    await worker.for_seconds(LONGEST_RETRY)
    worker.broken.add("a")
    worker.queue.add("a")
    assert await worker.for_seconds(2) == [(0, "a"), (1, "a")], "it begins anew after a success"
    tasks.failures.clear()


async def test_a_request_that_fails_is_a_warning_and_what_raises_otherwise_an_error_with_a_traceback() -> None:
    queue: WorkQueue[Exception] = WorkQueue("test")

    async def fail(error: Exception) -> None:
        raise error

    for error in (TooManyRequests("later, please"), ValueError("a bug")):
        queue.add(error)
    with capture_logs() as logs, pytest.raises(TimeoutError):
        async with asyncio.timeout(FIRST_RETRY / 2):
            await queue.run(fail)
    said = [(line["log_level"], line["task"], line["err"], "exc_info" in line) for line in logs]
    assert said == [("warning", "test", "later, please", False), ("error", "test", "ValueError('a bug')", True)]
    assert tasks.failures["test"] == 2
    tasks.failures.clear()


async def test_a_key_that_comes_while_the_queue_waits_for_a_later_one_is_handed_out_at_once() -> None:
    worker = Worker()
    worker.queue.add("late", after=100.0)
    asyncio.get_running_loop().call_later(2.0, worker.queue.add, "soon")
    assert await worker.for_seconds(10) == [(2, "soon")]


async def test_several_workers_do_not_wait_for_each_other_but_none_does_what_another_is_at() -> None:
    queue: WorkQueue[str] = WorkQueue("test", interval=1.0)
    at_work: list[str] = []
    ended: list[tuple[float, str]] = []
    began = asyncio.get_running_loop().time()

    async def write(key: str) -> None:
        assert key not in at_work
        at_work.append(key)
        assert len(at_work) <= 2
        await asyncio.sleep(3.0)
        at_work.remove(key)
        ended.append((round(asyncio.get_running_loop().time() - began, 3), key))

    for key in "abc":
        queue.add(key)
    asyncio.get_running_loop().call_later(2.0, queue.add, "a")
    asyncio.get_running_loop().call_later(2.5, queue.add, "a", 10.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(20):
            await queue.run(write, workers=2)
    assert ended == [(3, "a"), (3, "b"), (6, "c"), (6, "a")]


async def test_what_was_wanted_again_while_the_work_was_broken_off_is_not_held_back_for_ever() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    done: list[str] = []

    async def write(key: str) -> None:
        await asyncio.sleep(5.0)
        done.append(key)

    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await queue.run(write)
    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await queue.run(write)
    assert done == ["a"]


async def test_what_was_handed_out_long_ago_is_forgotten() -> None:
    worker = Worker()
    for number in range(5_000):
        worker.queue.add(f"key-{number}")
        if number % 100 == 0:
            await worker.for_seconds(1.5)
    await worker.for_seconds(1.5)
    assert len(worker.queue) == 0
    assert len(worker.queue._rests_until) < 1_200


async def test_work_waits_for_what_it_gives_way_to_until_it_is_ten_seconds_late_unless_it_is_wanted_at_once() -> None:
    worker, busy = Worker(), [True]
    worker.queue = WorkQueue("test", gives_way=lambda: busy[0])
    worker.queue.add("a", after=2.0)
    worker.queue.add("b")
    [(at_once, first), (late, second)] = await worker.for_seconds(20)
    assert (first, second) == ("b", "a")
    assert at_once < HOLD_STEP
    assert 0.0 <= late - (2.0 + LONGEST_HOLD) <= 2 * HOLD_STEP


async def test_work_that_gave_way_is_done_as_soon_as_it_may_be() -> None:
    worker, busy = Worker(), [True]
    worker.queue = WorkQueue("test", gives_way=lambda: busy[0])
    worker.queue.add("a", after=2.0)
    asyncio.get_running_loop().call_later(5.0, busy.__setitem__, 0, False)
    [(when, _)] = await worker.for_seconds(20)
    assert 0.0 <= when - 5.0 <= 2 * HOLD_STEP


class CountedKey:
    """A key that counts how often a dict has looked at it."""

    looks = 0

    def __init__(self, number: int) -> None:
        self._number = number

    def __hash__(self) -> int:
        CountedKey.looks += 1
        return hash(self._number)


async def test_each_of_thousands_of_keys_of_one_moment_costs_as_much_as_one_of_a_few() -> None:
    looks = {}
    for many in (500, 8_000):
        queue: WorkQueue[CountedKey] = WorkQueue("test")
        for number in range(many):
            queue.add(CountedKey(number))
        CountedKey.looks = 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await queue.run(_nothing)
        assert len(queue) == 0
        looks[many] = CountedKey.looks / many
    assert looks[8_000] < 2 * looks[500]


async def test_others_have_their_turns_while_thousands_of_keys_are_looked_at() -> None:
    worker = Worker()
    for number in range(5_000):
        worker.queue.add(f"key-{number}")
    seen: list[int] = []

    async def other() -> None:
        while len(worker.done) < 5_000:
            seen.append(len(worker.done))
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await worker.for_seconds(0.5)
    await task
    assert max(after - before for before, after in pairwise(seen)) <= KEYS_A_TURN


async def _nothing(_key: object) -> None:
    """Have no more to do."""
