"""The verbs of the port as requests to a kube-apiserver.

An answer is decoded straight into the Struct of its kind. No verb is tried again here (but see `transport` for 401): the informer and the
writers know what to do about each error.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.cluster.apiserver.calls import JSON, Call, Calls, Label
from koordsched.cluster.apiserver.decoding import UNDECODABLE, KindDecoder
from koordsched.cluster.apiserver.errors import OK, SentRequest, unreadable_answer
from koordsched.cluster.apiserver.watch import follow, stream_list
from koordsched.cluster.port import ClusterError, Forbidden, Invalid, NotFound, TooManyRequests, Unauthorized
from koordsched.log import get_logger
from koordsched.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from random import Random

    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.cluster.apiserver.identity import Identity
    from koordsched.cluster.apiserver.settings import ConnectionSettings
    from koordsched.cluster.apiserver.traffic import Traffic
    from koordsched.cluster.apiserver.transport import ApiTransport
    from koordsched.cluster.port import Binding, ListPage, Patch, Ref, WatchEvent

log = get_logger(__name__)


class RawRequest(msgspec.Struct, frozen=True):
    """A request as the caller wrote it. `path` begins with a slash and is taken as it is."""

    method: str
    path: str
    query: dict[str, str] = {}
    body: bytes | None = None
    content_type: str = JSON


class ApiServer:
    """A `Cluster` on a real API server. Made by `connect`, to be closed. `random` says how long watches last."""

    def __init__(self, transport: ApiTransport, identity: Identity, settings: ConnectionSettings, random: Random) -> None:
        self._transport = transport
        self._settings = settings
        self._calls = Calls(settings)
        self._random = random
        self._decoders: dict[Kind, KindDecoder] = {}
        self._paged: set[Kind] = set()  # kinds whose streaming list the server refused
        self._tasks = Tasks(random)
        self._tasks.keep("credential renewal", identity.run)

    @property
    def max_silence(self) -> float:
        """Return the time of three of the API server's bookmarks."""
        return self._settings.max_silence

    @property
    def traffic(self) -> Traffic:
        return self._transport.traffic

    @property
    def server(self) -> str:
        """Return the API server's address."""
        return self._transport.server

    async def close(self) -> None:
        """Stop renewing credentials and close all connections; what is under way fails."""
        await self._tasks.end()
        await self._transport.close()

    async def check(self) -> None:
        """Ask for the server's version. ClusterError says why it is not reached, not trusted, or refuses the credentials."""
        with suppress(Forbidden):  # the credentials are accepted, which is all that is asked here
            await self.raw(RawRequest("GET", "/version"))

    async def raw(self, request: RawRequest) -> bytes:
        """Send a request that the port has no verb for, and return the answer. For tools and tests."""
        call = Call(
            label=Label(request.method.lower(), ""),  # paths would make the counts grow without bound
            method=request.method,
            path=request.path,
            query=request.query,
            body=request.body,
            content_type=request.content_type if request.body is not None else "",
            seconds=self._settings.request_timeout,
        )
        return bytes(await self._transport.request(call))

    async def list(self, kind: Kind, *, field_selector: str = "", limit: int = 0, continue_token: str = "") -> ListPage:
        """Return a page of the newest state; where the server streams lists, the first page holds everything."""
        if self._settings.streaming_lists and not continue_token and kind not in self._paged:
            page = await self._streamed(kind, field_selector)
            if page is not None:
                return page
        call = self._calls.list_page(kind, field_selector=field_selector, limit=limit, continue_token=continue_token)
        body = await self._transport.request(call)
        try:
            return await self._decoder(kind).page(body)
        except UNDECODABLE as error:
            raise self._unreadable(call, error) from None

    async def watch(self, kind: Kind, *, resource_version: str, field_selector: str = "") -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Watch for a random time; see `follow`."""
        seconds = self._random.uniform(*self._settings.watch_seconds)
        call = self._calls.watch(kind, seconds, resource_version=resource_version, field_selector=field_selector)
        async with aclosing(follow(self._transport, call, self._decoder(kind))) as batches:
            async for batch in batches:
                yield batch

    async def get(self, ref: Ref) -> Object:
        return await self._object(ref.kind, self._calls.get(ref))

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        return await self._object(kind, self._calls.create(kind, body))

    async def patch(self, ref: Ref, patch: Patch) -> Object:
        return await self._object(ref.kind, self._calls.patch(ref, patch))

    async def update(self, ref: Ref, body: Mapping[str, Any]) -> Object:
        return await self._object(ref.kind, self._calls.update(ref, body))

    async def delete(self, ref: Ref, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        await self._transport.request(self._calls.delete(ref, uid=uid, grace_period_seconds=grace_period_seconds))

    async def evict(self, ref: Ref, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        await self._transport.request(self._calls.evict(ref, uid=uid, grace_period_seconds=grace_period_seconds))

    async def bind(self, binding: Binding) -> None:
        await self._transport.request(self._calls.bind(binding))

    async def _streamed(self, kind: Kind, field_selector: str) -> ListPage | None:
        """Return the whole list read as a watch, or None: it is to be read in pages, from now on if the server refuses to stream."""
        call = self._calls.streaming_list(kind, field_selector=field_selector)
        try:
            return await stream_list(self._transport, call, self._decoder(kind))
        except Invalid:
            self._paged.add(kind)
        except (NotFound, TooManyRequests, Unauthorized):
            raise
        except ClusterError as error:
            log.info("no streaming list this time; listing in pages", kind=kind.plural_group, error=error.message)
        return None

    async def _object(self, kind: Kind, call: Call) -> Object:
        body = await self._transport.request(call)
        try:
            return self._decoder(kind).object(body)
        except UNDECODABLE as error:
            raise self._unreadable(call, error) from None

    def _unreadable(self, call: Call, error: Exception) -> ClusterError:
        return unreadable_answer(SentRequest(call.method, self._transport.server + call.path), OK, error)

    def _decoder(self, kind: Kind) -> KindDecoder:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = KindDecoder(kind, self._transport.traffic.unreadable)
        return decoder
