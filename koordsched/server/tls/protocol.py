"""TlsProtocol: the server's side of one TLS connection, between a socket's transport and the protocol that speaks HTTP.

pyOpenSSL works on memory here: what comes in is given to it, what it has to say is written to the transport. Each connection takes the
context of the moment, so that another certificate is shown from the next handshake on and open connections go on as they are. The loop's
own TLS is not used: it takes `ssl` contexts only (decision 6), and holds 256 KiB for every connection, also for those that never speak.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from OpenSSL import SSL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cryptography.x509 import Certificate

PIECE = 16_384
PEER_CHAIN = "peer_chain"
"""What the transport's `get_extra_info` is asked for to get the certificates that the client showed."""


class TlsProtocol(asyncio.Protocol):
    """`inner` is connected once the handshake is done, after `opened` has been called."""

    def __init__(self, connection: SSL.Connection, inner: asyncio.Protocol, opened: Callable[[], object]) -> None:
        self._connection = connection
        self._first_context = connection.get_context()  # kept: OpenSSL may call back into it after another was chosen by name
        self._inner = inner
        self._opened: Callable[[], object] | None = opened
        self._is_open = False
        self._outer: asyncio.Transport | None = None
        self.reading = True

    @property
    def outer(self) -> asyncio.Transport:
        """Return the socket's transport."""
        if self._outer is None:
            raise RuntimeError("the connection has not been made")
        return self._outer

    @cached_property
    def peer_chain(self) -> tuple[Certificate, ...]:
        """Return the certificates that the client showed, its own first, not verified."""
        own = self._connection.get_peer_certificate(as_cryptography=True)
        if own is None:
            return ()
        others = self._connection.get_peer_cert_chain(as_cryptography=True) or []
        return (own, *(certificate for certificate in others if certificate != own))

    # Called by the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._outer = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened = None  # a method of what holds this: the buffers of the connection would wait for the garbage collector
        if self._is_open:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._is_open:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._is_open:
            self._inner.resume_writing()

    def data_received(self, data: bytes) -> None:
        self._connection.bio_write(data)
        self.proceed()

    def proceed(self) -> None:
        """Go on with what has come in."""
        try:
            if self._is_open or self._handshake():
                self._read()
        except SSL.Error:  # no TLS, or the client has ended the connection: an alert may have to be sent
            self.put_out()
            self.outer.close()
        else:
            self.put_out()

    def _handshake(self) -> bool:
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return False
        self._is_open = True
        if self._opened is not None:
            self._opened()
        self._inner.connection_made(TlsTransport(self))
        return True

    def _read(self) -> None:
        while self.reading and not self.outer.is_closing():
            try:
                data = self._connection.recv(PIECE)
            except SSL.WantReadError:
                return
            self._inner.data_received(data)

    # What the inner protocol wants

    def write(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._connection.send(rest) :]
        except SSL.Error:
            self.outer.abort()
        else:
            self.put_out()

    def close(self) -> None:
        """Say that nothing more comes, and close when all has been sent."""
        try:
            self._connection.shutdown()
            self.put_out()
        except SSL.Error:
            pass
        self.outer.close()

    def put_out(self) -> None:
        """Write what OpenSSL has to say."""
        while True:
            try:
                data = self._connection.bio_read(PIECE)
            except SSL.WantReadError:
                return
            self.outer.write(data)
            if len(data) < PIECE:
                return  # that was all: asking for more would raise


class TlsTransport(asyncio.Transport):
    """What the inner protocol takes for its socket."""

    def __init__(self, protocol: TlsProtocol) -> None:
        super().__init__()
        self._protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._protocol.peer_chain if name == PEER_CHAIN else self._protocol.outer.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self.is_closing():
            self._protocol.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._protocol.reading = False
        self._protocol.outer.pause_reading()

    def resume_reading(self) -> None:
        self._protocol.reading = True
        self._protocol.outer.resume_reading()
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Read what had been decrypted already."""
        if not self.is_closing():
            self._protocol.proceed()

    def get_write_buffer_size(self) -> int:
        return self._protocol.outer.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._protocol.outer.is_closing()

    def close(self) -> None:
        if not self.is_closing():
            self._protocol.close()

    def abort(self) -> None:
        self._protocol.outer.abort()


def reason_of(error: SSL.Error) -> str:
    """Return OpenSSL's words for an error."""
    queue = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return "; ".join(str(entry[-1]) for entry in queue) or str(error) or "TLS error"
