"""Requests on the wire: connections, headers, time limits, one look at every status.

Watches, binds, leases and everything else have connections of their own, so that none starves another. A request goes out once; only when
the API server refused its credentials (401), or could not be trusted any more, and renewed credentials or certificates are at hand, it is
sent a second time. Any other retry is the caller's business. Nothing but errors of the port comes out.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode, urlsplit

from koordsched.cluster.apiserver.calls import Pool
from koordsched.cluster.apiserver.errors import OK, REDIRECT, SentRequest, answer_error, transport_error, unreadable_answer
from koordsched.cluster.apiserver.headers import HeaderCache
from koordsched.cluster.apiserver.http1 import ConnectionPool, MaySend, Server
from koordsched.cluster.apiserver.limiter import RateLimiter
from koordsched.cluster.apiserver.sessions import Sessions, read_whole
from koordsched.cluster.apiserver.traffic import Traffic
from koordsched.cluster.apiserver.wire import ApiResponse, Body, NotTrusted, WireError
from koordsched.cluster.port import Invalid, ServerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import aiohttp

    from koordsched.cluster.apiserver.calls import Call
    from koordsched.cluster.apiserver.identity import Identity
    from koordsched.cluster.apiserver.settings import ConnectionSettings
    from koordsched.cluster.apiserver.target import Target

UNAUTHORIZED = 401
NO_STATUS = "<error>"
"""The code label of a request without an answer, as client-go counts it."""

R = TypeVar("R", ApiResponse, "aiohttp.ClientResponse")


class ApiTransport:
    """Sends requests to one API server as one identity."""

    def __init__(self, target: Target, identity: Identity, settings: ConnectionSettings) -> None:
        self.traffic = Traffic(host=urlsplit(target.server).netloc)
        self.server = target.server
        self._identity = identity
        self._limiter = RateLimiter(settings.qps, settings.burst)
        address = urlsplit(target.server)
        self._prefix = address.path
        self._headers = HeaderCache([("Host", address.netloc), ("User-Agent", settings.user_agent), *target.headers], identity)
        self._sessions = Sessions(target, settings)
        port = address.port or (443 if address.scheme == "https" else 80)
        server = Server(address.hostname or "", port, target.tls.server_name or address.hostname or "")
        self._pools = {pool: ConnectionPool(server, settings.connections, settings.connect_timeout, settings.max_answer) for pool in Pool}
        self.max_answer = settings.max_answer
        self._may_decide = settings.may_decide
        self._closed = False

    async def request(self, call: Call) -> Body:
        """Send, and return the body of an answer of success."""
        if call.pool is not Pool.LEASE and not self._limiter.take():
            await self._limiter.acquire(call.priority)  # a renewal that waits is a lease that is lost
        self._count(call)
        answer = await self._with_renewal(call, self._whole if self._sessions.proxied else self._exchange)
        self.traffic.received[call.label] += len(answer.body)
        if not OK <= answer.status < REDIRECT:
            raise answer_error(self._sent(call), answer.status, answer.body, answer.retry_after)
        if answer.flaw and call.needs_answer:
            raise unreadable_answer(self._sent(call), answer.status, answer.flaw)
        return answer.body

    @asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send, and give the answer of success with its body still to be read. The connection is closed after that."""
        await self._limiter.acquire(call.priority)
        self._count(call)
        response = await self._with_renewal(call, self._begin)
        async with response:
            if not OK <= response.status < REDIRECT:
                answer = await read_whole(response, self.max_answer)
                self.traffic.received[call.label] += len(answer.body)
                raise answer_error(self._sent(call), answer.status, answer.body, answer.retry_after)
            yield response

    async def close(self) -> None:
        """Close all connections. Requests made after that fail."""
        self._closed = True
        for pool in self._pools.values():
            pool.close()
        await self._sessions.close()

    def _count(self, call: Call) -> None:
        """Count a request that goes out."""
        if self._closed:
            raise ServerError(f"the connection to {self.server} is closed")
        self.traffic.requests[call.label] += 1
        if call.body:
            self.traffic.sent[call.label] += len(call.body)

    async def _with_renewal(self, call: Call, send: Callable[[Call], Awaitable[R]]) -> R:
        """Send once, and once more if a new identity may help; count what came of each."""
        version, now = self._identity.version, asyncio.get_running_loop().time
        again = False
        while True:
            began = now()
            try:
                answer = await send(call)
            except WireError as error:
                self.traffic.answered(call.method, NO_STATUS, now() - began)
                if again or not isinstance(error, NotTrusted) or not await self._identity.renew(version):
                    raise transport_error(self._sent(call), error) from None
            else:
                self.traffic.answered(call.method, str(answer.status), now() - began)
                if again or answer.status != UNAUTHORIZED or not await self._identity.renew(version):
                    return answer
                answer.close()
            self.traffic.retries += 1
            again = True

    def _exchange(self, call: Call) -> Awaitable[ApiResponse]:
        """Send over a connection of the call's own pool."""
        head = f"{call.method} {self._prefix}{_target(call)} HTTP/1.1\r\n"
        body = call.body or b""
        length = b"Content-Length: %d\r\n\r\n" % len(body) if call.body is not None else b"\r\n"
        request = b"".join((head.encode("ascii"), self._headers.text(call.content_type), length, body))
        return self._pools[call.pool].exchange(request, self._identity.context, call.seconds, self._may_send(call))

    async def _begin(self, call: Call) -> aiohttp.ClientResponse:
        """Send by way of aiohttp, and leave the body to be read."""
        headers = self._headers.mapping(call.content_type)
        return await self._sessions.send(call, self.server + _target(call), headers, self._identity.context)

    async def _whole(self, call: Call) -> ApiResponse:
        may_send = self._may_send(call)
        if may_send is not None:
            may_send()
        return await read_whole(await self._begin(call), self.max_answer)

    def _may_send(self, call: Call) -> MaySend:
        return self._may_decide if call.decides else None

    def _sent(self, call: Call) -> SentRequest:
        return SentRequest(call.method, self.server + call.path)


def _target(call: Call) -> str:
    """Return path and query. Invalid: the caller's path is none."""
    if not (call.path.isascii() and call.path.isprintable()) or " " in call.path:
        raise Invalid(f"not a path: {call.path!r}")
    return f"{call.path}?{urlencode(call.query)}" if call.query else call.path
