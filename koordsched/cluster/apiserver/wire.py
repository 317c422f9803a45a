"""What can happen on the wire, whichever library moved the bytes.

A request either never left (`NotSent`), has no known fate (`NoAnswer`), or has an `ApiResponse`, of which at least the status was read.
"""

from __future__ import annotations

import ssl

import aiohttp
import msgspec

from koordsched.cluster.apiserver.network_errors import network_error_text

CERTIFICATE_PROBLEMS = (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError)
UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError, ValueError)
TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, RuntimeError, ValueError)
"""What a library may raise. OSError includes TimeoutError and TLS errors; uvloop and a closed session raise RuntimeError; ValueError stands
for what cannot be sent: an address or a host name that is none, a header with a line break."""


MAX_REFUSAL = 2**20
"""Bytes of an answer other than success: a Status with its message."""


def max_body(status: int, max_answer: int) -> int:
    """Return how many bytes of an answer's body are read, `max_answer` being the limit of one of success."""
    return max_answer if 200 <= status < 300 else min(MAX_REFUSAL, max_answer)  # noqa: PLR2004  # HTTP's success


class WireError(Exception):
    """No answer. The text is one line that says why."""

    def __init__(self, cause: Exception | str) -> None:
        super().__init__(cause if isinstance(cause, str) else network_error_text(cause))


class NotSent(WireError):
    """The server never saw the request."""


class NotTrusted(NotSent):
    """The server's certificate is not trusted."""


class NoAnswer(WireError):
    """The request was sent, at least in part, and then nothing came."""


class ApiResponse(msgspec.Struct):
    """An answer. `flaw` says why its body is not whole ("it broke off", "it is larger than ..."), "" when it is."""

    status: int
    body: bytes = b""
    retry_after: str | None = None
    flaw: str = ""

    def close(self) -> None:
        """Do nothing: the connection has been given back."""


def wire_error(error: Exception) -> WireError:
    """Return what an exception of aiohttp or asyncio, raised before there was a status, means."""
    if isinstance(error, CERTIFICATE_PROBLEMS):
        return NotTrusted(error)
    return NotSent(error) if isinstance(error, UNSENT) else NoAnswer(error)
