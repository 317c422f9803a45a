"""Keep-alive connections for the many small requests: binds, events, status, lists.

A pod needs a bind and an event, and with aiohttp's client each costs 350 us of CPU, more than all else that a scheduler spends on a pod;
here it is about 100 us (2,048 binds over 32 plain connections, uvloop, loaded 2-core reference machine). So this is one request at a time
on an asyncio protocol; httptools (llhttp) reads the answers. Watches and whatever goes through a proxy use aiohttp (`sessions`).
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import ssl
from collections.abc import Callable
from typing import cast

import httptools
import msgspec

from koordsched.cluster.apiserver.wire import ApiResponse, NoAnswer, NotSent, NotTrusted, max_body, network_error_text
from koordsched.semaphore import Semaphore
from koordsched.tasks import call_later

KEEPALIVE_SECONDS = 60.0
"""Less than the 90 s after which kube-apiserver closes an idle connection, lest a bind is sent into a connection that is being closed."""
_FINAL, _REFUSAL = 200, 300  # statuses below the first announce another one; those from the second on are no success
_RETRY_AFTER = re.compile(rb"^retry-after:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
MAX_OVERHEAD = 256 * 1024
"""Bytes of an answer that are no body: status line, headers, preliminary answers, trailers. A kube-apiserver sends less than 2 KiB."""
_OVERHEAD_FACTOR = 8
"""So many bytes may a byte of body cost in addition: a chunk of one byte is six bytes on the wire."""
READ_BYTES = 64 * 1024
"""At most so many bytes are taken from a connection at once. uvloop would make room for 256 KiB for each look at a TLS connection, twice
for every answer; as room of that size is mapped and unmapped by the kernel (`server.garbage`), that was a tenth of a scheduler's CPU."""

MaySend = Callable[[], None] | None
"""Asked when nothing stands between the request and the wire any more; it raises to keep it from being sent."""


class Server(msgspec.Struct, frozen=True):
    """Where to connect. `name` is expected in the certificate."""

    host: str
    port: int
    name: str


