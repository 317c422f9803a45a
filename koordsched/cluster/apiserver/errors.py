"""The one place where what went wrong on the wire becomes an error of the port.

Two sources: an answer with a status of 300 or more, whose body is usually a `ApiStatus` object, and a request without an answer. For a
request that writes the question is always whether it may have been carried out; only when that is excluded it is a ServerError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.meta import JSON_ERRORS, Api
from koordsched.cluster.apiserver.wire import NotSent, NotTrusted, WireError
from koordsched.cluster.port import (
    DEFAULT_RETRY_SECONDS,
    AlreadyExists,
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.cluster.apiserver.wire import Body

OK = 200
REDIRECT = 300
NOT_FOUND = 404
TOO_MANY_REQUESTS = 429
GATEWAY_TIMEOUT = 504
NO_ANSWER = 0
NOT_SERVED = "the server could not find the requested resource"  # client-go's words for a 404 that is no Status
_SHOWN = 300  # characters of an answer that is no Status

_BY_STATUS: Mapping[int, type[ClusterError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
}
_BY_REASON: Mapping[str, type[ClusterError]] = {"AlreadyExists": AlreadyExists, "Expired": Gone, "Gone": Gone}


class Untrusted(ServerError):
    """The server at the API server's address has a certificate that is not trusted: a wrong CA, or another server."""


class _Cause(Api):
    message: str | None = None


class _Details(Api):
    retry_after_seconds: float | None = None
    causes: tuple[_Cause, ...] | None = None


class _StatusMeta(Api):
    continue_: str | None = msgspec.field(default=None, name="continue")


class ApiStatus(Api):
    """metav1.Status: how the API server says that something went wrong."""

    code: int = 0
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None
    metadata: _StatusMeta | None = None


class SentRequest(msgspec.Struct, frozen=True):
    """What an error is about: a request to an address, and whether it writes."""

    method: str
    url: str

    @property
    def writes(self) -> bool:
        return self.method not in {"GET", "HEAD"}

    @property
    def address(self) -> str:
        """Return scheme, host and port."""
        return "/".join(self.url.split("/", 3)[:3])

    def __str__(self) -> str:
        return f"{self.method} {self.url.split('?', 1)[0]}"


def answer_error(sent: SentRequest, code: int, body: Body, retry_after: str | None = None) -> ClusterError:
    """Return the error that an answer with this status code stands for; `retry_after` is its Retry-After header."""
    try:
        status = msgspec.json.decode(body, type=ApiStatus)
    except JSON_ERRORS:
        status = ApiStatus()
    message = status.message or (NOT_SERVED if code == NOT_FOUND else _shown(body))
    details = status.details or _Details()
    seconds = _seconds(retry_after)
    if seconds is None:
        seconds = details.retry_after_seconds
    return status_error(sent, ApiStatus(code, status.reason, message, _Details(seconds, details.causes), status.metadata))


def status_error(sent: SentRequest, status: ApiStatus) -> ClusterError:
    """Return the error that a Status stands for, be it an answer's body or an ERROR event of a watch."""
    code, reason, message = status.code, status.reason or "", status.message or "no explanation"
    seconds = status.details.retry_after_seconds if status.details is not None else None
    if code == TOO_MANY_REQUESTS or (reason in {"TooManyRequests", "ServerTimeout"} and seconds is not None):
        causes = status.details.causes or () if status.details is not None else ()  # which disruption budget forbids an eviction
        message = " ".join([message, *(cause.message for cause in causes if cause.message)])
        return TooManyRequests(message, DEFAULT_RETRY_SECONDS if seconds is None else seconds)
    found = _BY_REASON.get(reason) or _BY_STATUS.get(code)
    if found is Unauthorized:
        return Unauthorized(f"{sent.address} does not accept the credentials ({message}); the token may be expired or wrong")
    if found is Gone:
        return Gone(message, (status.metadata.continue_ if status.metadata is not None else None) or "")
    if found is not None:
        return found(message)
    if sent.writes and _may_be_written(code, message):
        return OutcomeUnknown(f"{sent}: {code}: {message}")
    return ServerError(f"{sent}: {code}: {message}", code)


def transport_error(sent: SentRequest, error: WireError) -> ClusterError:
    """Return the error that a request without an answer stands for."""
    if isinstance(error, NotTrusted):
        return Untrusted(f"{sent.address} is not trusted: {error}; is the certificate authority (CA) the right one?", NO_ANSWER)
    if isinstance(error, NotSent):
        return ServerError(f"{sent.address} cannot be reached: {error}", NO_ANSWER)
    text = f"{sent}: no answer: {error}"
    return OutcomeUnknown(text) if sent.writes else ServerError(text, NO_ANSWER)


def unreadable_answer(sent: SentRequest, code: int, error: Exception | str) -> ClusterError:
    """Return the error for an answer of success that cannot be understood."""
    text = f"{sent}: {code}, but the answer cannot be read: {error}"
    return OutcomeUnknown(text) if sent.writes else Unreadable(text)


def _may_be_written(code: int, message: str) -> bool:
    """The API server gave up waiting, for itself or for etcd, so a write may still have been carried out."""
    return code == GATEWAY_TIMEOUT or (message.startswith("etcdserver:") and ("timed out" in message or "leader" in message))


def _seconds(retry_after: str | None) -> float | None:
    """Return what the header says, None for a date (which no API server sends) and for what is no time: "nan", "inf"."""
    return float(retry_after) if retry_after and retry_after.isdecimal() and retry_after.isascii() else None


def _shown(body: Body) -> str:
    return " ".join(body[:_SHOWN].decode(errors="replace").split())
