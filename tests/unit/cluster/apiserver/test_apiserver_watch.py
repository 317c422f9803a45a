"""Watches and streaming lists on the wire."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import StreamReader, web
from structlog.testing import capture_logs

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.port import ADDED, BOOKMARK, DELETED, MODIFIED, ClusterError, Gone, NotFound, ServerError, TooManyRequests

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind
    from koordsched.cluster.apiserver import ApiServer

LONG = "x" * 300_000


def event(event_type: str, name: str, version: str, **metadata: Any) -> bytes:
    obj = {"metadata": {"name": name, "resourceVersion": version, **metadata}}
    return msgspec.json.encode({"type": event_type, "object": obj}) + b"\n"


def end_of_list(version: str) -> bytes:
    return event("BOOKMARK", "", version, annotations={"k8s.io/initial-events-end": "true"})


class Stream:
    """A watch that sends these pieces one by one and then ends as it is made to."""

    def __init__(self, *pieces: bytes, end: str = "close") -> None:
        self._pieces = pieces
        self._end = end
        self.over = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            for piece in self._pieces:
                await response.write(piece)
                await asyncio.sleep(0.005)
            if self._end == "abort":
                assert request.transport is not None
                request.transport.abort()
            elif self._end == "hang":
                await asyncio.sleep(30)
        finally:
            self.over.set()
        return response


async def read(api: ApiServer, kind: Kind = NODE) -> list[tuple[Any, str]]:
    found = []
    async for batch in api.watch(kind, resource_version="5", field_selector="a=b"):
        assert batch
        found += [(change.type, change.object.metadata.resource_version) for change in batch]
    return found


async def test_a_watch_begins_at_the_version_and_asks_for_bookmarks(api: ApiServer, server: Any) -> None:
    server.answer = Stream()
    assert await read(api) == []
    [seen] = server.seen
    assert seen.path == "/api/v1/nodes"
    seconds = int(seen.query.pop("timeoutSeconds"))
    assert 300 <= seconds <= 600
    assert seen.query == {"watch": "true", "resourceVersion": "5", "allowWatchBookmarks": "true", "fieldSelector": "a=b"}


async def test_events_cut_anywhere_come_out_whole_and_in_order(api: ApiServer, server: Any) -> None:
    text = event("ADDED", "a", "6") + event("MODIFIED", "a", "7") + event("DELETED", "a", "8") + event("BOOKMARK", "", "9")
    for cut in (1, 40, len(text) // 2, len(text) - 1):
        server.answer = Stream(text[:cut], text[cut:])
        assert await read(api) == [(ADDED, "6"), (MODIFIED, "7"), (DELETED, "8"), (BOOKMARK, "9")]


async def test_an_event_larger_than_any_buffer_is_read(api: ApiServer, server: Any) -> None:
    server.answer = Stream(event("ADDED", "a", "6", annotations={"a": LONG}) + event("MODIFIED", "a", "7", annotations={"a": LONG * 6}))
    assert await read(api) == [(ADDED, "6"), (MODIFIED, "7")]


async def test_what_is_read_at_once_is_one_batch(api: ApiServer, server: Any) -> None:
    server.answer = Stream(event("ADDED", "a", "6") + event("ADDED", "b", "7"))
    batches = [len(batch) async for batch in api.watch(NODE, resource_version="5")]
    assert batches == [2]


async def test_a_broken_connection_is_an_end_and_half_an_event_is_forgotten(api: ApiServer, server: Any) -> None:
    server.answer = Stream(event("ADDED", "a", "6") + event("ADDED", "b", "7")[:-5], end="abort")
    assert await read(api) == [(ADDED, "6")]


async def test_a_broken_connection_leaves_nothing_to_the_garbage_collector(api: ApiServer, server: Any) -> None:
    server.answer = Stream(event("ADDED", "a", "6"), end="abort")
    await read(api)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            await read(api)
        left = [each for each in gc.get_objects() if isinstance(each, StreamReader) and each.exception() is not None]
    finally:
        gc.enable()
    assert left == []


async def test_history_that_is_gone_is_reported_by_status_or_by_an_error_event(api: ApiServer, server: Any) -> None:
    status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version: 5 (9)"}
    server.answers((410, status))
    with pytest.raises(Gone, match="too old resource version"):
        await read(api)
    server.answer = Stream(event("ADDED", "a", "6") + msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n")
    batches = api.watch(POD, resource_version="5")
    assert [change.object.metadata.name for change in await anext(batches)] == ["a"]
    with pytest.raises(Gone, match="too old resource version"):
        await anext(batches)


async def test_an_error_event_of_another_sort_is_mapped_like_a_status(api: ApiServer, server: Any) -> None:
    status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd event received with PrevKv=nil"}
    server.answer = Stream(msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n")
    with pytest.raises(ServerError, match="PrevKv"):
        await read(api)


async def test_a_deletion_that_cannot_be_read_asks_for_a_new_list(api: ApiServer, server: Any) -> None:
    server.answer = Stream(b'{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"6"},"spec":{"unschedulable":"yes"}}}\n')
    with capture_logs(), pytest.raises(Gone, match='nodes "a" was deleted'):
        await read(api)


async def test_a_reader_that_stops_early_closes_the_watch(api: ApiServer, server: Any) -> None:
    stream = server.answer = Stream(event("ADDED", "a", "6"), end="hang")
    async with aclosing(api.watch(NODE, resource_version="5")) as batches:
        async for _ in batches:
            break
    async with asyncio.timeout(5):
        await stream.over.wait()


async def test_a_watch_that_is_silent_for_longer_than_the_informer_allows_ends(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, max_silence=-9.9)  # 0.1 s with the margin
    server.answer = Stream(event("ADDED", "a", "6"), end="hang")
    assert await read(api) == [(ADDED, "6")]


async def test_watched_bytes_are_counted(api: ApiServer, server: Any) -> None:
    text = event("ADDED", "a", "6")
    server.answer = Stream(text)
    await read(api)
    assert api.traffic.received["watch", "nodes"] == len(text)
    assert api.traffic.requests["watch", "nodes"] == 1


async def test_a_streaming_list_holds_everything_up_to_its_mark(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, streaming_lists=True)
    first = event("ADDED", "a", "2") + event("ADDED", "b", "3")
    second = event("ADDED", "c", "4") + event("DELETED", "b", "5")
    server.answer = Stream(first, second, end_of_list("7"), end="hang")
    page = await api.list(NODE, limit=500, field_selector="a=b")
    assert [obj.metadata.name for obj in page.items] == ["a", "c"]
    assert (page.resource_version, page.continue_token) == ("7", "")
    [seen] = server.seen
    assert seen.query == {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "120",
        "fieldSelector": "a=b",
    }


async def test_a_streaming_list_names_what_cannot_be_read(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, streaming_lists=True)
    unreadable = b'{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"3"},"spec":{"unschedulable":"yes"}}}\n'
    server.answer = Stream(event("ADDED", "a", "2"), unreadable, end_of_list("7"))
    page = await api.list(NODE)
    assert [obj.metadata.name for obj in page.items] == ["a"]
    assert page.unreadable == ["b"]
    assert api.traffic.unreadable == {"nodes": 1}


async def test_a_streaming_list_that_ends_too_early_is_read_in_pages_this_time(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, streaming_lists=True)
    server.answer = Stream(event("ADDED", "a", "2"))
    with capture_logs() as logs, pytest.raises(ClusterError):  # the answer is no page either
        await api.list(NODE)
    assert logs == [
        {
            "event": "no streaming list this time; listing in pages",
            "log_level": "info",
            "kind": "nodes",
            "error": "nodes: the stream of all objects ended before all had come",
        }
    ]


async def test_an_ordinary_bookmark_does_not_end_a_streaming_list(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, streaming_lists=True)
    server.answer = Stream(event("BOOKMARK", "", "1"), event("ADDED", "a", "2"), end_of_list("7"))
    assert [obj.metadata.name for obj in (await api.list(POD)).items] == ["a"]


@pytest.mark.parametrize("code", [400, 422])
async def test_a_server_that_does_not_stream_a_kind_is_asked_for_pages_from_then_on(server: Any, connected: Any, code: int) -> None:
    api = await connected(master=server.url, streaming_lists=True)
    refusal = {
        "kind": "Status",
        "code": code,
        "message": "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    }
    server.answers((code, refusal), (200, {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "a"}}]}))
    for _ in range(2):
        page = await api.list(NODE, limit=500)
        assert [obj.metadata.name for obj in page.items] == ["a"]
    assert ["sendInitialEvents" in seen.query for seen in server.seen] == [True, False, False]


async def test_a_streaming_list_that_breaks_off_is_read_in_pages_this_time(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, streaming_lists=True)
    whole = Stream(event("ADDED", "a", "2"), end_of_list("7"))
    broken = Stream(event("ADDED", "a", "2"), end="abort")

    async def answer(request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "9"}, "items": []})
        return await (broken if len(server.seen) == 1 else whole)(request)

    server.answer = answer
    assert (await api.list(NODE)).resource_version == "9"
    assert (await api.list(NODE)).resource_version == "7"


@pytest.mark.parametrize(("code", "error"), [(404, NotFound), (429, TooManyRequests)])
async def test_other_refusals_of_a_streaming_list_are_the_lists_own(server: Any, connected: Any, code: int, error: type[Exception]) -> None:
    api = await connected(master=server.url, streaming_lists=True)
    server.answers((code, {"kind": "Status", "code": code, "message": "no"}))
    with pytest.raises(error):
        await api.list(NODE)
    assert len(server.seen) == 1


async def test_a_watch_that_is_refused_says_when_to_come_back(api: ApiServer, server: Any) -> None:
    async def busy(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "code": 429, "message": "no"}, status=429, headers={"Retry-After": "7"})

    server.answer = busy
    with pytest.raises(TooManyRequests) as raised:
        await anext(api.watch(NODE, resource_version="1"))
    assert (raised.value.message, raised.value.retry_after) == ("no", 7.0)
