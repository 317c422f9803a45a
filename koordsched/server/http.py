"""HTTP messages as everything behind the ports sees them: a request that is already parted, and what an endpoint answers.

Paths are decoded before they are authorised, so that what is authorised is what is answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


class RequestHeaders(Protocol):
    """Headers as a multidict has them: keys are found in whatever case."""

    def get(self, key: str, default: str, /) -> str: ...
    def getall(self, key: str, default: list[str], /) -> list[str]: ...
    def items(self) -> Iterable[tuple[str, str]]: ...


class NoHeaders:
    """The headers of a request that never was on a wire, such as a scenario's: multidict takes longer to import than that runs."""

    def get(self, _key: str, default: str, /) -> str:
        return default

    def getall(self, _key: str, default: list[str], /) -> list[str]:
        return default

    def items(self) -> Iterable[tuple[str, str]]:
        return ()


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`uri` is the target as it was sent, `path` its decoded path. `chain`: the certificates that the client showed, its own first,
    not verified."""

    method: str
    uri: str
    path: str
    query: Mapping[str, list[str]] = {}
    headers: RequestHeaders = NoHeaders()
    chain: tuple[Certificate, ...] = ()
    body: bytes = b""

    @classmethod
    def of(cls, method: str, target: str, **rest: Any) -> HttpRequest:
        """Return a request for a target: a path with its query, or a whole URL as a proxy is sent one."""
        target = readable(target)
        path, _, query = _local(target).partition("?")
        return cls(method=method, uri=target, path=unquote(path), query=parse_qs(query, keep_blank_values=True), **rest)


def readable(text: str) -> str:
    """Return the text of a request without what stands for bytes that are no UTF-8: no JSON could be written of it."""
    return text if text.isascii() else re.sub(r"[\ud800-\udfff]", "\ufffd", text)


def _local(target: str) -> str:
    if target.startswith("/"):
        return target
    try:
        url = urlsplit(target)
    except ValueError:
        return target
    return f"{url.path or '/'}?{url.query}" if url.netloc else target


TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"
METRICS_PATH = "/metrics"
SLIS_PATH = "/metrics/slis"
RESOURCES_PATH = "/metrics/resources"
DEBUG_PATH = "/debug/"
APIS_PATH = "/apis/v1/"
EXPLAIN_PATH = f"{APIS_PATH}explain"


class Response(msgspec.Struct, frozen=True):
    status: int
    content_type: str
    body: bytes
    location: str = ""  # where else to ask, with a status that says so


NOT_FOUND = Response(404, TEXT, b"404 page not found\n")


def text(status: int, words: str) -> Response:
    return Response(status, TEXT, words.encode())


def bad_request(why: str) -> Response:
    return text(400, f"bad request: {why}\n")


class RequestHandler(Protocol):
    """Answers requests."""

    async def answer(self, request: HttpRequest) -> Response:
        """Answer a request, whatever its method."""


class RequestFilter(Protocol):
    """Stands before a port's handler."""

    async def refusal(self, request: HttpRequest) -> Response | None:
        """Return what to answer instead, None when the request may pass."""
