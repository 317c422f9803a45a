"""A serving process in the test's own process: real sockets, a real loop, and an API server in memory."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from random import Random
from typing import Any

import aiohttp
import msgspec

from koordsched.api.kinds import NODE, POD, Kind
from koordsched.clock import Clock, RealClock
from koordsched.cluster.apiserver import ConnectError, ConnectionSettings, Traffic
from koordsched.cluster.memory import MemoryCluster
from koordsched.cluster.port import ClusterError, ListPage, WatchEvent
from koordsched.config.flags import parse_flags
from koordsched.serve.process import Process, ServeOptions
from support.fakes import config_with

HOST = "127.0.0.1"
ALONE = {"leaderElection": {"leaderElect": False}}
TIMEOUT = 5.0  # seconds that anything here may take


class FakeServer(MemoryCluster):
    """An API server in memory, which answers once `refusals` are used up and `silence` is over."""

    def __init__(self) -> None:
        super().__init__(RealClock(), random=Random(1))
        self.settings: ConnectionSettings | None = None
        self.refusals: list[ClusterError] = []
        self.malformed = ""
        self.answers = asyncio.Event()
        self.answers.set()
        self.broken = asyncio.Event()  # watches then raise what no API server can cause
        self.closed = False
        self.traffic = Traffic()

    async def connect(self, settings: ConnectionSettings, _clock: Clock, _random: Random) -> FakeServer:
        if self.malformed:
            raise ConnectError(self.malformed)
        self.settings = settings
        return self

    async def check(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        await self.answers.wait()

    async def close(self) -> None:
        self.closed = True

    async def list(self, kind: Kind, **more: Any) -> ListPage:
        await self.answers.wait()
        return await super().list(kind, **more)

    async def watch(self, kind: Kind, **more: Any) -> AsyncGenerator[Sequence[WatchEvent], None]:
        if kind == NODE:
            await self.broken.wait()
            raise RuntimeError("a bug")
        async for batch in super().watch(kind, **more):
            yield batch

    def nodes_of_pods(self) -> dict[str, str]:
        return {raw["metadata"]["name"]: raw["spec"].get("nodeName", "") for raw in self.raws(POD)}


class Served(msgspec.Struct):
    url: str
    run: asyncio.Task[int]

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
            return response.status, await response.text()

    async def code(self) -> int:
        return await asyncio.wait_for(asyncio.shield(self.run), TIMEOUT)

    async def ready(self) -> None:
        await until(lambda: self.answers_with("/readyz", 200))

    async def answers_with(self, path: str, status: int, text: str = "") -> bool:
        try:
            answer = await self.get(path)
        except aiohttp.ClientConnectorError:
            return False
        return answer[0] == status and text in answer[1]


async def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            found = holds()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(server: FakeServer, *arguments: str, **orders: Any) -> AsyncIterator[Served]:
    """Run a process on the plain port."""
    with closing(socket.create_server((HOST, 0))) as listener:
        port = listener.getsockname()[1]
    flags = parse_flags(["--secure-port=0", f"--port={port}", f"--address={HOST}", *arguments])
    given = {"config": config_with({}, **ALONE), "flags": flags, "clock": RealClock(), "random": Random(1), "connect": server.connect}
    task = asyncio.create_task(Process(ServeOptions(**{**given, **orders})).run())
    try:
        yield Served(f"http://{HOST}:{port}", task)
    finally:
        if not task.done():
            signal_self(signal.SIGTERM)
        assert await asyncio.wait_for(task, TIMEOUT) is not None


def signal_self(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
