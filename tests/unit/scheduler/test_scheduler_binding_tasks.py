"""BindingTasks: what it runs in one task and what side by side."""

from __future__ import annotations

import asyncio

from koordsched.scheduler.binding_tasks import BindingTasks


async def ended(binding: BindingTasks[int]) -> None:
    while binding.tasks:
        await asyncio.wait(binding.tasks)


async def test_what_need_not_wait_shares_a_task_and_begins_in_order() -> None:
    binding, seen, tasks = BindingTasks[int](), [], set()

    async def work(number: int) -> None:
        seen.append(number)
        tasks.add(asyncio.current_task())

    for number in range(100):
        binding.add(number, work(number))
    assert (len(binding), len(binding.tasks)) == (100, 1)
    await ended(binding)
    assert seen == list(range(100))
    assert len(tasks) == 1
    assert (len(binding), binding.tasks) == (0, [])


async def test_what_waits_does_not_hold_up_the_others() -> None:
    binding, seen, open_ = BindingTasks[int](), [], asyncio.Event()

    async def work(number: int) -> None:
        seen.append(number)
        if number % 2 == 0:
            await open_.wait()
            seen.append(-number)

    for number in range(1, 7):
        binding.add(number, work(number))
    for _ in range(10):
        await asyncio.sleep(0)
    assert seen == [1, 2, 3, 4, 5, 6], "all have begun, in order"
    assert len(binding) == 3
    assert binding.running == {2, 4, 6}
    binding.add(7, work(7))
    await asyncio.sleep(0)
    assert seen[-1] == 7, "and so does one that comes later"
    open_.set()
    await ended(binding)
    assert sorted(seen[7:]) == [-6, -4, -2]


async def test_when_it_ends_at_once_what_has_not_begun_is_forgotten() -> None:
    binding, seen = BindingTasks[int](), []

    async def work() -> None:
        seen.append("begun")
        await asyncio.Event().wait()

    binding.add(0, work())
    await asyncio.sleep(0)
    binding.add(1, work())
    binding.add(2, work())
    tasks = binding.drop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert seen == ["begun"]
    assert len(binding) == 0
