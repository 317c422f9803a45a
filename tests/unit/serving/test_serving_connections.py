"""Connections: how many a port takes, and how long each may take; on real sockets, and with limits so small that no test waits long."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import pytest
from support.serving import HOST, until

from koordsched.config.flags import parse_flags
from koordsched.scenario.live.process import free_port
from koordsched.server.connections import ConnectionLimits, Connections, Handshakes
from koordsched.server.http import HttpRequest, Response, text
from koordsched.server.ports import Port, listening
from koordsched.server.tls import ServingCertificates

ASK = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"


class Slow:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.let = asyncio.Event()
        self.let.set()
        self.body = "done"

    async def answer(self, _request: HttpRequest) -> Response:
        self.asked += 1
        await self.let.wait()
        return text(200, self.body)


class Client(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ended(self) -> bool:
        """Wait until the server has closed the connection; what it said is dropped."""
        try:
            async with asyncio.timeout(5.0):
                while await self.reader.read(65_536):
                    pass
        except ConnectionError:
            pass
        return True

    async def status(self) -> bytes:
        async with asyncio.timeout(5.0):
            return (await self.reader.readline()).split()[1]

    async def ask(self) -> bytes:
        self.writer.write(ASK)
        return await self.status()


class Stand(NamedTuple):
    port: Port
    answering: Slow
    connections: Connections
    clients: list[Client]

    async def connect(self, context: ssl.SSLContext | None = None) -> Client:
        self.clients.append(Client(*await asyncio.open_connection(HOST, self.port.number, ssl=context)))
        return self.clients[-1]


@asynccontextmanager
async def stand(limits: ConnectionLimits, tls: bool = False, answering: Slow | None = None) -> AsyncIterator[Stand]:
    certificates = ServingCertificates(parse_flags([]), 1_790_000_000.0, clients_show_theirs=False) if tls else None
    port = Port(HOST, free_port(), None if certificates is None else certificates.connection, limits=limits)
    answering = answering or Slow()
    async with listening([port], answering) as (connections,):
        here = Stand(port, answering, connections, [])
        yield here
        for client in here.clients:
            client.writer.transport.abort()
            with suppress(OSError):
                await client.writer.wait_closed()


def unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def looks(connections: Connections) -> Callable[[], None]:
    """Return what looks at the connections as if it were an hour later for those that wait."""
    return lambda: connections.look(asyncio.get_running_loop().time() + 3600)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("said", [b"", b"GET /x HTTP/1.1\r\nHost: h\r\n"])
async def test_headers_that_do_not_come_end_the_connection(tls: bool, said: bytes) -> None:
    async with stand(ConnectionLimits(headers=30.0), tls) as here:
        client = await here.connect(unverified() if tls else None)
        client.writer.write(said)
        await until(lambda: here.connections.stages() == {"headers": 1})
        here.connections.look(asyncio.get_running_loop().time() + 20)
        assert len(here.connections) == 1
        here.connections.look(asyncio.get_running_loop().time() + 31)
        assert await client.ended()
        assert here.connections.closed == {"headers": 1}
        assert (len(here.connections), here.answering.asked) == (0, 0)


async def test_headers_that_come_byte_by_byte_have_no_more_time() -> None:
    async with stand(ConnectionLimits(headers=0.3)) as here:
        client, loop = await here.connect(), asyncio.get_running_loop()
        await until(lambda: len(here.connections) == 1)
        begun = loop.time()
        client.writer.write(b"GET /")
        while here.connections.closed["headers"] == 0:
            client.writer.write(b"x")
            await asyncio.sleep(0.05)
            assert loop.time() < begun + 5.0
        assert await client.ended()


async def test_a_handshake_that_does_not_come_ends_the_connection() -> None:
    async with stand(ConnectionLimits(handshake=10.0), tls=True) as here:
        client = await here.connect()
        await until(lambda: len(here.connections) == 1)
        here.connections.look(asyncio.get_running_loop().time() + 11)
        assert await client.ended()
        assert here.connections.closed == {"handshake": 1}


async def test_an_idle_connection_is_ended_and_one_that_is_answered_is_not() -> None:
    async with stand(ConnectionLimits()) as here:
        idle, busy = await here.connect(), await here.connect()
        assert await idle.ask() == b"200"
        here.answering.let.clear()
        busy.writer.write(ASK)
        await until(lambda: here.answering.asked == 2)
        here.connections.look(asyncio.get_running_loop().time() + 89)
        assert len(here.connections) == 2
        looks(here.connections)()
        assert await idle.ended()
        here.answering.let.set()
        assert await busy.status() == b"200"
        assert here.connections.closed == {"idle": 1}


async def test_a_client_that_does_not_take_its_answer_is_ended() -> None:
    async with stand(ConnectionLimits()) as here:
        here.answering.body = "x" * 20_000_000
        client = await here.connect()
        client.writer.write(ASK)
        await until(lambda: here.answering.asked == 1)
        await asyncio.sleep(0.1)
        looks(here.connections)()
        assert await client.ended()
        assert here.connections.closed == {"idle": 1}


@pytest.mark.parametrize("tls", [False, True])
async def test_one_connection_too_many_takes_the_place_of_the_one_that_waits_longest(tls: bool) -> None:
    async with stand(ConnectionLimits(connections=3), tls) as here:
        context = unverified() if tls else None
        first, second, third = [await here.connect(context) for _ in range(3)]
        assert [await client.ask() for client in (third, second)] == [b"200"] * 2
        fourth = await here.connect(context)
        assert await fourth.ask() == b"200"
        assert await first.ended()
        fifth = await here.connect(context)
        assert await fifth.ask() == b"200"
        assert await third.ended()
        assert (len(here.connections), here.connections.closed) == (3, {"limit": 2})


async def test_a_connection_is_refused_when_all_others_are_being_answered() -> None:
    async with stand(ConnectionLimits(connections=2)) as here:
        here.answering.let.clear()
        busy = [await here.connect() for _ in range(2)]
        for client in busy:
            client.writer.write(ASK)
        await until(lambda: here.answering.asked == 2)
        assert await (await here.connect()).ended()
        here.answering.let.set()
        assert [await client.status() for client in busy] == [b"200"] * 2
        assert here.connections.closed == {"limit": 1}


@pytest.mark.parametrize("tls", [False, True])
async def test_headers_without_end_are_not_kept(tls: bool) -> None:
    async with stand(ConnectionLimits(header_bytes=20_000), tls) as here:
        client = await here.connect(unverified() if tls else None)
        client.writer.write(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(100)))
        for number in range(100):
            client.writer.write(b"Cookie: %d%s\r\n" % (number, b"z" * 1000))
        assert await client.ended()
        assert here.answering.asked == 0


async def test_a_body_that_does_not_come_is_refused() -> None:
    async with stand(ConnectionLimits(body=0.1)) as here:
        client = await here.connect()
        client.writer.write(b"PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345")
        assert await client.status() == b"408"
        assert here.answering.asked == 0


async def test_a_body_that_comes_in_pieces_is_read_to_its_end() -> None:
    bodies: list[bytes] = []

    class Keeping(Slow):
        async def answer(self, request: HttpRequest) -> Response:
            bodies.append(request.body)
            return text(200, "")

    async with stand(ConnectionLimits(), answering=Keeping()) as here:
        client = await here.connect()
        client.writer.write(b"PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345")
        await asyncio.sleep(0.1)
        client.writer.write(b"67890")
        assert await client.status() == b"200"
    assert bodies == [b"1234567890"]


class Hello:
    """A connection whose client has said hello."""

    def __init__(self, client: str, begun: list[str]) -> None:
        self.client = client
        self._begun = begun

    def begin_handshake(self) -> None:
        self._begun.append(self.client)


async def test_handshakes_begin_at_a_rate_and_one_of_each_client_in_turn() -> None:
    handshakes, begun = Handshakes(100.0, 2), list[str]()
    flood = [Hello("flood", begun) for _ in range(6)]
    for hello in flood:
        handshakes.join(hello)
    assert begun == ["flood"] * 2, "as many as may begin at once"
    handshakes.join(Hello("probe", begun))
    handshakes.leave(flood[-1])
    assert len(handshakes) == 4
    loop = asyncio.get_running_loop()
    started = loop.time()
    await until(lambda: len(begun) == 6)
    assert loop.time() - started >= 0.03
    assert begun == ["flood", "flood", "flood", "probe", "flood", "flood"]
    assert len(handshakes) == 0


async def test_clients_that_wait_for_their_handshake_get_it() -> None:
    async with stand(ConnectionLimits(handshakes=100.0, handshake_burst=1), tls=True) as here:
        clients = await asyncio.gather(*(here.connect(unverified()) for _ in range(4)))
        assert [await client.ask() for client in clients] == [b"200"] * 4


async def test_a_client_that_goes_away_leaves_its_turn_to_others_and_one_that_waits_too_long_is_ended() -> None:
    async with stand(ConnectionLimits(handshakes=0.001, handshake_burst=1), tls=True) as here:
        first = await here.connect(unverified())
        gone, late = await here.connect(), await here.connect()
        for client in (gone, late):
            client.writer.write(b"\x16\x03\x01")
        handshakes = here.connections.handshakes
        await until(lambda: len(handshakes) == 2)
        gone.writer.transport.abort()
        await until(lambda: len(handshakes) == 1)
        here.connections.look(asyncio.get_running_loop().time() + 11)
        assert await late.ended()
        assert len(handshakes) == 0
        assert here.connections.closed == {"handshake": 1}
        assert await first.ask() == b"200"
