"""Where an API server is, whom to trust there and as whom to come: what a kubeconfig or a pod's service account amount to."""

from __future__ import annotations

import msgspec

from koordsched.cluster.apiserver.credentials import CredentialSource
from koordsched.cluster.apiserver.settings import ConnectError
from koordsched.files import read_limited


class Pem(msgspec.Struct, frozen=True):
    """A certificate, a CA bundle or a key: in a file, which may change, or given as data. Neither: none."""

    where: str = ""  # what the operator calls it, for messages
    file: str = ""
    data: bytes = b""

    def read(self) -> bytes:
        """Return the PEM text. ConnectError: the file cannot be read. Blocks."""
        if not self.file:
            return self.data
        try:
            return read_limited(self.file)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise ConnectError(f"{self.where}: {self.file}: {getattr(error, 'strerror', None) or error}") from None


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to trust and which client certificate to show."""

    authority: Pem = Pem()
    certificate: Pem = Pem()
    key: Pem = Pem()
    server_name: str = ""  # expected in the server's certificate, "": the host of the address
    insecure: bool = False


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """An API server. `server` is its URL without a slash at the end; a path in it is kept."""

    server: str
    credentials: CredentialSource
    tls: TlsSettings = TlsSettings()
    proxy: str = ""
    headers: tuple[tuple[str, str], ...] = ()  # impersonation
