"""The ports: carries requests from sockets to the handler, and asks the port's filter first.

Any method is carried: what one means is the endpoint's business. The ports are open from start to end of the process, so that probes are
answered while it connects and while it stops.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from koordsched.log import get_logger
from koordsched.server import StartError
from koordsched.server.connections import ConnectionLimits, Connections, PortConnection
from koordsched.server.http import HttpRequest, RequestFilter, RequestHandler, Response, text
from koordsched.server.tls import PEER_CHAIN, TlsProtocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from OpenSSL import SSL

    from koordsched.server.budget import Pace

log = get_logger(__name__)

HEADERS = {"Server": "koord-scheduler", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
CLOSE_SECONDS = 1.0
"""How long open connections may take to end when the process does."""
BACKLOG = 128
MAX_BODY = 65_536
TOO_LARGE = text(413, "request entity too large\n")
TOO_SLOW = text(408, "the request's body did not come in time\n")


class Port(msgspec.Struct, frozen=True):
    """Where to listen. `tls` begins the server's side of a connection, None: plain HTTP. `filter` None: all is let through. `shared`:
    other processes may listen there, too."""

    host: str
    number: int
    tls: Callable[[], SSL.Connection] | None = None
    filter: RequestFilter | None = None
    shared: bool = False
    limits: ConnectionLimits = ConnectionLimits()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.number}"


@asynccontextmanager
async def listening(ports: Sequence[Port], handler: RequestHandler, pace: Pace | None = None) -> AsyncIterator[Sequence[Connections]]:
    """Answer on all ports for the length of a block, which gets their connections; StartError when a port cannot be had.

    `pace` holds requests up, None: nothing does.
    """
    async with AsyncExitStack() as open_ports:
        yield [await open_ports.enter_async_context(_listening(port, handler, pace)) for port in ports]


@asynccontextmanager
async def _listening(port: Port, handler: RequestHandler, pace: Pace | None) -> AsyncIterator[Connections]:
    connections = Connections("plain" if port.tls is None else "secure", port.limits)
    carrier = _Carrier(port, connections, handler, pace)
    server = web.Server(carrier.carry, access_log=None)
    try:
        listener = await _listener(port, partial(_connection, port, connections, server))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise StartError(f"cannot listen on {port.url}: {why}") from None
    log.info("listening", url=port.url, authenticated=port.tls is not None)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(connections.follow())
        try:
            yield connections
        finally:
            following.cancel()
            listener.close()
            await asyncio.sleep(0)  # requests that are there are begun before idle connections are closed
            server.pre_shutdown()
            await server.shutdown(CLOSE_SECONDS)
            connections.abort()  # those in a handshake


async def _listener(port: Port, connected: Callable[[], PortConnection]) -> asyncio.Server:
    """Listen; an unspecified address, 0.0.0.0 or ::, means all addresses of both families, as in Go."""
    loop = asyncio.get_running_loop()
    if ipaddress.ip_address(port.host).is_unspecified and socket.has_dualstack_ipv6():
        everywhere = socket.create_server(
            ("::", port.number), family=socket.AF_INET6, dualstack_ipv6=True, reuse_port=port.shared, backlog=BACKLOG
        )
        return await loop.create_server(connected, sock=everywhere, backlog=BACKLOG)
    return await loop.create_server(connected, port.host, port.number, reuse_port=port.shared or None, backlog=BACKLOG)


def _connection(port: Port, connections: Connections, server: web.Server) -> PortConnection:
    handler = server()
    connection = PortConnection(connections, handler)
    if port.tls is not None:
        connection.speak(TlsProtocol(port.tls(), handler, connection.opened))
    return connection


class _Carrier:
    """Carries the requests of one port."""

    def __init__(self, port: Port, connections: Connections, handler: RequestHandler, pace: Pace | None) -> None:
        self._pace = pace
        self._filter = port.filter
        self._limits = port.limits
        self._connections = connections
        self._handler = handler

    async def carry(self, carried: web.BaseRequest) -> web.Response:
        connection = self._connections.of(carried.protocol)
        if connection is None:
            return web.Response(status=TOO_SLOW.status)  # which goes nowhere
        connection.asked()
        try:
            if self._pace is not None:
                self._pace.asked()
                if carried.path not in HEALTH_PATHS:
                    await self._pace.wait()
            response = await self._answer(carried)
        finally:
            connection.answered()
        headers = {**HEADERS, "Content-Type": response.content_type}
        if response.location:
            headers["Location"] = response.location
        return web.Response(status=response.status, body=response.body, headers=headers)

    async def _answer(self, carried: web.BaseRequest) -> Response:
        chain = carried.get_extra_info(PEER_CHAIN, ())
        request = HttpRequest.of(carried.method, carried.raw_path, headers=carried.headers, chain=chain)
        if self._filter is not None and (refusal := await self._filter.refusal(request)) is not None:
            return refusal
        if carried.body_exists:  # read only after the request has passed the filter
            try:
                async with asyncio.timeout(self._limits.body):
                    body = await _body(carried)
            except TimeoutError:
                return TOO_SLOW
            if len(body) > MAX_BODY:
                return TOO_LARGE
            request = msgspec.structs.replace(request, body=body)
        return await self._handler.answer(request)


async def _body(carried: web.BaseRequest) -> bytes:
    """Read the body, but not much more than is allowed."""
    body = bytearray()
    while len(body) <= MAX_BODY and (piece := await carried.content.read(MAX_BODY + 1)):
        body += piece
    return bytes(body)
