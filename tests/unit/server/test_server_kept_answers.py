"""KeptAnswers: made once for all who ask, one after the other, and in a share of the time."""

from __future__ import annotations

import asyncio

import pytest

from koordsched.server.budget import MOST_WAITING, Bounds, KeptAnswers
from koordsched.server.http import Response, text
from koordsched.slices import Slices


class Kitchen:
    """Makes answers, each of which takes `seconds` of work."""

    def __init__(self, bounds: Bounds, seconds: float = 1.0) -> None:
        self.answers = KeptAnswers(asyncio.get_running_loop().time, bounds)
        self.made: list[str] = []
        self.seconds = seconds
        self.status = 200

    async def ask(self, key: str) -> Response:
        async def make(work: Slices) -> Response:
            with work:
                await asyncio.sleep(self.seconds)
            self.made.append(key)
            return text(self.status, f"{key} {len(self.made)}")

        return await self.answers.answer(key, make)


async def test_all_who_ask_at_the_same_time_get_the_same_answer() -> None:
    kitchen = Kitchen(Bounds(0.1))
    answers = await asyncio.gather(*(kitchen.ask("a") for _ in range(50)))
    assert {answer.body for answer in answers} == {b"a 1"}
    assert kitchen.made == ["a"]


async def test_an_answer_is_given_again_for_a_multiple_of_what_it_took() -> None:
    kitchen = Kitchen(Bounds(0.1))
    await kitchen.ask("a")
    await asyncio.sleep(8.9)
    assert (await kitchen.ask("a")).body == b"a 1"
    await asyncio.sleep(0.2)
    assert (await kitchen.ask("a")).body == b"a 2"


async def test_an_answer_that_takes_no_time_may_be_kept_all_the_same() -> None:
    kitchen = Kitchen(Bounds(0.1, least_seconds=5.0), seconds=0.0)
    await kitchen.ask("a")
    await asyncio.sleep(4.9)
    assert (await kitchen.ask("a")).body == b"a 1"
    await asyncio.sleep(0.2)
    assert (await kitchen.ask("a")).body == b"a 2"


async def test_whatever_is_asked_for_all_together_takes_a_share_of_the_time() -> None:
    kitchen, loop = Kitchen(Bounds(0.1)), asyncio.get_running_loop()

    async def insist(key: str) -> None:
        while True:
            await kitchen.ask(key)
            await asyncio.sleep(0.1)

    asking = [asyncio.create_task(insist(key)) for key in "abcde"]
    begun = loop.time()
    await asyncio.sleep(1000.0)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    assert 95 <= len(kitchen.made) <= 101, f"of a second each in {loop.time() - begun} s"
    assert set(kitchen.made) == set("abcde")
    await asyncio.sleep(60.0)  # what was being made for those who have gone


async def test_a_client_that_goes_away_leaves_the_others_their_answer() -> None:
    kitchen = Kitchen(Bounds(0.1))
    first, second = (asyncio.create_task(kitchen.ask("a")) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()
    assert (await second).body == b"a 1"


async def test_a_failure_is_not_kept() -> None:
    kitchen = Kitchen(Bounds(0.1))
    kitchen.status = 503
    assert (await kitchen.ask("a")).status == 503
    kitchen.status = 200
    assert (await kitchen.ask("a")).body == b"a 2"


async def test_an_exception_reaches_those_who_ask_and_is_not_kept() -> None:
    answers = KeptAnswers(asyncio.get_running_loop().time, Bounds(0.1))

    async def fails(_work: Slices) -> Response:
        raise RuntimeError("a bug")

    async def works(_work: Slices) -> Response:
        return text(200, "fine")

    with pytest.raises(RuntimeError, match="a bug"):
        await answers.answer("a", fails)
    assert (await answers.answer("a", works)).body == b"fine"


async def test_only_so_many_different_answers_wait_to_be_made() -> None:
    kitchen = Kitchen(Bounds(1.0))
    answers = await asyncio.gather(*(kitchen.ask(str(number)) for number in range(MOST_WAITING + 3)))
    assert [answer.status for answer in answers] == [200] * MOST_WAITING + [429] * 3
