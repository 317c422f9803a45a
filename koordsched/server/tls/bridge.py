"""pyOpenSSL behind the interface that asyncio and uvloop expect of `ssl`: a context that makes an object over two memory buffers.

Both loops touch nothing of a server's context but `wrap_bio`, and nothing of the object but what is overridden here. Each connection takes
the context of the moment, so that another certificate is shown from the next handshake on and open connections go on as they are.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from OpenSSL import SSL

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

T = TypeVar("T")
PIECE = 65_536


class BridgeContext(ssl.SSLContext):
    """An `ssl.SSLContext` in name; `current` returns what the next connection is to speak."""

    current: Callable[[], SSL.Context]

    @classmethod
    def over(cls, current: Callable[[], SSL.Context]) -> BridgeContext:
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made.current = current
        return made

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: ARG002  # this and what follows: ssl's signature
        server_hostname: str | bytes | None = None,  # noqa: ARG002
        session: ssl.SSLSession | None = None,  # noqa: ARG002
    ) -> ssl.SSLObject:
        """Begin the server's side of a connection."""
        return BridgeObject(SSL.Connection(self.current()), incoming, outgoing)


class BridgeObject(ssl.SSLObject):
    """The server's side of one connection. Errors are those of `ssl`, since event loops know these."""

    def __init__(self, connection: SSL.Connection, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        connection.set_accept_state()
        self._connection = connection
        self._first_context = connection.get_context()  # kept: OpenSSL may call back into it after another was chosen by name
        self._incoming = incoming
        self._outgoing = outgoing
        self._unread = False  # pyOpenSSL may hold bytes that no step has needed yet

    @property
    def peer_chain(self) -> tuple[Certificate, ...]:
        """Return the certificates that the client showed, its own first. Nobody has verified them."""
        own = self._connection.get_peer_certificate(as_cryptography=True)
        if own is None:
            return ()
        others = self._connection.get_peer_cert_chain(as_cryptography=True) or []
        return (own, *(certificate for certificate in others if certificate != own))

    def do_handshake(self) -> None:
        self._do(self._connection.do_handshake)

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002  # ssl's signature
        """Return bytes, or how many were put into the buffer; nothing when the client has ended the connection."""
        try:
            if buffer is None:
                return self._do(lambda: self._connection.recv(len))
            return self._do(lambda: self._connection.recv_into(buffer, len))
        except ssl.SSLZeroReturnError:
            return b"" if buffer is None else 0

    def write(self, data: Any) -> int:
        return self._do(lambda: self._connection.send(data))

    def unwrap(self) -> None:
        """Say that nothing more comes, and wait for the client to say so."""
        if not self._do(self._connection.shutdown):
            self._do(self._connection.shutdown)

    def pending(self) -> int:
        """Return how much can be read at once, at least 1 while there may be something: uvloop does not read on 0."""
        return self._connection.pending() or int(self._unread)

    def getpeercert(self, binary_form: bool = False) -> Any:  # noqa: ARG002  # ssl's signature
        """Return nothing: what the client shows is not verified, see `peer_chain`."""
        return None

    def cipher(self) -> tuple[str, str, int] | None:
        name = self._connection.get_cipher_name()
        if name is None:
            return None
        return name, self._connection.get_cipher_version() or "", self._connection.get_cipher_bits() or 0

    def compression(self) -> str | None:
        return None

    def version(self) -> str | None:
        return self._connection.get_protocol_version_name()

    def selected_alpn_protocol(self) -> str | None:
        return self._connection.get_alpn_proto_negotiated().decode() or None

    def _do(self, step: Callable[[], T]) -> T:
        """Take a step with what has come in, and put out what it says, whatever comes of it."""
        if received := self._incoming.read():
            self._connection.bio_write(received)
            self._unread = True
        if self._incoming.eof:
            self._connection.bio_shutdown()
        try:
            return step()
        except SSL.WantReadError:
            self._unread = False
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the client has not sent enough") from None
        except SSL.ZeroReturnError:
            raise ssl.SSLZeroReturnError(ssl.SSL_ERROR_ZERO_RETURN, "the client has ended the connection") from None
        except SSL.SysCallError:
            raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the client has gone") from None
        except SSL.Error as error:
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, reason_of(error)) from None
        finally:
            self._put_out()

    def _put_out(self) -> None:
        while True:
            try:
                self._outgoing.write(self._connection.bio_read(PIECE))
            except SSL.WantReadError:
                return


def reason_of(error: SSL.Error) -> str:
    """Return OpenSSL's words for an error."""
    queue = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return "; ".join(str(entry[-1]) for entry in queue) or str(error) or "TLS error"


def peer_chain(connection: object) -> tuple[Certificate, ...]:
    """Return what the client of a connection showed (its `ssl_object`); nothing without TLS. Nobody has verified it."""
    return connection.peer_chain if isinstance(connection, BridgeObject) else ()
