"""Keep-alive connections against a server that says exactly these bytes."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

from koordsched.cluster.apiserver import http1
from koordsched.cluster.apiserver.http1 import READ_BYTES, ConnectionPool, Server
from koordsched.cluster.apiserver.wire import ApiResponse, NoAnswer, NotSent

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MAX_ANSWER = 1000
CLOSE = b""
"""Said by the server: close the connection now."""


class Talker:
    """Says the next of `says` for each request; counts connections and keeps requests."""

    def __init__(self) -> None:
        self.says: list[list[bytes]] = []
        self.heard: list[bytes] = []
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        while (head := await self._head(reader)) is not None:
            self.heard.append(head)
            for piece in self.says.pop(0) if self.says else [OK]:
                if piece is CLOSE:
                    writer.close()
                if writer.is_closing():  # the client may have gone too
                    return
                writer.write(piece)
                await asyncio.sleep(0.002)

    async def _head(self, reader: asyncio.StreamReader) -> bytes | None:
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


@pytest_asyncio.fixture
async def talker() -> AsyncIterator[Talker]:
    found = Talker()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()
    for writer in found.writers:
        writer.close()
    await server.wait_closed()
    await asyncio.sleep(0.005)


@pytest_asyncio.fixture
async def pool(talker: Talker) -> AsyncIterator[ConnectionPool]:
    found = ConnectionPool(Server("127.0.0.1", talker.port, "127.0.0.1"), 2, 5.0, MAX_ANSWER)
    yield found
    found.close()


async def ask(pool: ConnectionPool, seconds: float = 5.0) -> ApiResponse:
    return await pool.exchange(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None, seconds)


async def test_a_connection_is_used_again(pool: ConnectionPool, talker: Talker) -> None:
    answers = [await ask(pool) for _ in range(3)]
    assert answers == [ApiResponse(200, b"ok")] * 3
    assert talker.connections == 1


async def test_a_connection_that_waits_for_its_next_request_holds_no_answer(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + b"x" * 900]]
    assert (await ask(pool)).body == b"x" * 900
    [connection] = pool._idle
    assert len(connection._body) == 0


async def test_an_answer_stays_as_it_came_when_the_next_one_comes_and_may_be_larger_than_what_is_read_at_once(talker: Talker) -> None:
    pool = ConnectionPool(Server("127.0.0.1", talker.port, "127.0.0.1"), 1, 5.0, 8 * READ_BYTES)
    bodies = [letter * (3 * READ_BYTES + 1) for letter in (b"a", b"b")]
    talker.says = [[b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body] for body in bodies]
    answers = [await ask(pool) for _ in bodies]
    assert [answer.body for answer in answers] == bodies
    assert talker.connections == 1
    pool.close()


async def test_an_answer_may_come_in_chunks_and_in_pieces(pool: ConnectionPool, talker: Talker) -> None:
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    for cut in (5, 20, 60, len(whole) - 1):
        talker.says = [[whole[:cut], whole[cut:]]]
        assert await ask(pool) == ApiResponse(200, b"abcde")
    assert talker.connections == 1


async def test_an_answer_without_a_body_is_whole(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[b"HTTP/1.1 204 No Content\r\n\r\n"]]
    assert await ask(pool) == ApiResponse(204, b"")


async def test_a_preliminary_answer_is_passed_over(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK]]
    assert await ask(pool) == ApiResponse(200, b"ok")


async def test_how_long_to_wait_is_read_whatever_its_spelling(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[b"HTTP/1.1 429 Too Many Requests\r\nretry-AFTER: 3\r\nContent-Length: 0\r\n\r\n"]]
    assert await ask(pool) == ApiResponse(429, b"", "3")
    assert (await ask(pool)).retry_after is None


@pytest.mark.parametrize("says", [[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"], [OK, CLOSE]])
async def test_a_connection_that_the_server_closes_is_not_used_again(pool: ConnectionPool, talker: Talker, says: list[bytes]) -> None:
    talker.says = [says]
    assert await ask(pool) == ApiResponse(200, b"ok")
    await asyncio.sleep(0.2)  # until the client has read it, on a busy machine too
    assert await ask(pool) == ApiResponse(200, b"ok")
    assert talker.connections == 2


async def test_a_connection_that_was_idle_for_too_long_is_not_used_again(
    pool: ConnectionPool, talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(pool)
    monkeypatch.setattr(http1, "KEEPALIVE_SECONDS", 0.0)
    await ask(pool)
    assert talker.connections == 2


async def test_a_connection_that_was_secured_otherwise_is_not_used_again(pool: ConnectionPool, talker: Talker) -> None:
    await ask(pool)
    with pytest.raises(NotSent):  # a new connection, on which the server does not speak TLS
        await pool.exchange(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ssl.create_default_context(), 5.0)
    assert (talker.connections, len(talker.heard)) == (2, 1)
    assert pool._all == set(), "the old connection is closed too"


async def test_something_said_out_of_turn_ends_the_connection(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[OK, b"HTTP/1.1 408 Request Timeout\r\n\r\n"]]
    await ask(pool)
    await asyncio.sleep(0.2)  # until the client has read it, on a busy machine too
    assert await ask(pool) == ApiResponse(200, b"ok")
    assert talker.connections == 2


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ([CLOSE], "the server closed the connection"),
        ([b"HTTP/1.1 200 OK\r\nConte", CLOSE], "the server closed the connection"),
        ([b"hello\r\n"], "not HTTP: "),
        ([b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"], "not HTTP: "),
        ([], "i/o timeout"),
    ],
)
async def test_without_a_status_there_is_no_answer(pool: ConnectionPool, talker: Talker, says: list[bytes], why: str) -> None:
    talker.says = [says]
    with pytest.raises(NoAnswer, match=f"^{why}"):
        await ask(pool, 5.0 if says else 0.1)
    assert await ask(pool) == ApiResponse(200, b"ok")


@pytest.mark.parametrize("cut", [8, 40, 75, 100, 130])
async def test_how_long_to_wait_is_that_of_the_refusal_itself(pool: ConnectionPool, talker: Talker, cut: int) -> None:
    """Neither that of a preliminary answer before it nor what its body says, wherever the answer is cut into pieces."""
    early = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n\r\n"
    refusal = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 18\r\nRetry-After:  4 \r\n\r\n\r\nRetry-After: 7\r\n"
    whole = early + refusal
    talker.says = [[whole[:cut], whole[cut:]]]
    assert await ask(pool) == ApiResponse(429, b"\r\nRetry-After: 7\r\n", "4")
    plain = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 18\r\n\r\n\r\nRetry-After: 7\r\n"
    talker.says = [[plain[:cut], plain[cut:]]]
    assert (await ask(pool)).retry_after is None


async def test_a_request_has_its_own_time_on_a_connection_that_is_used_again(pool: ConnectionPool, talker: Talker) -> None:
    """The timer of a connection is that of an earlier request: it neither ends a later one before its time nor keeps it for longer."""
    slow = [bytes([byte]) for byte in OK]  # some 2 ms each
    assert await ask(pool, 0.5) == ApiResponse(200, b"ok")
    await asyncio.sleep(0.48)
    talker.says = [slow]
    assert await ask(pool, 60.0) == ApiResponse(200, b"ok")
    talker.says = [[]]
    with pytest.raises(NoAnswer, match="i/o timeout"):
        await ask(pool, 0.05)
    assert talker.connections == 1


async def test_a_connection_that_is_closed_leaves_no_timer(pool: ConnectionPool, talker: Talker) -> None:
    assert await ask(pool) == ApiResponse(200, b"ok")
    [connection] = pool._idle
    assert connection._timer is not None
    pool.close()
    assert connection._timer is None


@pytest.mark.parametrize("end", [[], [CLOSE]])
async def test_an_answer_that_breaks_off_or_stalls_keeps_its_status(pool: ConnectionPool, talker: Talker, end: list[bytes]) -> None:
    talker.says = [[b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 10\r\n\r\nabc", *end]]
    assert await ask(pool, 5.0 if end else 1.0) == ApiResponse(503, b"abc", "1", "it broke off")
    assert await ask(pool) == ApiResponse(200, b"ok")
    assert talker.connections == 2


@pytest.mark.parametrize(
    "says",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"190\r\n" + b"x" * 400 + b"\r\n"] * 3],
    ],
)
async def test_a_body_that_is_too_large_keeps_its_status_and_ends_the_connection(
    pool: ConnectionPool, talker: Talker, says: list[bytes]
) -> None:
    talker.says = [says]
    answer = await ask(pool)
    assert (answer.status, answer.flaw) == (200, "it is larger than 1000 bytes")
    assert len(answer.body) <= MAX_ANSWER
    assert await ask(pool) == ApiResponse(200, b"ok")
    assert talker.connections == 2


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: " + b"x" * 10_000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 10_000),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\nX: " + b"x" * 10_000 + b"\r\n\r\n"),
    ],
)
async def test_headers_without_end_are_no_answer(pool: ConnectionPool, talker: Talker, start: bytes, piece: bytes) -> None:
    talker.says = [[start, *[piece] * 50]]
    with pytest.raises(NoAnswer, match=f"^its headers are larger than {http1.MAX_OVERHEAD} bytes$"):
        await ask(pool)
    assert await ask(pool) == ApiResponse(200, b"ok")


async def test_trailers_without_end_are_not_read(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ", *[b"x" * 10_000] * 50]]
    answer = await ask(pool)
    assert (answer.status, answer.flaw) == (200, f"its headers are larger than {http1.MAX_OVERHEAD} bytes")


async def test_a_body_in_chunks_of_one_byte_is_read(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n"]]
    assert await ask(pool) == ApiResponse(200, b"x" * 1000)


async def test_a_request_without_a_time_limit_waits_for_its_answer_and_for_a_connection(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[b"HTTP/1.1 200 OK\r\n", b"Content-Length: 2\r\n", b"\r\nok"] for _ in range(3)]
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*[pool.exchange(request, None, None) for _ in range(3)])
    assert answers == [ApiResponse(200, b"ok")] * 3
    assert talker.connections == 2


async def test_no_more_connections_than_allowed_and_who_waits_in_vain_sent_nothing(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[], []]
    stuck = [asyncio.create_task(ask(pool)) for _ in range(2)]
    await asyncio.sleep(0.2)  # until the client has read it, on a busy machine too
    with pytest.raises(NotSent, match="all connections were busy for too long"):
        await ask(pool, 0.05)
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    assert await ask(pool) == ApiResponse(200, b"ok")
    assert len(talker.heard) == 3


async def test_a_request_that_is_given_up_ends_its_connection(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[]]
    asking = asyncio.create_task(ask(pool))
    await asyncio.sleep(0.2)  # until the client has read it, on a busy machine too
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    assert await ask(pool) == ApiResponse(200, b"ok")
    assert talker.connections == 2


async def test_closing_the_pool_ends_what_is_under_way(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[]]
    asking = asyncio.create_task(ask(pool))
    await asyncio.sleep(0.2)  # until the client has read it, on a busy machine too
    pool.close()
    with pytest.raises(NoAnswer):
        await asking


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
async def test_a_host_that_cannot_be_found_was_sent_nothing(host: Any) -> None:
    with pytest.raises(NotSent, match=r"^no such host$"):
        await ask(ConnectionPool(Server(host, 1, host), 1, 5.0, MAX_ANSWER))


async def test_a_connection_that_broke_is_freed_with_its_last_reference(pool: ConnectionPool, talker: Talker) -> None:
    talker.says = [[CLOSE]]
    gc.collect()
    gc.disable()
    try:
        with suppress(NoAnswer):
            await ask(pool)
        await asyncio.sleep(0.05)
        assert not [each for each in gc.get_objects() if isinstance(each, http1.HttpConnection)]
    finally:
        gc.enable()
