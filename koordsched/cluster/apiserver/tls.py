"""TLS contexts out of PEM texts.

Keys never touch a disk: OpenSSL reads client certificates from files only, so they are lent to it as memory files. Certificates are checked
as Go does it, which is less strict than Python 3.13's default about extensions that cluster CAs often lack.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from koordsched.cluster.apiserver.settings import ConnectError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.cluster.apiserver.target import TlsSettings


class Material(msgspec.Struct, frozen=True):
    """PEM texts, b"" for what is not given."""

    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


def read_material(settings: TlsSettings) -> Material:
    """Read what the settings name. ConnectError: a file cannot be read. Blocks."""
    return Material(settings.authority.read(), settings.certificate.read(), settings.key.read())


def make_context(settings: TlsSettings, material: Material) -> ssl.SSLContext:
    """Return a context that trusts the authority, the system's when none is given. ConnectError: something is not what it must be."""
    context = _trusting(settings, material.authority) if material.authority else ssl.create_default_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if material.certificate or material.key:
        _show_certificate(context, settings, material)
    return context


def _trusting(settings: TlsSettings, authority: bytes) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority.decode("ascii", errors="backslashreplace"))
    except (ssl.SSLError, ValueError):
        where = settings.authority
        raise ConnectError(f"{where.where}: {where.file or 'the data'}: holds no PEM certificate") from None


def _show_certificate(context: ssl.SSLContext, settings: TlsSettings, material: Material) -> None:
    where = settings.certificate.where or settings.key.where or "the client certificate"
    if not (material.certificate and material.key):
        missing = "key" if material.certificate else "certificate"
        raise ConnectError(f"{where}: a client certificate and its key go together; the {missing} is missing")
    try:
        with _as_file(material.certificate) as certificate, _as_file(material.key) as key:
            context.load_cert_chain(certificate, key, password=lambda: b"")  # without a password OpenSSL would ask the terminal
    except (ssl.SSLError, OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise ConnectError(f"{where}: the client certificate and the key do not belong together") from None
        raise ConnectError(f"{where}: not a PEM certificate and its unencrypted key: {error}") from None


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Lend the bytes as a file that only this process can open, in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
