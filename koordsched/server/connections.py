"""The connections of a port: how many there may be, how many TLS handshakes a second, and how long each step may take.

The times and the size of headers are those of k8s.io/apiserver's server (32 s for a request's headers, 90 s between requests, 1 MiB), a
handshake has 10 s. kube-scheduler takes any number of connections and handshakes. Here a connection above the limit takes the place of the
one that has waited longest without a request, and handshakes above theirs wait, in turn by client address: a probe gets through although
another client holds all other connections open or opens thousands. A handshake takes 0.7 ms of CPU time.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from enum import Enum
from typing import Protocol, cast

import msgspec

from koordsched.log import get_logger
from koordsched.tasks import call_later

log = get_logger(__name__)

LOOK_SECONDS = 1.0
"""How often connections are looked at; times are kept as exactly."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """`connections` of one port at a time; seconds for a handshake, a request's headers, its body, and between requests.

    `handshakes` begin a second, and after quiet time `handshake_burst` at once.
    """

    connections: int = 400
    handshakes: float = 50.0
    handshake_burst: int = 25
    handshake: float = 10.0
    headers: float = 32.0
    body: float = 32.0
    idle: float = 90.0
    header_bytes: int = 1 << 20


class Stage(Enum):
    """What a connection is about to do, which is also why it is closed when it does not."""

    HANDSHAKE = "handshake"
    HEADERS = "headers"
    IDLE = "idle"  # also: takes the last answer
    ANSWER = "answer"  # ours; it takes as long as it takes


LIMIT, SIZE = "limit", "size"
"""Other reasons why a connection is closed: there are too many, its headers or its first message are too large."""

MAX_HELLO = 65_536
"""Bytes of a client's first message: four records of TLS, of which it needs a part of one."""


class Connections:
    """The connections of one port, on one event loop. `closed` counts by reason those that were ended here."""

    def __init__(self, port: str, limits: ConnectionLimits) -> None:
        self.port = port
        self.limits = limits
        self.closed: Counter[str] = Counter()
        self.handshakes = Handshakes(limits.handshakes, limits.handshake_burst)
        self._open: dict[asyncio.BaseProtocol, PortConnection] = {}  # by the protocol that speaks HTTP

    def __len__(self) -> int:
        return len(self._open)

    def stages(self) -> Counter[str]:
        """Count the open connections by what they are about to do."""
        return Counter(connection.stage.value for connection in self._open.copy().values())

    def of(self, handler: asyncio.BaseProtocol) -> PortConnection | None:
        """Return the connection of a request by the protocol that has read it; None when it has been closed meanwhile."""
        return self._open.get(handler)

    def admit(self, connection: PortConnection) -> bool:
        """Take a new connection, if need be in the place of the one that waits longest; False when all are being answered."""
        if len(self._open) >= self.limits.connections:
            waiting = [other for other in self._open.values() if other.stage is not Stage.ANSWER]
            if not waiting:
                self.closed[LIMIT] += 1
                return False
            self.end(min(waiting, key=lambda other: other.since), LIMIT)
        self._open[connection.handler] = connection
        return True

    def end(self, connection: PortConnection, reason: str) -> None:
        """Close a connection for a reason of ours."""
        self.closed[reason] += 1
        self.forget(connection)
        connection.abort()

    def forget(self, connection: PortConnection) -> None:
        self._open.pop(connection.handler, None)

    def look(self, now: float) -> None:
        """End those whose time is over; `now` is the loop's time."""
        for connection in [each for each in self._open.values() if each.deadline <= now]:
            self.end(connection, connection.stage.value)

    async def follow(self) -> None:
        """Look every now and then, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look(asyncio.get_running_loop().time())

    def abort(self) -> None:
        """End all that are left."""
        for connection in list(self._open.values()):
            connection.abort()


class Beginning(Protocol):
    """A connection whose client wants to begin the handshake."""

    client: str  # its address

    def begin_handshake(self) -> None: ...


class Handshakes:
    """Begins `rate` handshakes a second, and up to `burst` at once after quiet time; one of each client address in turn."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = self._left = float(burst)
        self._loop = asyncio.get_running_loop()
        self._counted = self._loop.time()
        self._waiting: dict[str, dict[Beginning, None]] = {}  # by client, in the order of their turns
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def join(self, connection: Beginning) -> None:
        """Begin the handshake of a connection when it is its turn, which may be now."""
        self._waiting.setdefault(connection.client, {})[connection] = None
        if self._timer is None:
            self._begin()

    def leave(self, connection: Beginning) -> None:
        """Let go of a connection that may be waiting."""
        connections = self._waiting.get(connection.client, {})
        connections.pop(connection, None)
        if not connections:
            self._waiting.pop(connection.client, None)

    def _begin(self) -> None:
        """Begin as many as may be begun now, and come back for the others."""
        self._timer, now = None, self._loop.time()
        self._left = min(self._burst, self._left + self._rate * (now - self._counted))
        self._counted = now
        while self._waiting:
            if self._left < 1.0:
                self._timer = call_later((1.0 - self._left) / self._rate, self._begin)
                return
            client, connections = next(iter(self._waiting.items()))
            connection = next(iter(connections))
            del self._waiting[client], connections[connection]
            if connections:
                self._waiting[client] = connections  # behind the other clients
            self._left -= 1.0
            connection.begin_handshake()


