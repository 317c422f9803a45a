"""The address of an API server, the authorities to trust and the credentials to use: what a kubeconfig or a pod's service account say."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from koordsched.cluster.apiserver.credentials import CredentialSource, TokenFile
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
    """Which authorities to trust and which client certificate to show."""

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


def in_cluster_target(service_account: str) -> Target:
    """Return the target. ConnectError: this process is in no pod, or the pod's service account is not mounted."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConnectError(
            "no cluster: neither a kubeconfig (clientConnection.kubeconfig, --kubeconfig) nor --master is given, and this is no pod of one "
            "(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set)"
        )
    folder = Path(service_account)
    authority = folder / "ca.crt"
    if not authority.is_file():
        raise ConnectError(f"in-cluster: {authority} is missing; is automountServiceAccountToken false?")
    return Target(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile("in-cluster", str(folder / "token")),
        tls=TlsSettings(authority=Pem("in-cluster", str(authority))),
    )
