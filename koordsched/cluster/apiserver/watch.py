"""One watch on the wire, and the list that is made of one.

A watch ends when its time is over, when the connection breaks or with an ERROR event. Only the last raises: for the others the informer
simply watches again from the last version. A streaming list (KEP-3157) is a watch that begins with all there is and marks where that ends.
An event may be cut anywhere between two reads, and one read may hold thousands of them: lines are handed on together, as one piece of
bytes, because decoding many at once is cheaper than one after the other.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from koordsched.cluster.apiserver.errors import SentRequest, status_error
from koordsched.cluster.apiserver.wire import TRANSPORT_ERRORS
from koordsched.cluster.object_store import object_key
from koordsched.cluster.port import BOOKMARK, DELETED, Gone, ListPage, ServerError, WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from koordsched.api.meta import Object
    from koordsched.cluster.apiserver.calls import Call
    from koordsched.cluster.apiserver.decoding import KindDecoder
    from koordsched.cluster.apiserver.transport import ApiTransport


class LineTooLongError(ValueError):
    """A line is longer than the limit."""


class LineBuffer:
    """Collects pieces until they hold the end of a line, which must come within `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """Return the lines that are whole now, b"" when none is. LineTooLongError."""
        end = piece.rfind(b"\n") + 1
        if not end:
            self._begin(piece)
            return b""
        lines = piece[:end]
        if self._begun:
            lines = bytes(self._begun) + lines
            self._begun.clear()
        self._begin(piece[end:])
        return lines

    def _begin(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > self._limit:
            raise LineTooLongError(f"larger than {self._limit} bytes")
        self._begun += piece


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def follow(transport: ApiTransport, call: Call, decoder: KindDecoder) -> AsyncGenerator[Sequence[WatchEvent], None]:
    """Yield what each read of the watch brought, in order, until it ends; a broken connection is an end like any other."""
    received = transport.traffic.received
    buffer = LineBuffer(transport.max_answer)
    async with transport.open(call) as response:
        while True:
            try:
                piece = await response.content.readany()
            except TRANSPORT_ERRORS as broken:
                # The stream keeps its error, and the error the frames in which it was raised, which hold the stream: a circle that would
                # wait for the garbage collector, and some API servers' load balancers break watches off every minute.
                broken.with_traceback(None)
                return
            if not piece:
                return
            received[call.label] += len(piece)
            try:
                lines = buffer.feed(piece)
            except LineTooLongError as error:
                # Watching again from the same version would bring the same event: a list gets past it.
                raise Gone(f"{call.label.plural}: an event of the watch is {error}") from None
            if not lines:
                continue
            batch = decoder.batch(lines)
            if batch.events:
                yield batch.events
            if batch.status is not None:
                raise status_error(SentRequest(call.method, transport.server + call.path), batch.status)
            if batch.lost:
                raise Gone(batch.lost)


async def stream_list(transport: ApiTransport, call: Call, decoder: KindDecoder) -> ListPage:
    """Read the beginning of a watch that starts with all objects. ServerError: it ended before all had come."""
    objects: dict[str, Object | None] = {}  # by key; None: it cannot be read
    async with aclosing(follow(transport, call, decoder)) as batches:
        async for batch in batches:
            end = _take(objects, batch)
            if end:
                items = [obj for obj in objects.values() if obj is not None]
                return ListPage(items, end, unreadable=[key for key, obj in objects.items() if obj is None])
            await asyncio.sleep(0)  # the next piece may be there already: other tasks get their turn in between
    raise ServerError(f"{call.label.plural}: the stream of all objects ended before all had come")


def _take(objects: dict[str, Object | None], batch: Sequence[WatchEvent]) -> str:
    """Apply the events; return the version of the list when it is complete, else ""."""
    for event in batch:
        metadata = event.object.metadata
        if event.type is BOOKMARK:
            if metadata.annotations.get(INITIAL_EVENTS_END) == "true":
                return metadata.resource_version
            if metadata.name:
                objects[object_key(event.object)] = None
        elif event.type is DELETED:
            objects.pop(object_key(event.object), None)
        else:
            objects[object_key(event.object)] = event.object
    return ""