class PortConnection(asyncio.Protocol):
    """One connection: between the socket and what speaks TLS, if anything does, else `handler`, which speaks HTTP."""

    def __init__(self, connections: Connections, handler: asyncio.Protocol) -> None:
        self.handler = handler
        self.client = ""
        self.stage = Stage.HEADERS
        self.since = self.deadline = math.inf
        self._connections = connections
        self._inner: asyncio.Protocol = handler
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._header_bytes = 0
        self._hello = b""  # of the client, for as long as its handshake waits
        self._begun = False  # the handshake

    def speak(self, tls: asyncio.Protocol) -> None:
        """Let this stand before the handler."""
        self._inner = tls
        self.stage = Stage.HANDSHAKE

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.client = str(transport.get_extra_info("peername", [""])[0])
        limits = self._connections.limits
        if not self._connections.admit(self):
            self._transport.abort()
            return
        self._enter(self.stage, limits.handshake if self.stage is Stage.HANDSHAKE else limits.headers)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        limits = self._connections.limits
        if self.stage is Stage.HANDSHAKE and not self._begun:
            self._wait_for_handshake(data)
            return
        if self.stage is Stage.IDLE:
            self._enter(Stage.HEADERS, limits.headers)
        if self.stage is Stage.HEADERS:
            self._header_bytes += len(data)
            if self._header_bytes > limits.header_bytes:
                self._connections.end(self, SIZE)
                return
        self._inner.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.forget(self)
        self._connections.handshakes.leave(self)
        self._inner.connection_lost(exc)

    def _wait_for_handshake(self, hello: bytes) -> None:
        self._hello += hello
        if self._hello == hello:
            self._connections.handshakes.join(self)
        elif len(self._hello) > MAX_HELLO:
            self._connections.end(self, SIZE)

    def begin_handshake(self) -> None:
        """Go on with the client's first message."""
        self._begun = True
        hello, self._hello = self._hello, b""
        if self._transport is not None and not self._transport.is_closing():
            self._inner.data_received(hello)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def opened(self) -> None:
        """Note that the handshake is done."""
        self._enter(Stage.HEADERS, self._connections.limits.headers)

    def asked(self) -> None:
        """Note that a request's headers have been read."""
        self._enter(Stage.ANSWER, math.inf)

    def answered(self) -> None:
        """Note that there is an answer: from now on the client is to take it and to ask for something else."""
        self._enter(Stage.IDLE, self._connections.limits.idle)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _enter(self, stage: Stage, seconds: float) -> None:
        self.stage, self.since = stage, self._loop.time()
        self.deadline = self.since + seconds
        self._header_bytes = 0
