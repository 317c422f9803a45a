"""What comes out when there is no answer, or only half of one. Nothing but errors of the port may."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.port import Binding, OutcomeUnknown, Patch, Ref, ServerError, TooManyRequests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koordsched.cluster.apiserver import ApiServer

BINDING = Binding("web", "nginx", "u1", "node-1")
NGINX = Ref(POD, "web", "nginx")

WRITES: list[Callable[[ApiServer], Awaitable[object]]] = [
    lambda api: api.bind(BINDING),
    lambda api: api.patch(NGINX, Patch({"a": 1})),
    lambda api: api.update(NGINX, {"a": 1}),
    lambda api: api.create(POD, {"metadata": {"namespace": "web", "name": "nginx"}}),
]
READS: list[Callable[[ApiServer], Awaitable[object]]] = [lambda api: api.get(NGINX), lambda api: api.list(NODE)]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def reset(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def half_an_answer(request: web.Request) -> web.StreamResponse:
    """Announce more than is sent, then break the connection."""
    response = web.StreamResponse(status=200, headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"metadata":')
    await asyncio.sleep(0.01)
    await reset(request)
    return response


async def hang(request: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


@pytest.mark.parametrize("verb", [*WRITES, *READS])
async def test_a_request_that_was_never_sent_has_written_nothing(connected: Any, verb: Any) -> None:
    port = unused_port()
    api = await connected(master=f"http://127.0.0.1:{port}")
    with pytest.raises(ServerError) as raised:
        await verb(api)
    assert raised.value.message.startswith(f"http://127.0.0.1:{port} cannot be reached: ")
    assert raised.value.message.endswith(": connection refused")
    assert raised.value.status == 0, "there was no answer, and the log must not say that there was"


async def test_an_address_that_no_one_knows_is_named(connected: Any) -> None:
    api = await connected(master="http://no-such-host.invalid:6443")
    with pytest.raises(ServerError, match=r"^http://no-such-host\.invalid:6443 cannot be reached: "):
        await api.check()


@pytest.mark.parametrize("fault", [reset, hang])
@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_without_an_answer_may_have_been_carried_out(server: Any, connected: Any, verb: Any, fault: Any) -> None:
    api = await connected(master=server.url, request_timeout=0.1)
    server.answer = fault
    with pytest.raises(OutcomeUnknown, match=rf"^(POST|PATCH|PUT) {server.url}/api/v1/.*: no answer: "):
        await verb(api)


@pytest.mark.parametrize("fault", [reset, hang, half_an_answer])
@pytest.mark.parametrize("verb", READS)
async def test_a_read_without_an_answer_can_be_tried_again(server: Any, connected: Any, verb: Any, fault: Any) -> None:
    api = await connected(master=server.url, request_timeout=0.1, list_timeout=0.1)
    server.answer = fault
    with pytest.raises(ServerError, match=r"^GET "):
        await verb(api)


async def test_a_write_whose_object_got_lost_on_the_way_back_was_carried_out_perhaps(api: ApiServer, server: Any) -> None:
    server.answer = half_an_answer
    with pytest.raises(OutcomeUnknown):
        await api.patch(NGINX, Patch({"a": 1}))


async def test_a_bind_whose_success_was_read_is_done_whatever_happens_to_the_rest(api: ApiServer, server: Any) -> None:
    server.answer = half_an_answer
    await api.bind(BINDING)


async def test_an_answer_that_is_no_json_is_a_servers_error(api: ApiServer, server: Any) -> None:
    server.answers((200, b"<html>"))
    for verb in READS:
        with pytest.raises(ServerError, match="200, but the answer cannot be read"):
            await verb(api)
    with pytest.raises(OutcomeUnknown, match="200, but the answer cannot be read"):
        await api.patch(NGINX, Patch({}))


async def test_an_explanation_that_breaks_off_leaves_the_status(api: ApiServer, server: Any) -> None:
    async def refusal(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=429, headers={"Content-Length": "1000", "Retry-After": "4"})
        await response.prepare(request)
        return await reset(request)

    server.answer = refusal
    with pytest.raises(TooManyRequests) as raised:
        await api.bind(BINDING)
    assert raised.value.retry_after == 4.0


async def test_redirects_are_not_followed(api: ApiServer, server: Any) -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": f"{server.url}/other"})

    server.answer = elsewhere
    with pytest.raises(ServerError, match="302"):
        await api.check()
    assert len(server.seen) == 1


async def test_after_closing_requests_fail_as_if_the_server_were_gone(api: ApiServer) -> None:
    await api.close()
    with pytest.raises(ServerError, match="is closed"):
        await api.bind(BINDING)


async def test_no_request_is_tried_again_by_itself(api: ApiServer, server: Any) -> None:
    server.answers((503, b""))
    for verb in [*WRITES, *READS]:
        with pytest.raises(ServerError):
            await verb(api)
    assert len(server.seen) == len([*WRITES, *READS])


async def test_a_storm_of_binds_does_not_hold_up_other_requests(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, connections=1)

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/binding"):
            return await hang(request)
        return web.Response(body=b'{"metadata":{"name":"nginx"}}')

    server.answer = answer
    binds = [asyncio.create_task(api.bind(BINDING)) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert (await api.get(NGINX)).metadata.name == "nginx"
    for bind in binds:
        bind.cancel()
    await asyncio.gather(*binds, return_exceptions=True)


async def test_a_watch_that_is_not_answered_ends_like_any_request(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, request_timeout=0.1)
    server.answer = hang
    with pytest.raises(ServerError, match=rf"^GET {server.url}/api/v1/nodes: no answer: i/o timeout"):
        await anext(api.watch(NODE, resource_version="5"))


async def test_a_watch_that_is_answered_may_be_silent_for_longer_than_a_request(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, request_timeout=0.1)

    async def late(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(0.3)
        await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"6"}}}\n')
        return response

    server.answer = late
    async with aclosing(api.watch(NODE, resource_version="5")) as batches:
        assert [event.object.metadata.name for event in await anext(batches)] == ["n"]
