"""aiohttp's sessions: what is asked through a proxy, what is not done for the server's sake, and which time limits hold."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from multidict import CIMultiDict

from koordsched.cluster.apiserver.calls import Call, Label, Pool
from koordsched.cluster.apiserver.credentials import Fixed
from koordsched.cluster.apiserver.sessions import Sessions, read_whole
from koordsched.cluster.apiserver.settings import ConnectionSettings
from koordsched.cluster.apiserver.target import Target
from koordsched.cluster.apiserver.wire import MAX_REFUSAL, TRANSPORT_ERRORS, ApiResponse, NoAnswer, NotSent

Make = Callable[..., Sessions]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
API = "http://api.example.org"


@pytest_asyncio.fixture
async def make(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Make sessions to an API server, closed in the end."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made: list[Sessions] = []

    def one(server: str, proxy: str = "", **settings: Any) -> Sessions:
        made.append(Sessions(Target(server=server, credentials=Fixed(), proxy=proxy), ConnectionSettings(**settings)))
        return made[-1]

    yield one
    for sessions in made:
        await sessions.close()


def call(**fields: Any) -> Call:
    return Call(**{"label": Label("get", "nodes"), "method": "GET", "path": "/x", "seconds": 5.0, **fields})


async def ask(sessions: Sessions, url: str, **fields: Any) -> ApiResponse:
    return await read_whole(await sessions.send(call(**fields), url, CIMultiDict(), None), 1000)


def says(answer: web.StreamResponse) -> Handler:
    async def say(_request: web.Request) -> web.StreamResponse:
        return answer

    return say


async def hangs(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(10)
    return web.Response()


@pytest.mark.parametrize(
    ("user", "header"),
    [("", None), ("me:secret@", "Basic bWU6c2VjcmV0"), ("me@", "Basic bWU6")],
    ids=["no user", "with a password", "without"],
)
async def test_a_proxy_is_asked_for_the_whole_address_and_gets_the_user(server: Any, make: Make, user: str, header: str | None) -> None:
    server.answers((200, {}))
    sessions = make(API, server.url.replace("http://", f"http://{user}"))
    assert sessions.proxied
    assert (await ask(sessions, f"{API}/x")).status == 200
    (seen,) = server.seen
    assert (seen.headers["Host"], seen.headers.get("Proxy-Authorization")) == ("api.example.org", header)


async def test_a_proxy_is_asked_for_a_tunnel_to_a_secure_address_and_gets_the_user(make: Make) -> None:
    asked: list[list[bytes]] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n"))
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        with pytest.raises(NotSent, match=r"^code 403: Forbidden$"):
            await ask(make("https://api.example.org", f"http://me:secret@127.0.0.1:{port}"), "https://api.example.org/x")
    (lines,) = asked
    assert lines[0] == b"CONNECT api.example.org:443 HTTP/1.1"
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in lines


async def test_a_proxy_without_a_scheme_speaks_http(server: Any, make: Make) -> None:
    server.answers((200, {}))
    assert (await ask(make(API, server.url.removeprefix("http://")), f"{API}/x")).status == 200


async def test_without_a_proxy_the_server_is_asked(server: Any, make: Make) -> None:
    server.answers((200, {}))
    sessions = make(server.url)
    assert not sessions.proxied
    assert (await ask(sessions, f"{server.url}/a%2Fb?c=%20", method="POST", body=b"{}")).status == 200
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.query, seen.body) == ("POST", "/a/b", {"c": " "}, b"{}")


async def test_a_redirection_is_not_followed(server: Any, make: Make) -> None:
    server.answer = says(web.Response(status=302, headers={"Location": f"{server.url}/elsewhere"}))
    assert (await ask(make(server.url), f"{server.url}/x")).status == 302
    assert len(server.seen) == 1


async def test_cookies_are_not_kept(server: Any, make: Make) -> None:
    async def with_cookie(_request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"Set-Cookie": "who=me"})

    server.answer = with_cookie
    url = server.url.replace("127.0.0.1", "localhost")  # aiohttp keeps no cookies of addresses
    sessions = make(url)
    for _ in range(2):
        await ask(sessions, f"{url}/x")
    assert ["Cookie" in seen.headers for seen in server.seen] == [False, False]


async def test_an_answer_is_not_unpacked(server: Any, make: Make) -> None:
    packed = gzip.compress(b"{}")
    server.answer = says(web.Response(body=packed, headers={"Content-Encoding": "gzip"}))
    assert (await ask(make(server.url), f"{server.url}/x")).body == packed


async def test_each_pool_has_connections_of_its_own_until_all_are_closed(server: Any, make: Make) -> None:
    server.answers((200, {}))
    sessions = make(server.url)
    for pool in (Pool.WATCH, Pool.WATCH, Pool.BIND):
        await ask(sessions, f"{server.url}/x", pool=pool)
    first = dict(sessions._sessions)
    assert list(first) == [Pool.WATCH, Pool.BIND]
    await sessions.close()
    assert [session.closed for session in first.values()] == [True, True]
    assert sessions._sessions == {}


async def test_the_proxy_of_the_environment_is_asked(server: Any, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "other.example.org")
    server.answers((200, {}))
    assert (await ask(make(API), f"{API}/x")).status == 200
    assert [seen.headers["Host"] for seen in server.seen] == ["api.example.org"]
    assert not make("http://other.example.org").proxied


async def test_watches_do_not_wait_for_each_other(server: Any, make: Make) -> None:
    """There is one for each kind, all at the same time."""

    async def begin(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first")
        await asyncio.sleep(10)
        return answer

    server.answer = begin
    sessions = make(server.url)
    async with asyncio.timeout(5):
        watches = [await sessions.send(call(pool=Pool.WATCH), f"{server.url}/x", CIMultiDict(), None) for _ in range(20)]
        assert [await watch.content.readany() for watch in watches] == [b"first"] * 20
    for watch in watches:
        watch.close()


@pytest.mark.parametrize(
    ("settings", "fields"),
    [({}, {"seconds": 0.05}), ({}, {"silence": 0.05}), ({"request_timeout": 0.05}, {"seconds": None})],
    ids=["in all", "silence", "the beginning of a watch"],
)
async def test_who_says_nothing_in_time_gives_no_answer(server: Any, make: Make, settings: Any, fields: Any) -> None:
    server.answer = hangs
    async with asyncio.timeout(5):
        with pytest.raises(NoAnswer, match=r"^i/o timeout$|^[Tt]imeout"):
            await ask(make(server.url, **settings), f"{server.url}/x", **fields)


async def test_a_call_with_a_limit_of_its_own_may_take_longer_than_a_request(server: Any, make: Make) -> None:
    async def slow(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return web.Response(text="late")

    server.answer = slow
    assert (await ask(make(server.url, request_timeout=0.02), f"{server.url}/x", seconds=5.0)).body == b"late"


async def test_a_stream_that_falls_silent_is_given_up(server: Any, make: Make) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first")
        await asyncio.sleep(10)
        return answer

    server.answer = stream
    async with asyncio.timeout(5):
        response = await make(server.url).send(call(seconds=None, silence=0.05), f"{server.url}/x", CIMultiDict(), None)
        assert await response.content.readany() == b"first"
        with pytest.raises(TRANSPORT_ERRORS):
            await response.content.readany()
        response.close()


async def test_what_cannot_be_reached_was_not_asked(make: Make) -> None:
    with pytest.raises(NotSent):
        await ask(make("http://127.0.0.1:1"), "http://127.0.0.1:1/x")


@pytest.mark.parametrize(("status", "limit"), [(200, 1000), (500, 1000)])
async def test_an_answer_of_the_largest_size_is_whole_and_a_larger_one_is_cut(server: Any, make: Make, status: int, limit: int) -> None:
    server.answer = says(web.Response(status=status, body=b"x" * limit, headers={"Retry-After": "7"}))
    assert await ask(make(server.url), f"{server.url}/x") == ApiResponse(status, b"x" * limit, "7", "")
    server.answer = says(web.Response(status=status, body=b"x" * (limit + 1), headers={"Retry-After": "7"}))
    answer = await ask(make(server.url), f"{server.url}/x")
    assert (answer.status, answer.retry_after, answer.flaw) == (status, "7", f"it is larger than {limit} bytes")
    assert len(answer.body) <= limit < MAX_REFUSAL


async def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came(server: Any, make: Make) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(status=409, headers={"Content-Length": "10", "Retry-After": "3"})
        await answer.prepare(request)
        await answer.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return answer

    server.answer = cut
    assert await ask(make(server.url), f"{server.url}/x") == ApiResponse(409, b"half", "3", "it broke off")
