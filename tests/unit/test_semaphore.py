"""Semaphore: places are handed out in the order of coming, and none is lost."""

from __future__ import annotations

import asyncio
import random

from koordsched.semaphore import Semaphore


async def test_as_many_places_are_taken_as_there_are() -> None:
    places = Semaphore(2)
    assert [places.take(), places.take(), places.take()] == [True, True, False]
    assert places.locked()
    places.release()
    assert not places.locked()
    assert places.take()


async def test_who_waits_is_served_in_the_order_of_coming_before_who_comes_later() -> None:
    places, served = Semaphore(1), []
    assert places.take()

    async def work(name: str) -> None:
        await places.wait()
        served.append(name)

    tasks = [asyncio.create_task(work(name)) for name in "abc"]
    await asyncio.sleep(0)
    places.release()
    assert not places.take(), "the place is the first one's, though it has not run yet"
    for _ in tasks:
        await asyncio.sleep(0)
        places.release()
    await asyncio.gather(*tasks)
    assert served == ["a", "b", "c"]
    assert not places.locked()


async def test_a_place_is_not_lost_with_a_waiter_that_is_cancelled_before_or_after_it_was_given_one() -> None:
    places = Semaphore(1)
    assert places.take()
    waiting = [asyncio.create_task(places.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    places.release()
    waiting[1].cancel()  # it has the place and has not run
    await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [True, True, False]
    places.release()
    assert places.take()


async def test_never_more_than_the_places_are_in_use_whatever_is_cancelled() -> None:
    chance, places, used, most = random.Random(1), Semaphore(3), 0, 0

    async def work() -> None:
        nonlocal used, most
        if not places.take():
            await places.wait()
        used += 1
        most = max(most, used)
        try:
            await asyncio.sleep(chance.random() / 1000)
        finally:
            used -= 1
            places.release()

    tasks = [asyncio.create_task(work()) for _ in range(300)]
    for task in chance.sample(tasks, 100):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 3
    assert [places.take() for _ in range(4)] == [True, True, True, False]
