"""The ports: carries requests from sockets to whoever answers them, and asks the port's guard first.

Any method is carried: what one means is the endpoint's business. The ports are open from start to end of the process, so that probes are
answered while it connects and while it stops.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec
from aiohttp import web

from koordsched.log import get_logger
from koordsched.server.mistakes import StartError
from koordsched.server.request import Request
from koordsched.server.response import Response, text
from koordsched.server.tls import peer_chain

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence

log = get_logger(__name__)

HEADERS = {"Server": "koord-scheduler", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
CLOSE_SECONDS = 1.0
"""How long open connections may take to end when the process does."""
BACKLOG = 128
MAX_BODY = 65_536
TOO_LARGE = text(413, "request entity too large\n")

Carry = Callable[[web.BaseRequest], Awaitable[web.Response]]


class Answering(Protocol):
    """Who answers requests."""

    async def answer(self, request: Request) -> Response: ...


class Guard(Protocol):
    """Who lets requests through."""

    async def refusal(self, request: Request) -> Response | None:
        """Return what to answer instead, None when the request may pass."""


class Port(msgspec.Struct, frozen=True):
    """Where to listen. `tls`, `guard`: None for plain HTTP and for a port that answers everybody. `shared`: others may listen there too."""

    host: str
    number: int
    tls: ssl.SSLContext | None = None
    guard: Guard | None = None
    shared: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.number}"


@asynccontextmanager
async def listening(ports: Sequence[Port], answering: Answering) -> AsyncIterator[None]:
    """Answer on all ports for the length of a block; StartError when one cannot be had."""
    async with AsyncExitStack() as open_ports:
        for port in ports:
            runner = web.ServerRunner(web.Server(_carrier(port, answering), access_log=None), shutdown_timeout=CLOSE_SECONDS)
            await runner.setup()
            open_ports.push_async_callback(runner.cleanup)
            try:
                await _site(runner, port).start()
            except OSError as error:
                why = os.strerror(error.errno) if error.errno else error
                raise StartError(f"cannot listen on {port.url}: {why}") from None
            log.info("listening", url=port.url, authenticated=port.guard is not None)
        yield


def _site(runner: web.ServerRunner, port: Port) -> web.BaseSite:
    """Return where to listen: an unspecified address, 0.0.0.0 or ::, means all addresses of both families, as in Go."""
    if ipaddress.ip_address(port.host).is_unspecified and socket.has_dualstack_ipv6():
        everywhere = socket.create_server(
            ("::", port.number), family=socket.AF_INET6, dualstack_ipv6=True, reuse_port=port.shared, backlog=BACKLOG
        )
        return web.SockSite(runner, everywhere, ssl_context=port.tls, backlog=BACKLOG)
    return web.TCPSite(runner, port.host, port.number, ssl_context=port.tls, reuse_port=port.shared or None, backlog=BACKLOG)


def _carrier(port: Port, answering: Answering) -> Carry:
    async def carry(carried: web.BaseRequest) -> web.Response:
        response = await _answer(carried, port.guard, answering)
        headers = {**HEADERS, "Content-Type": response.content_type}
        if response.location:
            headers["Location"] = response.location
        return web.Response(status=response.status, body=response.body, headers=headers)

    return carry


async def _answer(carried: web.BaseRequest, guard: Guard | None, answering: Answering) -> Response:
    request = Request.of(carried.method, carried.raw_path, headers=carried.headers, chain=peer_chain(carried.get_extra_info("ssl_object")))
    if guard is not None and (refusal := await guard.refusal(request)) is not None:
        return refusal
    if carried.body_exists:  # read only after whoever sends it was let in
        body = await carried.content.read(MAX_BODY + 1)
        if len(body) > MAX_BODY:
            return TOO_LARGE
        request = msgspec.structs.replace(request, body=body)
    return await answering.answer(request)
