"""What keeps a connection from being made or kept, in the operating system's words, whichever library says it."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
import pytest_asyncio

from koordsched.cluster.apiserver.wire import network_error_text

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as made:
        yield made


async def reason(session: aiohttp.ClientSession, url: str) -> str:
    with pytest.raises((aiohttp.ClientError, OSError, ValueError)) as raised:
        await session.get(url)
    return network_error_text(raised.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_port_where_nothing_listens_refuses(session: aiohttp.ClientSession, scheme: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert await reason(session, f"{scheme}://127.0.0.1:{port}/") == "connection refused"
        with pytest.raises(ConnectionRefusedError) as raised:
            await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", port)
        assert network_error_text(raised.value) == "connection refused"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".b"])
async def test_a_name_without_an_address_is_no_host(session: aiohttp.ClientSession, host: str) -> None:
    assert await reason(session, f"http://{host}/") == "no such host"


async def served(session: aiohttp.ClientSession, talk: Talk, scheme: str = "http") -> str:
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        return await reason(session, f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_connection_that_is_reset_is_reported(session: aiohttp.ClientSession, scheme: str) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    assert await served(session, reset, scheme) == "connection reset by peer"


async def test_a_server_that_closes_without_an_answer_is_reported(session: aiohttp.ClientSession) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        writer.close()

    assert await served(session, close) == "the server closed the connection"


async def test_a_plain_server_where_tls_is_expected_is_reported_as_go_does(session: aiohttp.ClientSession) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    assert await served(session, plain, "https") == "tls: first record does not look like a TLS handshake"


def tls_error(reason: str) -> ssl.SSLError:
    """Return an error as OpenSSL raises it: with the name of its reason."""
    error = ssl.SSLError(1, f"[SSL: {reason}] in OpenSSL's words (_ssl.c:1000)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call failed"), "connection refused"),
        (OSError("Multiple exceptions: [Errno 101] x, [Errno 111] y"), "network is unreachable and connection refused"),
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 1)"), "no route to host"),
        (TimeoutError(), "i/o timeout"),
        (aiohttp.ConnectionTimeoutError("Connection timeout to host http://x"), "i/o timeout"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "temporary failure in name resolution"),
        (ssl.SSLError(1, "some\nthing"), "tls: some thing"),
        (tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "tls: tlsv13 alert certificate required"),
        (tls_error("HTTP_REQUEST"), "tls: first record does not look like a TLS handshake"),
        (OSError(errno.ENOENT, "Connect call failed", "/run/api.sock"), "no such file or directory"),
        (OSError("no number"), "no number"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("a\n b"), "a b"),
    ],
)
def test_other_errors_are_one_line(error: Exception, text: str) -> None:
    assert network_error_text(error) == text