class HttpConnection(asyncio.BufferedProtocol):
    """One connection, which has at most one request under way."""

    def __init__(self, max_answer: int, room: memoryview) -> None:
        """max_answer: bytes that the body of an answer may have. room: where what comes is put, and parsed at once; one for many."""
        self.usable = False  # for another request
        self.idle_since = 0.0  # the loop's time; kept by the pool
        self.context: ssl.SSLContext | None = None  # kept by the pool
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        # An answer, or why there is none. No exception: with its traceback it would hold this connection and its buffers (256 KiB with TLS)
        # until the garbage collector looks.
        self._waiter: asyncio.Future[ApiResponse | str] | None = None
        self._room = room
        self._max_answer = max_answer
        self._max_body = max_answer  # of the answer being read
        self._body = bytearray()
        self._received = 0  # bytes of the answer being read, body and all
        self._too_large = ""  # what of it is too large, as a sentence's end
        self._retry_after: str | None = None
        self._status = 0  # of the answer being read, 0 before its headers are whole
        self._head = b""  # of the answer being read, until its headers are whole: what has come, preliminary answers and all
        self._preliminary = 0  # answers before the one being read that only announce it
        self._ends = math.inf  # the loop's time at which the request under way is given up
        # One timer for many requests: it is set anew when it rings, and not for each of them, which costs as much as to write the request.
        self._timer: asyncio.TimerHandle | None = None
        self._rings = math.inf  # the loop's time at which it does

    async def exchange(self, request: bytes, seconds: float | None) -> ApiResponse:
        """Send, and wait so many seconds for the answer. NotSent; NoAnswer: not even a status came. One that broke off is not complete."""
        if self._transport is None:
            raise NotSent("the server closed the connection at once")
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[ApiResponse | str] = loop.create_future()
        self._waiter = waiter
        self._parser = httptools.HttpResponseParser(self)
        self._body, self._retry_after, self._status = bytearray(), None, 0
        self._received, self._too_large = 0, ""
        self._head, self._preliminary = b"", 0
        self.usable = False
        self._transport.write(request)
        if seconds is not None:
            self._ends = loop.time() + seconds
            if self._ends < self._rings:
                self._set_timer(self._ends, seconds)
        try:
            outcome = await waiter
        finally:
            self._waiter, self._ends = None, math.inf
            self._body = bytearray()  # while the connection waits for its next request it would hold a page of a list, some MB
            if not self.usable:
                self.close()
        if isinstance(outcome, str):
            raise NoAnswer(outcome)
        return outcome

    def reusable(self, context: ssl.SSLContext | None, now: float) -> bool:
        """Answer whether another request may be sent: the server has not closed it, nor is about to."""
        if not self.usable or self._transport is None or self._transport.is_closing():
            return False
        return self.context is context and now - self.idle_since < KEEPALIVE_SECONDS

    def close(self) -> None:
        self.usable = False
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    def _set_timer(self, rings: float, seconds: float) -> None:
        self._stop_timer()
        self._timer, self._rings = call_later(seconds, self._look_at_time), rings

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._rings = None, math.inf

    def _look_at_time(self) -> None:
        """Give up a request whose time is over; for another one that is under way, look again at its end."""
        self._timer, self._rings = None, math.inf
        if self._waiter is None or self._ends is math.inf:
            return
        left = self._ends - asyncio.get_running_loop().time()
        if left > 0.0:
            self._set_timer(self._ends, left)
        else:
            self._fail("i/o timeout")

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, True)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, count: int) -> None:
        if self._waiter is None or self._parser is None or self._waiter.done():
            self.close()  # without a request
            return
        data = self._room[:count]
        if not self._status:
            self._head += data
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"not HTTP: {error}")
            self.close()
            return
        self._received += count
        overhead = self._received - len(self._body)
        if not self._too_large and overhead > MAX_OVERHEAD + _OVERHEAD_FACTOR * len(self._body):
            self._too_large = f"its headers are larger than {MAX_OVERHEAD} bytes"
        if self._too_large:
            self._fail(self._too_large)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._parser = self._transport = None  # each of them holds this connection
        self._stop_timer()
        self._fail(network_error_text(error) if error is not None else "the server closed the connection")

    def _fail(self, why: str) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        broken = ApiResponse(self._status, self._body, self._retry_after, self._too_large or "it broke off")
        waiter.set_result(broken if self._status else why)

    # What httptools calls

    def on_headers_complete(self) -> None:
        """Take note of the status. Headers are read of refusals only: to be called with each header costs more than all else here."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < _FINAL:
            self._preliminary += 1
            return
        self._status = status
        self._max_body = max_body(status, self._max_answer)
        if status >= _REFUSAL:
            heads = self._head.split(b"\r\n\r\n", self._preliminary + 1)
            found = _RETRY_AFTER.search(heads[min(self._preliminary, len(heads) - 1)])
            self._retry_after = None if found is None else found[1].decode("latin-1")
        self._head = b""

    def on_body(self, body: bytes) -> None:
        if len(self._body) + len(body) <= self._max_body:
            self._body += body
        else:
            self._too_large = f"it is larger than {self._max_body} bytes"

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if self._status and not self._too_large and self._waiter is not None and not self._waiter.done():
            self.usable = self._parser.should_keep_alive()
            self._waiter.set_result(ApiResponse(self._status, self._body, self._retry_after))


class ConnectionPool:
    """At most `limit` connections to a server, used again while they are fresh and secured as is wanted now."""

    def __init__(self, server: Server, limit: int, connect_timeout: float, max_answer: int) -> None:
        self._server = server
        self._max_answer = max_answer
        self._connect_timeout = connect_timeout
        self._room = memoryview(bytearray(READ_BYTES))
        self._idle: list[HttpConnection] = []
        self._all: set[HttpConnection] = set()
        self._places = Semaphore(limit)

    async def exchange(
        self, request: bytes, context: ssl.SSLContext | None, seconds: float | None, may_send: MaySend = None
    ) -> ApiResponse:
        """Send a request over a connection secured by `context` (None: plain). NotSent, NotTrusted, NoAnswer; what `may_send` raises."""
        loop = asyncio.get_running_loop()
        ends = None if seconds is None else loop.time() + seconds
        if not self._places.take():
            await self._wait_for_place(ends)
        try:
            connection = self._fresh(context, loop.time()) or await self._connect(context)
            try:
                if may_send is not None:
                    may_send()
                return await connection.exchange(request, None if ends is None else max(0.0, ends - loop.time()))
            finally:
                self._give_back(connection, loop.time())
        finally:
            self._places.release()

    def close(self) -> None:
        """Close all connections; requests under way get NoAnswer."""
        for connection in list(self._all):
            connection.close()
        self._all.clear()
        self._idle.clear()

    async def _wait_for_place(self, ends: float | None) -> None:
        try:
            async with asyncio.timeout_at(ends):
                await self._places.wait()
        except TimeoutError:
            raise NotSent("all connections were busy for too long") from None

    def _fresh(self, context: ssl.SSLContext | None, now: float) -> HttpConnection | None:
        """Take the connection that was used last, closing those that are of no use any more."""
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable(context, now):
                return connection
            self._drop(connection)
        return None

    def _give_back(self, connection: HttpConnection, now: float) -> None:
        if connection.usable:
            connection.idle_since = now
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: HttpConnection) -> None:
        connection.close()
        self._all.discard(connection)

    async def _connect(self, context: ssl.SSLContext | None) -> HttpConnection:
        server = self._server
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(self._max_answer, self._room),
                    server.host,
                    server.port,
                    ssl=context,
                    server_hostname=server.name if context is not None else None,
                )
        except ssl.SSLCertVerificationError as error:
            raise NotTrusted(error) from None
        except (OSError, ValueError) as error:  # ValueError: a host name that is none
            raise NotSent(error) from None
        connection.context = context
        self._all.add(connection)
        return connection
