"""The secure port's TLS: the certificate that the flags name, else a self-signed one, and the versions and ciphers that they allow.

Without certificate files a pair for localhost and 127.0.0.1 is made in memory; with --cert-dir it is read from there, or made and written
there, as `kube-scheduler.crt` and `.key` (framework.md §1.6). A certificate that cannot be used is a StartError.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from koordsched.server.mistakes import StartError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.config import Flags

PAIR_NAME = "kube-scheduler"
HOST = "localhost"
VALID_FOR = timedelta(days=365)
CLOCK_SKEW = timedelta(hours=1)
VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,  # Go's default
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
CIPHERS = {  # the names of the IANA, which the flag takes, to OpenSSL's
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
ALWAYS_WITH_TLS13 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""TLS 1.3 has these, whatever the flag says, as in Go."""


class CertKey(msgspec.Struct, frozen=True):
    """A certificate (with its chain) and its private key, PEM."""

    certificate: bytes
    key: bytes


def server_context(flags: Flags, now: float) -> ssl.SSLContext:
    """Return what the secure port speaks. now: seconds since the epoch, from which a new certificate is valid."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.minimum_version = _minimum_version(flags)
    if ciphers := _ciphers(flags):
        context.set_ciphers(":".join(ciphers))
    if flags.tls_cert_file or flags.tls_private_key_file:
        _load_files(context, flags)
    else:
        _load_pair(context, _own_pair(Path(flags.cert_dir) if flags.cert_dir else None, now))
    return context


def self_signed(now: float) -> CertKey:
    """Make a certificate for localhost and 127.0.0.1."""
    from cryptography import x509  # noqa: PLC0415  # takes as long to import as all of serving's rest
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    begin = datetime.fromtimestamp(now, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - CLOCK_SKEW)
        .not_valid_after(begin + VALID_FOR)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return CertKey(certificate.public_bytes(serialization.Encoding.PEM), private)


def _minimum_version(flags: Flags) -> ssl.TLSVersion:
    if flags.tls_min_version not in VERSIONS:
        known = ", ".join(filter(None, VERSIONS))
        raise StartError(f'--tls-min-version: unknown tls version "{flags.tls_min_version}", expected one of {known}')
    return VERSIONS[flags.tls_min_version]


def _ciphers(flags: Flags) -> list[str]:
    wanted = [name for name in flags.tls_cipher_suites if name not in ALWAYS_WITH_TLS13]
    for name in wanted:
        if name not in CIPHERS:
            raise StartError(f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist")
    return [CIPHERS[name] for name in wanted]


def _load_files(context: ssl.SSLContext, flags: Flags) -> None:
    for flag, other, file in (
        ("--tls-cert-file", "--tls-private-key-file", flags.tls_cert_file),
        ("--tls-private-key-file", "--tls-cert-file", flags.tls_private_key_file),
    ):
        if not file:
            raise StartError(f"{other} needs {flag} beside it")
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise StartError(f"{flag} {file} cannot be read: {error.strerror}") from None
    _load(context, flags.tls_cert_file, flags.tls_private_key_file, f"{flags.tls_cert_file} and {flags.tls_private_key_file}")


def _own_pair(folder: Path | None, now: float) -> CertKey:
    """Return the pair of the folder, made and written if it is not there; without a folder, a new one."""
    if folder is None:
        return self_signed(now)
    certificate, key = folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key"
    try:
        if certificate.exists() and key.exists():
            return CertKey(certificate.read_bytes(), key.read_bytes())
        pair = self_signed(now)
        folder.mkdir(parents=True, exist_ok=True)
        certificate.write_bytes(pair.certificate)
        key.touch(mode=0o600)
        key.write_bytes(pair.key)
    except OSError as error:
        raise StartError(f"--cert-dir {folder}: the serving certificate cannot be read or written: {error.strerror}") from None
    return pair


def _load_pair(context: ssl.SSLContext, pair: CertKey) -> None:
    """Load a pair that is in memory: OpenSSL's binding takes files only."""
    with _file_of(pair.certificate) as certificate, _file_of(pair.key) as key:
        _load(context, certificate, key, f"the {PAIR_NAME} pair of --cert-dir")


def _load(context: ssl.SSLContext, certificate: str, key: str, what: str) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise StartError(f"{what} are no PEM certificate and its private key: {getattr(error, 'reason', None) or error}") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted, which is not supported")  # OpenSSL would otherwise ask on the terminal


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """Give the content a file name for a while: of memory where the system can, so that a read-only root is enough."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create(PAIR_NAME), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
