"""Requests of JSON whose errors are those of the port (`cluster.port`), whatever the client below raises."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from koordsched.apiclient.client import ApiException
from koordsched.cluster.apiserver import TRANSPORT_ERRORS, SentRequest, answer_error, transport_error, wire_error
from koordsched.cluster.port import ServerError, TooManyRequests

Json = dict[str, Any]

BUSY_ATTEMPTS, BUSY_SECONDS = 5, 2.0


class JsonRequests(Protocol):
    """Sends a request and returns the JSON of a 2xx answer; ApiException for any other (`apiclient.client.Client`)."""

    @property
    def server(self) -> str: ...

    async def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any: ...


async def send(requests: JsonRequests, method: str, path: str, body: Mapping[str, Any] | None = None) -> Json:
    """Send the request; an API server that is busy is asked again when it says so. ClusterError."""
    for _ in range(BUSY_ATTEMPTS):
        try:
            return await _send_once(requests, method, path, body)
        except TooManyRequests as busy:
            await asyncio.sleep(min(busy.retry_after, BUSY_SECONDS))
    return await _send_once(requests, method, path, body)


async def _send_once(requests: JsonRequests, method: str, path: str, body: Mapping[str, Any] | None) -> Json:
    sent = SentRequest(method, requests.server + path)
    try:
        answer = await requests.request(method, path, body)
    except ApiException as refused:
        retry_after = refused.headers.get("Retry-After") if refused.headers is not None else None
        text: str | bytes | None = refused.body  # `call_api` decodes it, whatever its type says
        found = text.encode() if isinstance(text, str) else text or b""
        raise answer_error(sent, refused.status, found, retry_after) from None
    except TRANSPORT_ERRORS as error:
        raise transport_error(sent, wire_error(error)) from None
    if not isinstance(answer, dict):
        raise ServerError(f"{method} {path}: expected an object, seen {str(answer)[:80]!r}")
    return answer
