"""What can happen on the wire, whichever library moved the bytes, and its text in the operating system's words.

A request either never left (`NotSent`), has no known fate (`NoAnswer`), or has an `ApiResponse`, of which at least the status was read.

The words are those that Go prints after the address (`connection refused`, `no such host`, `i/o timeout`), so that what is known of
kube-scheduler's messages holds here too; the caller names the address. asyncio, uvloop and aiohttp word the same error in three ways, and
aiohttp adds its own settings to it (`ssl:default`).
"""

from __future__ import annotations

import os
import re
import socket
import ssl

import aiohttp
import msgspec

_ERRNO = re.compile(r"\[Errno (\d+)\]")  # in the text also of asyncio's "Multiple exceptions: ...", which has no errno of its own
_NO_SUCH_HOST = {getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)}
_NO_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}


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


Body = bytes | bytearray
"""Of an answer; not to be written to, since what is decoded of it may refer to it."""


class ApiResponse(msgspec.Struct):
    """An answer. `flaw` says why its body is not whole ("it broke off", "it is larger than ..."), "" when it is."""

    status: int
    body: Body = b""
    retry_after: str | None = None
    flaw: str = ""

    def close(self) -> None:
        """Do nothing: the connection has been given back."""


def wire_error(error: Exception) -> WireError:
    """Return what an exception of aiohttp or asyncio, raised before there was a status, means."""
    if isinstance(error, CERTIFICATE_PROBLEMS):
        return NotTrusted(error)
    return NotSent(error) if isinstance(error, UNSENT) else NoAnswer(error)


def network_error_text(error: BaseException) -> str:
    """Return why a connection could not be made or broke off, in one line."""
    cause = _cause(error)
    if isinstance(cause, ssl.SSLError):
        return _tls_text(cause)
    if isinstance(cause, socket.gaierror | UnicodeError):
        return _lookup_text(cause)
    if isinstance(cause, OSError):
        return _system_text(cause)
    if isinstance(cause, aiohttp.ServerDisconnectedError):
        return "the server closed the connection"
    if isinstance(cause, aiohttp.ClientResponseError):
        return f"code {cause.status}: {_line(cause.message)}"
    return _line(str(cause)) or type(cause).__name__


def _cause(error: BaseException) -> BaseException:
    """Return the system's error in aiohttp's, which carries the system's in several ways."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    return error


def _system_text(error: OSError) -> str:
    """Return the system's words for the error's number."""
    numbers = [int(number) for number in _ERRNO.findall(str(error))]
    if numbers:
        return " and ".join(dict.fromkeys(os.strerror(number).lower() for number in numbers))
    if isinstance(error, TimeoutError):
        return "i/o timeout" if isinstance(error, aiohttp.ServerTimeoutError) or not str(error) else _line(str(error))
    return _line(str(error)) or type(error).__name__


def _lookup_text(error: socket.gaierror | UnicodeError) -> str:
    """Say why a name has no address; UnicodeError: it cannot be written as the DNS has names."""
    if isinstance(error, UnicodeError) or error.errno in _NO_SUCH_HOST:
        return "no such host"
    return _line(error.strerror or str(error)).lower()


def _tls_text(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message or error.reason}"
    reason = getattr(error, "reason", None) or ""  # an error that no library made has none
    if reason in _NO_TLS:
        return "tls: first record does not look like a TLS handshake"
    return f"tls: {reason.replace('_', ' ').lower() or _line(error.strerror or str(error))}"


def _line(text: str) -> str:
    return " ".join(text.split())
