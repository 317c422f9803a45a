"""The ports: carries requests from sockets to whoever answers them, and asks `Access` first.

GET and DELETE are carried: every other method is a 405. The ports are open from start to end of the process, so that probes are answered
while it connects and while it stops.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec
from aiohttp import web

from koordsched.log import get_logger
from koordsched.server.mistakes import StartError
from koordsched.server.response import METHOD_NOT_ALLOWED, TEXT, Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence

    from koordsched.server.access import Access

log = get_logger(__name__)

HEADERS = {"Server": "koord-scheduler", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
CLOSE_SECONDS = 2.0
"""How long open connections may take to end when the process does."""


class Answering(Protocol):
    """Who answers requests."""

    async def answer(self, target: str) -> Response:
        """Answer a GET of a path with its query, as it was sent."""

    def delete(self, target: str) -> Response:
        """Answer a DELETE."""


class Port(msgspec.Struct, frozen=True):
    """Where to listen. `tls`: None for plain HTTP. `shared`: other processes may listen there too."""

    host: str
    number: int
    tls: ssl.SSLContext | None = None
    shared: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.number}"


@asynccontextmanager
async def listening(ports: Sequence[Port], access: Access, answering: Answering) -> AsyncIterator[None]:
    """Answer on all ports for the length of a block; StartError when one cannot be had."""

    async def carry(carried: web.BaseRequest) -> web.Response:
        response = await _answer(carried, access, answering)
        headers = {**HEADERS, "Content-Type": response.content_type}
        if response is METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET"
        return web.Response(status=response.status, body=response.body, headers=headers)

    runner = web.ServerRunner(web.Server(carry, access_log=None), shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    try:
        for port in ports:
            site = web.TCPSite(runner, port.host, port.number, ssl_context=port.tls, reuse_port=port.shared or None)
            try:
                await site.start()
            except OSError as error:
                why = os.strerror(error.errno) if error.errno else error
                raise StartError(f"cannot listen on {port.url}: {why}") from None
            log.info("listening", url=port.url)
        yield
    finally:
        await runner.cleanup()


async def _answer(carried: web.BaseRequest, access: Access, answering: Answering) -> Response:
    target = carried.raw_path
    if refusal := access.refusal(carried.remote or "", target):
        return Response(403, TEXT, f"{refusal}\n".encode())
    if carried.method == "DELETE":
        return answering.delete(target)
    return await answering.answer(target) if carried.method == "GET" else METHOD_NOT_ALLOWED
