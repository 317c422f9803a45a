"""Pace: a thread that has used more than its share of CPU time waits before the next request."""

from __future__ import annotations

import asyncio
import time

import pytest

from koordsched.server.budget import ANSWER_SECONDS, BUSY_SHARE, GATHER_SECONDS, MOST_REST, OWED_SECONDS, SAVED_SECONDS, SHARE, Pace

COST = 0.01


class Thread:
    """A thread whose requests take a hundredth of a second each."""

    def __init__(self) -> None:
        self.used = 0.0
        self.busy = False  # the main loop
        self.answered: list[str] = []
        self.pace = Pace(lambda: self.used, asyncio.get_running_loop().time, lambda: self.busy)

    async def ask(self, name: str) -> None:
        await self.pace.wait()
        self.used += COST
        self.answered.append(name)


async def test_a_burst_after_quiet_time_is_answered_at_once() -> None:
    thread, loop = Thread(), asyncio.get_running_loop()
    await asyncio.sleep(2 * SAVED_SECONDS / SHARE)
    begun = loop.time()
    for _ in range(round(SAVED_SECONDS / COST)):
        await thread.ask("a")
    assert loop.time() == begun, "and no more than that is saved up"
    await thread.ask("a")
    await thread.ask("a")
    assert loop.time() > begun


async def test_at_the_start_nothing_is_saved_yet() -> None:
    thread, loop = Thread(), asyncio.get_running_loop()
    await thread.ask("a")
    await thread.ask("a")
    assert loop.time() >= COST / SHARE


@pytest.mark.parametrize(("busy", "share"), [(False, SHARE), (True, BUSY_SHARE)])
async def test_many_who_ask_get_the_share_and_no_more(busy: bool, share: float) -> None:
    thread = Thread()
    thread.busy = busy

    async def insist() -> None:
        while True:
            await thread.ask("a")

    asking = [asyncio.create_task(insist()) for _ in range(50)]
    await asyncio.sleep(100.0)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    await asyncio.sleep(1.0)
    assert 0.95 * 100 * share < thread.used < 1.05 * 100 * share


async def test_requests_are_answered_in_their_order() -> None:
    thread = Thread()
    thread.used = 1.0
    await asyncio.gather(*(thread.ask(name) for name in "abcde"))
    assert thread.answered == list("abcde")


async def test_what_was_used_in_a_flood_delays_later_requests_by_a_bounded_time() -> None:
    thread, loop = Thread(), asyncio.get_running_loop()
    thread.used = 1000.0
    await thread.ask("a")
    assert loop.time() == pytest.approx(min(OWED_SECONDS / SHARE, MOST_REST), abs=0.1)


async def test_something_is_answered_although_what_is_not_held_up_uses_more_than_the_share() -> None:
    thread = Thread()

    async def probes() -> None:
        while True:
            await asyncio.sleep(0.01)
            thread.used += 0.01 * 2 * SHARE

    probing = asyncio.create_task(probes())
    await asyncio.gather(*(thread.ask(name) for name in "abcde"))
    assert asyncio.get_running_loop().time() <= 5 * (MOST_REST + 0.1)
    probing.cancel()


async def test_a_request_that_is_given_up_costs_no_turn() -> None:
    thread = Thread()
    thread.used = 1.0
    asking = [asyncio.create_task(thread.ask(name)) for name in "abc"]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.wait(asking)
    assert thread.answered == ["b", "c"]


async def test_requests_gather_while_the_main_loop_has_a_backlog_and_at_no_other_time(monkeypatch: pytest.MonkeyPatch) -> None:
    thread, slept = Thread(), list[float]()
    monkeypatch.setattr(time, "sleep", slept.append)
    thread.pace.asked()
    await asyncio.sleep(1.0)
    assert slept == [], "nothing waits"
    thread.busy = True
    for _ in range(3):
        thread.pace.asked()
    await asyncio.sleep(ANSWER_SECONDS / 2)
    assert slept == [], "what came together is answered first"
    await asyncio.sleep(1.0)
    assert slept == [GATHER_SECONDS], "once, as no request came since"
    thread.pace.asked()
    await asyncio.sleep(1.0)
    assert slept == [GATHER_SECONDS] * 2
