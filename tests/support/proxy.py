"""A reverse proxy with TLS before the API server that does what networks and load balancers do to requests.

What befalls a request is decided by `Weather`, which a test may change at any time: faults of each sort in turn for a random share of the
requests, watches that are cut, versions that are called gone, credentials that are checked. It runs in a thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import cycle
from pathlib import Path
from random import Random
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
from aiohttp import web

from koordsched.scenario.live.process import free_port
from support.controlplane.credentials import Kubeconfig, User
from support.controlplane.plane import ControlPlane

RETRY_AFTER_SECONDS = 1
HANG_SECONDS = 3.0  # then the connection is reset
BLACK_HOLE_SECONDS = 600.0  # longer than any client waits
START_SECONDS = 20.0
HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host", "keep-alive"})
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time
JSON = "application/json"
CHANGING = frozenset({"bind", "patch", "update", "delete"})


class Fault(Enum):
    """What becomes of a request."""

    TOO_MANY_REQUESTS = 429
    CONFLICT = 409  # of what changes an object; anything else fails with 500 instead
    SERVER_ERROR = 500
    RESET = "reset"  # before the API server saw the request
    HANG = "hang"  # nothing is sent on, nothing is answered, and after a while it is reset
    LOST_ANSWER = "lost answer"  # carried out, and then reset instead of answered


class Asked(NamedTuple):
    """A request, as far as it decides what becomes of it."""

    verb: str  # bind, watch, list, get, create, patch, update, delete
    resource: str  # with its subresource, as pods/status, but for bind


class Weather:
    """What the proxy does to requests now. Plain attributes, set by the test's thread and read by the proxy's."""

    def __init__(self, random: Random, watch_seconds: float | None = None) -> None:
        self.share = 0.0  # of requests that fail
        self.watch_seconds = watch_seconds  # how long a watch that begins now lasts before it is cut
        self.black_holes: set[str] = set()  # verbs whose next hang lasts until the client has had enough
        self.gone: set[str] = set()  # resources whose next watch learns that its version is gone
        self.authorize: Callable[[str], str | None] = lambda header: header  # the Authorization to send on; None: 401
        self.seen: Counter[tuple[str, str]] = Counter()  # requests by verb and resource
        self.befell: Counter[tuple[str, Fault]] = Counter()  # faults by verb
        self.refused = 0  # requests answered with 401
        self._random = random
        self._turns: dict[str, cycle[Fault]] = {}

    def fault_of(self, asked: Asked) -> Fault | None:
        """Choose by chance whether a request fails, and how in turn, for each verb of its own."""
        self.seen[asked] += 1
        if self._random.random() >= self.share:
            return None
        fault = next(self._turns.setdefault(asked.verb, cycle(Fault)))
        if fault is Fault.CONFLICT and asked.verb not in CHANGING:
            fault = Fault.SERVER_ERROR
        self.befell[asked.verb, fault] += 1
        return fault


class Proxy:
    """A context manager: while it is entered, it listens on `url`."""

    def __init__(self, plane: ControlPlane, weather: Weather, folder: Path) -> None:
        self.weather = weather
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._plane = plane
        self._tls = serving_context(plane, folder)
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="proxy", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    def kubeconfig(self, user: User) -> Kubeconfig:
        return Kubeconfig(self.url, self._plane.authority.certificate, user)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_SECONDS), "the proxy does not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        trusted = ssl.create_default_context(cadata=self._plane.authority.certificate.decode())
        connector = aiohttp.TCPConnector(ssl=trusted, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(self._plane.url, connector=connector, timeout=timeout, auto_decompress=False) as upstream:
            forwarder = Forwarder(self.weather, upstream)
            runner = web.ServerRunner(web.Server(forwarder.handle), shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._tls).start()
            self._started.set()
            await self._stop.wait()
            await runner.cleanup()


class Forwarder:
    """Sends requests on, or not."""

    def __init__(self, weather: Weather, upstream: aiohttp.ClientSession) -> None:
        self._weather = weather
        self._upstream = upstream

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        weather, asked = self._weather, asked_by(request)
        authorization = weather.authorize(request.headers.get("Authorization", ""))
        if authorization is None:
            weather.refused += 1
            return status(401, "Unauthorized", "Unauthorized")
        fault = weather.fault_of(asked)
        if fault is Fault.HANG:
            await asyncio.sleep(self._silence(asked))
        if fault in {Fault.HANG, Fault.RESET}:
            return reset(request)
        if fault in REFUSALS:
            return REFUSALS[fault]()
        if asked.verb == "watch" and asked.resource in weather.gone and "sendInitialEvents" not in request.query:
            weather.gone.discard(asked.resource)
            return status(410, "Expired", "too old resource version")
        return await self._send_on(request, authorization, lose_answer=fault is Fault.LOST_ANSWER)

    def _silence(self, asked: Asked) -> float:
        """Return for how many seconds a request that hangs does."""
        if asked.verb not in self._weather.black_holes:
            return HANG_SECONDS
        self._weather.black_holes.discard(asked.verb)
        return BLACK_HOLE_SECONDS

    async def _send_on(self, request: web.BaseRequest, authorization: str, *, lose_answer: bool) -> web.StreamResponse:
        try:
            return await self._forward(request, authorization, lose_answer=lose_answer)
        except aiohttp.ClientConnectorError:
            return status(503, "ServiceUnavailable", "no API server behind the proxy")
        except (aiohttp.ClientError, OSError):
            return reset(request)

    async def _forward(self, request: web.BaseRequest, authorization: str, *, lose_answer: bool) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        headers["Authorization"] = authorization
        body = await request.read() if request.can_read_body else None
        async with self._upstream.request(request.method, request.rel_url, headers=headers, data=body) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            if request.query.get("watch") == "true":
                return await self._stream(request, answer, kept)
            text = await answer.read()
            return reset(request) if lose_answer else web.Response(status=answer.status, body=text, headers=kept)

    async def _stream(self, request: web.BaseRequest, answer: aiohttp.ClientResponse, headers: dict[str, str]) -> web.StreamResponse:
        """Hand on what comes as it comes; a cut breaks the connection wherever it happens to be."""
        stream = web.StreamResponse(status=answer.status, headers=headers)
        await stream.prepare(request)
        try:
            async with asyncio.timeout(self._weather.watch_seconds):
                async for piece in answer.content.iter_any():
                    await stream.write(piece)
        except TimeoutError:
            return reset(request)
        await stream.write_eof()
        return stream


def asked_by(request: web.BaseRequest) -> Asked:
    """Return verb and resource: after /api/v1 or /apis/GROUP/VERSION maybe namespaces/NAME, then RESOURCE[/NAME[/SUBRESOURCE]]."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:  # in a namespace
        rest = rest[2:]
    resource = rest[0] if rest else request.path
    if rest[2:] == ["binding"]:
        return Asked("bind", resource)
    if len(rest) > 2:
        resource = f"{resource}/{rest[2]}"
    if request.method == "GET":
        if request.query.get("watch") == "true":
            return Asked("watch", resource)
        return Asked("get" if len(rest) > 1 else "list", resource)
    return Asked({"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method], resource)


def busy() -> web.Response:
    return status(429, "TooManyRequests", "too many requests, please try again later", {"Retry-After": str(RETRY_AFTER_SECONDS)})


def broken() -> web.Response:
    return status(500, "InternalError", "an error on the server has prevented the request from succeeding")


def conflicting() -> web.Response:
    return status(409, "Conflict", "the object has been modified; please apply your changes to the latest version and try again")


REFUSALS: Mapping[Fault | None, Callable[[], web.Response]] = {
    Fault.TOO_MANY_REQUESTS: busy,
    Fault.CONFLICT: conflicting,
    Fault.SERVER_ERROR: broken,
}


def status(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """Answer as the API server does when something is wrong."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
    return web.Response(status=code, text=json.dumps(body), content_type=JSON, headers=headers)


def reset(request: web.BaseRequest) -> web.Response:
    """Break the connection off with a TCP reset. What is returned goes nowhere."""
    transport = request.transport
    if transport is not None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        transport.abort()
    return web.Response()


def serving_context(plane: ControlPlane, folder: Path) -> ssl.SSLContext:
    pair = plane.authority.server()
    certificate, key = folder / "proxy.crt", folder / "proxy.key"
    certificate.write_bytes(pair.certificate)
    key.touch(mode=0o600)
    key.write_bytes(pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context
