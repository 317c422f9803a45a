"""The ports: what is carried to whom, on real sockets."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from cryptography import x509
from OpenSSL import SSL
from support.controlplane.authority import Authority

from koordsched.config.flags import parse_flags
from koordsched.server import StartError
from koordsched.server.connections import PortConnection
from koordsched.server.http import TEXT, HttpRequest, Response
from koordsched.server.ports import Port, listening
from koordsched.server.tls import ServingCertificates
from koordsched.server.tls.protocol import TlsProtocol

HOST = "127.0.0.1"


def free_port() -> int:
    with closing(socket.create_server((HOST, 0))) as listener:
        return int(listener.getsockname()[1])


class Echo:
    """Answers with what was asked."""

    def __init__(self) -> None:
        self.asked: list[HttpRequest] = []

    async def answer(self, request: HttpRequest) -> Response:
        self.asked.append(request)
        return Response(200, TEXT, request.uri.encode())


class Bouncer:
    """Lets only one path through."""

    async def refusal(self, request: HttpRequest) -> Response | None:
        assert request.body == b""  # what a stranger sends is not read
        return None if request.path == "/open" else Response(403, TEXT, f"not {request.path}".encode())


async def ask(method: str, url: str, **more: Any) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, url, **more) as response:
        return response.status, await response.text()


async def test_a_request_is_carried_with_its_query() -> None:
    port = Port(HOST, free_port())
    async with listening([port], Echo()):
        assert await ask("GET", f"{port.url}/readyz?verbose&exclude=a") == (200, "/readyz?verbose&exclude=a")
        assert await ask("GET", f"{port.url}/readyz/") == (200, "/readyz/")


@pytest.mark.parametrize("unspecified", ["0.0.0.0", "::"])
async def test_an_unspecified_address_means_both_families_as_in_go(unspecified: str) -> None:
    number = free_port()
    async with listening([Port(unspecified, number)], Echo()):
        for host in (HOST, "[::1]") if socket.has_dualstack_ipv6() else (HOST,):
            assert await ask("GET", f"http://{host}:{number}/healthz") == (200, "/healthz")


async def test_an_unspecified_address_whose_port_is_taken_is_refused() -> None:
    with closing(socket.create_server((HOST, 0))) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"^cannot listen on http://0.0.0.0:{number}: Address already in use$"):
            async with listening([Port("0.0.0.0", number)], Echo()):
                pass


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_every_method_is_carried_as_such(method: str) -> None:
    echo, port = Echo(), Port(HOST, free_port())
    async with listening([port], echo):
        assert await ask(method, f"{port.url}/x", data=b"body") == (200, "" if method == "HEAD" else "/x")
    (request,) = echo.asked
    assert (request.method, request.path, request.body, request.chain) == (method, "/x", b"body", ())


async def test_a_body_without_measure_is_refused() -> None:
    echo, port = Echo(), Port(HOST, free_port())
    async with listening([port], echo):
        assert (await ask("PUT", f"{port.url}/x", data=b"x" * 65_537))[0] == 413
        assert (await ask("PUT", f"{port.url}/x", data=b"x" * 65_536))[0] == 200
    assert len(echo.asked) == 1


async def test_a_filter_is_asked_first_and_only_at_its_own_port() -> None:
    echo, filtered, free = Echo(), Port(HOST, free_port(), filter=Bouncer()), Port(HOST, free_port())
    async with listening([filtered, free], echo):
        assert await ask("GET", f"{filtered.url}/open?x=1") == (200, "/open?x=1")
        assert await ask("PUT", f"{filtered.url}/shut", data=b"x" * 1_000_000) == (403, "not /shut")
        assert await ask("GET", f"{free.url}/shut") == (200, "/shut")
    assert [request.uri for request in echo.asked] == ["/open?x=1", "/shut"]


async def test_what_a_client_shows_is_handed_on_whatever_it_is_worth(tmp_path: Path) -> None:
    echo, pair = Echo(), Authority().client("jane")
    (tmp_path / "pair").write_bytes(pair.certificate + pair.key)
    port = Port(HOST, free_port(), secure(clients_show_theirs=True))
    client = unverified()
    client.load_cert_chain(tmp_path / "pair")
    async with listening([port], echo):
        assert (await ask("GET", f"{port.url}/x", ssl=client))[0] == 200
        assert (await ask("GET", f"{port.url}/x", ssl=unverified()))[0] == 200
    assert [request.chain for request in echo.asked] == [tuple(x509.load_pem_x509_certificates(pair.certificate)), ()]


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_either_loop_carries_much_over_tls(loop_factory: Any, version: ssl.TLSVersion) -> None:
    async def exchange() -> None:
        echo, port, client = Echo(), Port(HOST, free_port(), secure()), unverified()
        client.minimum_version = client.maximum_version = version
        async with listening([port], echo), aiohttp.ClientSession() as session:
            for size in (1, 20_000, 60_000):
                async with session.put(f"{port.url}/x", data=b"y" * size, ssl=client) as response:
                    assert await response.text() == "/x"
            async with session.get(f"{port.url}/{'z' * 7000}", ssl=client) as response:
                assert len(await response.text()) == 7001
        assert [len(request.body) for request in echo.asked] == [1, 20_000, 60_000, 0]

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(exchange(), 10))


async def test_a_client_that_goes_away_in_the_handshake_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    port = Port(HOST, free_port(), secure())
    async with listening([port], Echo()):
        for greeting in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
            _, writer = await asyncio.open_connection(HOST, port.number)
            writer.write(greeting)
            writer.close()
            await writer.wait_closed()
        assert (await ask("GET", f"{port.url}/livez", ssl=unverified()))[0] == 200
    assert caplog.records == []


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_has_ended_leaves_no_garbage(loop_factory: Any) -> None:
    """What OpenSSL holds for it is freed at once: such buffers count for nothing with the collector, which would let thousands pile up."""

    async def exchange() -> list[object]:
        port = Port(HOST, free_port(), secure())
        async with listening([port], Echo()) as (connections,):
            for _ in range(3):
                assert (await ask("GET", f"{port.url}/x", ssl=unverified()))[0] == 200
            for greeting in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
                _, writer = await asyncio.open_connection(HOST, port.number)
                writer.write(greeting)
                await asyncio.sleep(0.01)
                writer.close()
                await writer.wait_closed()
            while connections:  # noqa: ASYNC110  # the loop hears of each end
                await asyncio.sleep(0.01)
            return [each for each in gc.get_objects() if isinstance(each, PortConnection | TlsProtocol | SSL.Connection)]

    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            assert runner.run(asyncio.wait_for(exchange(), 10)) == []
    finally:
        gc.enable()


def secure(*, clients_show_theirs: bool = False) -> Callable[[], SSL.Connection]:
    return ServingCertificates(parse_flags([]), 1_790_000_000.0, clients_show_theirs=clients_show_theirs).connection


def unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def test_the_secure_port_speaks_tls_only(caplog: pytest.LogCaptureFixture) -> None:
    port = Port(HOST, free_port(), secure())
    async with listening([port], Echo()):
        assert await ask("GET", f"{port.url}/livez", ssl=unverified()) == (200, "/livez")
        with pytest.raises(aiohttp.ClientError):
            await ask("GET", f"http://{HOST}:{port.number}/livez")
        assert (await ask("GET", f"{port.url}/livez", ssl=unverified()))[0] == 200
    assert caplog.records == []


async def test_garbage_on_a_port_is_answered_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    port = Port(HOST, free_port())
    async with listening([port], Echo()):
        reader, writer = await asyncio.open_connection(HOST, port.number)
        writer.write(b"\x16\x03\x01 garbage\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.0 400 ")
        writer.close()
        await writer.wait_closed()
    assert caplog.records == []


async def test_a_port_that_is_taken_is_named() -> None:
    with closing(socket.create_server((HOST, 0))) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(StartError) as caught:
            async with listening([Port(HOST, number)], Echo()):
                pass
    assert str(caught.value) == f"cannot listen on http://127.0.0.1:{number}: Address already in use"


async def test_ports_are_closed_in_the_end_although_a_client_keeps_a_connection() -> None:
    port = Port(HOST, free_port())
    async with aiohttp.ClientSession() as session:
        async with listening([port], Echo()), session.get(f"{port.url}/livez") as response:
            await response.read()
        with pytest.raises(aiohttp.ClientConnectorError):
            await ask("GET", f"{port.url}/livez")
