"""The ports: what is carried to whom, on real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import closing

import aiohttp
import pytest

from koordsched.config import parse_flags
from koordsched.server.access import Access
from koordsched.server.mistakes import StartError
from koordsched.server.ports import Port, listening
from koordsched.server.response import TEXT, Response
from koordsched.server.tls import server_context

HOST = "127.0.0.1"


def free_port() -> int:
    with closing(socket.create_server((HOST, 0))) as listener:
        return int(listener.getsockname()[1])


class Echo:
    """Answers with what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answer(self, target: str) -> Response:
        self.asked.append(target)
        return Response(200, TEXT, target.encode())

    def delete(self, target: str) -> Response:
        return Response(200, TEXT, f"deleted {target}".encode())


class FarAway(Access, frozen=True):
    """Takes every peer for another host."""

    def refusal(self, peer: str, target: str) -> str:
        assert peer == HOST
        return super().refusal("10.1.2.3", target)


async def ask(method: str, url: str, **more: object) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, url, **more) as response:  # type: ignore[arg-type]
        return response.status, await response.text()


async def test_a_request_is_carried_with_its_query() -> None:
    port = Port(HOST, free_port())
    async with listening([port], Access(), Echo()):
        assert await ask("GET", f"{port.url}/readyz?verbose&exclude=a") == (200, "/readyz?verbose&exclude=a")
        assert await ask("GET", f"{port.url}/readyz/") == (200, "/readyz/")


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_are_not_allowed(method: str) -> None:
    echo, port = Echo(), Port(HOST, free_port())
    async with listening([port], Access(), echo):
        assert (await ask(method, f"{port.url}/healthz", data=b"x" * 100_000 if method == "PUT" else None))[0] == 405
        assert await ask("GET", f"{port.url}/healthz") == (200, "/healthz")
    assert echo.asked == ["/healthz"]


async def test_a_delete_is_carried_as_such() -> None:
    echo, port = Echo(), Port(HOST, free_port())
    async with listening([port], Access(), echo):
        assert await ask("DELETE", f"{port.url}/metrics") == (200, "deleted /metrics")
    assert echo.asked == []


async def test_another_host_gets_only_what_is_open() -> None:
    echo, port = Echo(), Port(HOST, free_port())
    async with listening([port], FarAway(("/healthz",)), echo):
        assert await ask("GET", f"{port.url}/healthz") == (200, "/healthz")
        status, text = await ask("GET", f"{port.url}/metrics")
        assert status == 403
        assert text.startswith("forbidden: ")
        assert (await ask("POST", f"{port.url}/metrics"))[0] == 403
        assert (await ask("DELETE", f"{port.url}/metrics"))[0] == 403
    assert len(echo.asked) == 1


async def test_the_secure_port_speaks_tls_only(caplog: pytest.LogCaptureFixture) -> None:
    tls = server_context(parse_flags([]), 1_790_000_000.0)
    port = Port(HOST, free_port(), tls)
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    async with listening([port], Access(), Echo()):
        assert await ask("GET", f"{port.url}/livez", ssl=unverified) == (200, "/livez")
        with pytest.raises(aiohttp.ClientError):
            await ask("GET", f"http://{HOST}:{port.number}/livez")
        assert (await ask("GET", f"{port.url}/livez", ssl=unverified))[0] == 200
    assert caplog.records == []


async def test_nonsense_on_a_port_is_answered_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    port = Port(HOST, free_port())
    async with listening([port], Access(), Echo()):
        reader, writer = await asyncio.open_connection(HOST, port.number)
        writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.0 400 ")
        writer.close()
        await writer.wait_closed()
    assert caplog.records == []


async def test_a_port_that_is_taken_is_named() -> None:
    with closing(socket.create_server((HOST, 0))) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(StartError) as caught:
            async with listening([Port(HOST, number)], Access(), Echo()):
                pass
    assert str(caught.value) == f"cannot listen on http://127.0.0.1:{number}: Address already in use"


async def test_ports_are_closed_in_the_end_although_somebody_keeps_a_connection() -> None:
    port = Port(HOST, free_port())
    async with aiohttp.ClientSession() as session:
        async with listening([port], Access(), Echo()), session.get(f"{port.url}/livez") as response:
            await response.read()
        with pytest.raises(aiohttp.ClientConnectorError):
            await ask("GET", f"{port.url}/livez")
