"""POST to one extender: kept-alive connections, a bounded number of requests under way, and a bounded answer.

Requests beyond the bound wait for their turn, which does not count as the extender's time. In virtual time (`simulate`, `test`) the request
is made by a loop in a thread of its own while the virtual loop stands still: an extender's answer takes no virtual time.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import aiohttp
import msgspec

from koordsched.clock import VirtualTimeLoop
from koordsched.cluster.apiserver.wire import network_error_text

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

T = TypeVar("T")

MAX_REQUESTS = 16
"""Requests to one extender at once, and so its connections."""
MAX_ANSWER = 128 << 20
"""Bytes of an answer: 5,000 nodes with 25 kB each."""
MAX_REFUSAL = 256
"""Bytes that are read of an answer other than 200."""
KEEP_ALIVE = 60.0
_CHUNK = 1 << 16
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


class Unanswered(Exception):
    """There is no answer, or none that can be taken; the text says why."""


class Reply(NamedTuple):
    status: int
    body: bytes


class TransportSettings(msgspec.Struct, frozen=True):
    """How to talk to one extender. tls None: as the URL's scheme says, trusting the system's authorities."""

    timeout: float  # seconds for a whole request
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    max_answer: int = MAX_ANSWER


class Transport:
    """The connections to one extender."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._slots = asyncio.Semaphore(MAX_REQUESTS)
        self._session: aiohttp.ClientSession | None = None
        self._outside: _OutsideLoop | None = None

    async def post(self, url: str, body: bytes) -> Reply:
        """Send the body as JSON. Unanswered."""
        if not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
            return await self._post(url, body)
        self._outside = self._outside or _OutsideLoop()
        return self._outside.run(self._post(url, body))

    async def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            if self._outside is None:
                await session.close()
            else:
                self._outside.run(session.close())
        if self._outside is not None:
            self._outside.stop()
            self._outside = None

    async def _post(self, url: str, body: bytes) -> Reply:
        async with self._slots:
            try:
                try:
                    return await self._try(url, body)
                except aiohttp.ServerDisconnectedError:
                    return await self._try(url, body)  # it had closed an idle connection before it saw the request
            except TimeoutError:
                raise Unanswered(f"no answer within {self._settings.timeout:g} s") from None
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise Unanswered(network_error_text(error)) from None

    async def _try(self, url: str, body: bytes) -> Reply:
        settings = self._settings
        ssl_context = True if settings.tls is None else settings.tls
        name = settings.server_name or None
        async with self._open().post(url, data=body, headers=_HEADERS, ssl=ssl_context, server_hostname=name) as answer:
            if answer.status != 200:  # noqa: PLR2004  # HTTP's OK
                return Reply(answer.status, await answer.content.read(MAX_REFUSAL))
            pieces, size = [], 0
            async for piece in answer.content.iter_chunked(_CHUNK):
                pieces.append(piece)
                size += len(piece)
                if size > settings.max_answer:
                    raise Unanswered(f"the answer is larger than {settings.max_answer} bytes")
            return Reply(answer.status, b"".join(pieces))

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=MAX_REQUESTS, keepalive_timeout=KEEP_ALIVE)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout),
                cookie_jar=aiohttp.DummyCookieJar(),  # Go's client keeps none either
                auto_decompress=False,  # a small answer could unfold without end
            )
        return self._session


class _OutsideLoop:
    """A loop in real time, in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="extenders", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[None, None, T]) -> T:
        """Return what the coroutine returns, blocking."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
