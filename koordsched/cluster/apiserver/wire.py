"""What can happen on the wire, whichever library moved the bytes.

A request either never left (`NotSent`), has no known fate (`NoAnswer`), or has an `Answer`, of which at least the status was read.
"""

from __future__ import annotations

import ssl

import aiohttp
import msgspec

CERTIFICATE_PROBLEMS = (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError)
UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL)
TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, RuntimeError)
"""What a library may raise. OSError includes TimeoutError and TLS errors; uvloop and a closed session raise RuntimeError."""


class WireError(Exception):
    """No answer. The text is one line that says why."""

    def __init__(self, cause: Exception | str) -> None:
        super().__init__(cause if isinstance(cause, str) else _why(cause))


class NotSent(WireError):
    """The server never saw the request."""


class NotTrusted(NotSent):
    """The server's certificate is not one that we trust."""


class NoAnswer(WireError):
    """The request was sent, at least in part, and then nothing came."""


class Answer(msgspec.Struct):
    """An answer; `complete` is False when the body broke off or did not come in time."""

    status: int
    body: bytes = b""
    retry_after: str | None = None
    complete: bool = True

    def close(self) -> None:
        """Do nothing: the connection has been given back."""


def wire_error(error: Exception) -> WireError:
    """Return what an exception of aiohttp or asyncio, raised before there was a status, means."""
    if isinstance(error, CERTIFICATE_PROBLEMS):
        return NotTrusted(error)
    return NotSent(error) if isinstance(error, UNSENT) else NoAnswer(error)


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause: Exception = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    else:
        cause = error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {cause.verify_message or cause.reason}"
    if isinstance(cause, TimeoutError) and not str(cause):
        return "timed out"
    return " ".join(str(cause).split()) or type(cause).__name__
