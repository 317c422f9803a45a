"""What went wrong on a connection, in the operating system's words: the one place where such an exception becomes text.

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

_ERRNO = re.compile(r"\[Errno (\d+)\]")  # in the text of asyncio's "Multiple exceptions: ...", which has no errno of its own
_NO_SUCH_HOST = {getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)}
_NO_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}


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
    numbers = [error.errno] if error.errno else [int(number) for number in _ERRNO.findall(str(error))]
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
