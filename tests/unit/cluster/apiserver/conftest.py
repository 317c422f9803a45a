"""Tests of the adapter run in real time against a server on loopback that answers what the test says it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio
import uvloop
from aiohttp import web

from koordsched.clock import RealClock
from koordsched.cluster.apiserver import ApiServer, ConnectionSettings, connect

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Connect = Callable[..., Awaitable[ApiServer]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Sockets need a loop whose time passes by itself. What works on transports itself is tried on both loops that we run on."""
    if item.path.stem == "test_apiserver_http1":
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture
def clock() -> RealClock:
    return RealClock()


class Seen(msgspec.Struct):
    """A request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any  # decoded JSON, bytes when it is none


class FakeServer:
    """`answer` is called for each request after it was written down in `seen`."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answer: Handler = _not_found
        self.url = ""
        self._runners: list[web.AppRunner] = []

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self._runners.append(runner)
        port = runner.addresses[0][1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"

    async def stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

    def answers(self, *answers: tuple[int, Any]) -> None:
        """Give these answers (status, JSON or bytes) one after the other, the last one again and again."""
        left = list(answers)

        async def answer(request: web.Request) -> web.Response:
            status, body = left.pop(0) if len(left) > 1 else left[0]
            return web.Response(status=status, body=body if isinstance(body, bytes) else msgspec.json.encode(body))

        self.answer = answer

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        decoded = msgspec.json.decode(body) if "json" in request.content_type or "yaml" in request.content_type else body
        seen = Seen(request.method, request.path, dict(request.query), dict(request.headers), decoded)
        self.seen.append(seen)
        return await self.answer(request)


async def _not_found(request: web.Request) -> web.Response:
    return web.Response(status=404)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeServer]:
    """A plain HTTP server."""
    fake = FakeServer()
    await fake.start()
    yield fake
    await fake.stop()


@pytest_asyncio.fixture
async def tls_server() -> AsyncIterator[FakeServer]:
    """A server that the test starts, with its own TLS context."""
    fake = FakeServer()
    yield fake
    await fake.stop()


@pytest_asyncio.fixture
async def connected(clock: RealClock) -> AsyncIterator[Connect]:
    """Connect with these settings; closed when the test is over."""
    made: list[ApiServer] = []

    async def make(**settings: Any) -> ApiServer:
        adapter = await connect(ConnectionSettings(**({"streaming_lists": False} | settings)), clock, Random(1))
        made.append(adapter)
        return adapter

    yield make
    for adapter in made:
        await adapter.close()


@pytest_asyncio.fixture
async def api(server: FakeServer, connected: Connect) -> ApiServer:
    """The adapter, connected to `server` without credentials, lists in pages."""
    return await connected(master=server.url)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[..., str]:
    """Write a kubeconfig with one cluster and one user, and return its path."""

    def write(server: str, user: Mapping[str, Any] | None = None, **cluster: Any) -> str:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": server, **{key.replace("_", "-"): value for key, value in cluster.items()}}}],
            "users": [{"name": "u", "user": user or {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_bytes(msgspec.yaml.encode(config))
        return str(path)

    return write
