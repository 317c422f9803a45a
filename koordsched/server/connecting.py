"""Getting at the API server: what will never work ends the process, what may pass is waited for, and said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

from koordsched.backoff import Backoff
from koordsched.clock import Clock
from koordsched.cluster.apiserver import ConnectError, ConnectionSettings, Traffic, Untrusted
from koordsched.cluster.port import Cluster, ClusterError, Unauthorized
from koordsched.log import get_logger
from koordsched.server import StartError

log = get_logger(__name__)

MAX_DELAY = 10.0


class ApiConnection(Cluster, Protocol):
    """The adapter of an API server, as far as the process deals with it."""

    @property
    def traffic(self) -> Traffic: ...

    async def check(self) -> None:
        """Ask the API server for something small; ClusterError says why it does not answer."""

    async def close(self) -> None: ...


Connect = Callable[[ConnectionSettings, Clock, Random], Awaitable[ApiConnection]]


class Connecting:
    """One attempt to get at an API server, as long as it may take."""

    def __init__(self, connect: Connect, clock: Clock, random: Random) -> None:
        self._connect = connect
        self._clock = clock
        self._random = random

    async def connected(self, settings: ConnectionSettings, waiting: Callable[[str], None]) -> ApiConnection:
        """Return the connection once the API server answers; `waiting` is called with what is waited for. StartError when it never will."""
        try:
            connection = await self._connect(settings, self._clock, self._random)
            try:
                await self._wait_for_answer(connection, waiting)
            except BaseException:
                await connection.close()
                raise
        except ConnectError as error:
            raise StartError(str(error)) from None
        return connection

    async def _wait_for_answer(self, connection: ApiConnection, waiting: Callable[[str], None]) -> None:
        backoff = Backoff(self._random, cap=MAX_DELAY)
        while True:
            try:
                await connection.check()
            except (Untrusted, Unauthorized) as error:  # which waiting does not mend
                raise StartError(error.message) from None
            except ClusterError as error:
                delay = backoff.delay()
                waiting(error.message)
                log.warning("waiting for the API server", err=error.message, again_in_seconds=round(delay, 1))
                await asyncio.sleep(delay)
            else:
                return
