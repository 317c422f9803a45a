"""When credentials are fetched again, in virtual time."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs
from support.virtual_loop import run_virtual, running

from koordsched.cluster.apiserver import ConnectError
from koordsched.cluster.apiserver.credentials import Credential, CredentialError
from koordsched.cluster.apiserver.identity import Identity
from koordsched.cluster.apiserver.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.clock import VirtualClock


class Source:
    """Gives out t1, t2, ... and notes when (seconds since the start); `broken` are the numbers of fetches that fail."""

    def __init__(self, clock: VirtualClock, lives: float | None = None, polls: float | None = None, broken: tuple[int, ...] = ()) -> None:
        self.poll_seconds = polls
        self.fetched: list[float] = []
        self._clock = clock
        self._start = clock.now()
        self._lives = lives
        self._broken = broken

    async def fetch(self) -> Credential:
        now = self._clock.now()
        self.fetched.append(round(now - self._start, 3))
        number = len(self.fetched)
        if number in self._broken:
            raise CredentialError("no mood")
        return Credential(authorization=f"Bearer t{number}", expires=None if self._lives is None else now + self._lives)


def fetched_within(seconds: float, make: Callable[[VirtualClock], Source]) -> tuple[list[float], str]:
    """Run an identity on a source for so long; return when it fetched and what it shows in the end."""

    async def body(clock: VirtualClock) -> tuple[list[float], str]:
        source = make(clock)
        identity = Identity(Target(server="http://h", credentials=source), clock, Random(1))
        await identity.start()
        async with running(identity.run()):
            await asyncio.sleep(seconds)
        return source.fetched, identity.authorization

    return run_virtual(body)


def test_a_credential_is_renewed_when_a_fifth_of_its_life_is_left() -> None:
    assert fetched_within(250, lambda clock: Source(clock, lives=100)) == ([0.0, 80.0, 160.0, 240.0], "Bearer t4")


def test_a_long_life_is_used_up_to_its_last_five_minutes() -> None:
    assert fetched_within(7000, lambda clock: Source(clock, lives=3600))[0] == [0.0, 3300.0, 6600.0]


def test_a_credential_that_is_expired_when_it_comes_is_fetched_at_most_once_a_second() -> None:
    assert fetched_within(3.5, lambda clock: Source(clock, lives=-10))[0] == [0.0, 1.0, 2.0, 3.0]


def test_what_another_program_keeps_fresh_is_looked_at_as_often_as_it_says() -> None:
    assert fetched_within(150, lambda clock: Source(clock, polls=60))[0] == [0.0, 60.0, 120.0]


def test_a_renewal_that_fails_is_tried_again_with_growing_delays_while_the_old_credential_is_used() -> None:
    with capture_logs() as logs:
        times, shown = fetched_within(90, lambda clock: Source(clock, lives=100, broken=(2, 3)))
    first, second = times[2] - 80.0, times[3] - times[2]
    assert times[:2] == [0.0, 80.0]
    assert 0.8 <= first <= 1.6
    assert 1.6 <= second <= 3.2
    assert shown == "Bearer t4"
    assert [log["error"] for log in logs] == ["no mood", "no mood"]


def test_a_credential_that_cannot_be_had_at_the_start_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConnectError, match=r"^no mood$"):
        fetched_within(1, lambda clock: Source(clock, broken=(1,)))


def test_after_a_useless_renewal_a_refusal_does_not_lead_to_another_for_five_seconds() -> None:
    async def body(clock: VirtualClock) -> None:
        source = Source(clock, broken=(2, 3))
        identity = Identity(Target(server="http://h", credentials=source), clock, Random(1))
        await identity.start()
        with capture_logs():
            assert not await identity.renew(identity.version)
            assert not await identity.renew(identity.version)
            assert source.fetched == [0.0, 0.0]
            await asyncio.sleep(5)
            assert not await identity.renew(identity.version)
            await asyncio.sleep(5)
        assert await identity.renew(identity.version)
        assert identity.authorization == "Bearer t4"

    run_virtual(body)


def test_a_version_that_is_past_needs_no_renewal() -> None:
    async def body(clock: VirtualClock) -> None:
        source = Source(clock)
        identity = Identity(Target(server="http://h", credentials=source), clock, Random(1))
        await identity.start()
        assert await identity.renew(identity.version - 1)
        assert source.fetched == [0.0]

    run_virtual(body)


def test_a_source_with_a_bug_is_asked_again_with_growing_delays() -> None:
    class Buggy(Source):
        """Raises what no source should."""

        async def fetch(self) -> Credential:
            try:
                return await super().fetch()
            except CredentialError:
                raise KeyError("a bug") from None

    with capture_logs() as logs:
        fetched, shown = fetched_within(200, lambda clock: Buggy(clock, lives=100, broken=(2, 3)))
    assert (fetched[:2], len(fetched), shown) == ([0.0, 80.0], 5, "Bearer t5")
    assert 0.8 <= fetched[2] - fetched[1] <= 1.6
    assert 1.6 <= fetched[3] - fetched[2] <= 3.2
    assert [line["error"] for line in logs] == ["KeyError('a bug')"] * 2


def test_a_bug_of_a_source_does_not_become_the_error_of_a_request() -> None:
    async def body(clock: VirtualClock) -> None:
        class Buggy(Source):
            async def fetch(self) -> Credential:
                if self.fetched:
                    raise KeyError("a bug")
                return await super().fetch()

        identity = Identity(Target(server="http://h", credentials=Buggy(clock)), clock, Random(1))
        await identity.start()
        assert not await identity.renew(identity.version)

    with capture_logs():
        run_virtual(body)
