"""Getting at the API server: what is waited for, and what ends the process."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from koordsched.clock import VirtualClock
from koordsched.cluster.apiserver import ConnectError, ConnectionSettings, Untrusted
from koordsched.cluster.port import ClusterError, ServerError, Unauthorized
from koordsched.server import StartError
from koordsched.server.connecting import Connecting

SETTINGS = ConnectionSettings(kubeconfig="/k")


class Server:
    """What `connect` returns: its check raises `errors` in turn."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.checks: list[float] = []
        self.closed = False

    async def connect(self, settings: ConnectionSettings, clock: Any, random: Any) -> Any:
        assert settings == SETTINGS
        return self

    async def check(self) -> None:
        self.checks.append(asyncio.get_running_loop().time())
        if self.errors:
            raise self.errors.pop(0)

    async def close(self) -> None:
        self.closed = True


async def connected(server: Server, clock: VirtualClock, waits: list[str]) -> Any:
    return await Connecting(server.connect, clock, Random(1)).connected(SETTINGS, waits.append)


async def test_a_server_that_answers_is_connected_at_once(clock: VirtualClock) -> None:
    server, waits = Server(), list[str]()
    assert await connected(server, clock, waits) is server
    assert server.checks == [0.0]
    assert waits == []


async def test_a_server_that_does_not_answer_is_waited_for_ever_longer_up_to_a_limit(clock: VirtualClock) -> None:
    server, waits = Server(*(ServerError(f"reason {i}") for i in range(9))), list[str]()
    await connected(server, clock, waits)
    assert waits == [f"reason {i}" for i in range(9)]
    delays = [later - earlier for earlier, later in zip(server.checks, server.checks[1:], strict=False)]
    bases = [0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10, 10]
    assert all(base <= delay < 2 * base for base, delay in zip(bases, delays, strict=True))
    assert not server.closed


@pytest.mark.parametrize("error", [Untrusted("https://api is not trusted"), Unauthorized("the token is expired")])
async def test_what_waiting_does_not_mend_ends_the_start(clock: VirtualClock, error: ClusterError) -> None:
    server, waits = Server(ServerError("later"), error), list[str]()
    with pytest.raises(StartError, match=f"^{error.message}$"):
        await connected(server, clock, waits)
    assert waits == ["later"]
    assert server.closed


async def test_settings_that_lead_nowhere_end_the_start(clock: VirtualClock) -> None:
    async def refuse(settings: ConnectionSettings, clock: Any, random: Any) -> Any:
        raise ConnectError(f"kubeconfig {settings.kubeconfig}: is empty")

    with pytest.raises(StartError, match=r"^kubeconfig /k: is empty$"):
        await Connecting(refuse, clock, Random(1)).connected(SETTINGS, pytest.fail)


async def test_a_wait_that_is_given_up_closes_the_connection(clock: VirtualClock) -> None:
    server = Server(*(ClusterError("no") for _ in range(99)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(20):
            await connected(server, clock, [])
    assert server.closed
