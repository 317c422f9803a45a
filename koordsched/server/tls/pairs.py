"""Certificates with their keys: those that flags name, those of --cert-dir, and one made in memory.

A pair of files is followed: `FollowedPair.changed` reads it again when one of them differs, and takes it only when both fit together, since
certificate and key are never replaced in the same moment.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from koordsched.files import FollowedFile
from koordsched.log import get_logger
from koordsched.server import StartError

log = get_logger(__name__)

PAIR_NAME = "kube-scheduler"
HOST = "localhost"
VALID_FOR = timedelta(days=365)
CLOCK_SKEW = timedelta(hours=1)


class CertKey(msgspec.Struct, frozen=True):
    """A certificate (with its chain) and its private key, PEM."""

    certificate: bytes
    key: bytes

    @property
    def flaw(self) -> str:
        """Return why the two cannot be used, "" when they can."""
        try:
            certificate = x509.load_pem_x509_certificates(self.certificate)[0]
            key = serialization.load_pem_private_key(self.key, password=None)
        except TypeError:
            return "the key is encrypted, which is not supported"
        except (ValueError, IndexError) as error:
            return " ".join(str(error).split())
        shape = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        if certificate.public_key().public_bytes(*shape) != key.public_key().public_bytes(*shape):
            return "they do not belong together"
        return ""


class PairFlags(msgspec.Struct, frozen=True):
    """The names of the flags that name a pair's files, for messages."""

    certificate: str = "--tls-cert-file"
    key: str = "--tls-private-key-file"


class FollowedPair:
    """A pair of files; `pair` is what they last held together. StartError when they cannot be used at the start."""

    def __init__(self, certificate: str, key: str, flags: PairFlags) -> None:
        self._what = f"{certificate} and {key}"
        self._certificate = _opened(flags.certificate, certificate)
        self._key = _opened(flags.key, key)
        self._flaw = ""
        self.pair = CertKey(self._certificate.content, self._key.content)
        if self.pair.flaw:
            raise StartError(f"{self._what} are no PEM certificate and its private key: {self.pair.flaw}")

    def changed(self) -> bool:
        """Look, and return whether there is another pair now."""
        try:
            differ = [file.changed() for file in (self._certificate, self._key)]
        except OSError as error:
            self._complain(str(error))
            return False
        if not any(differ):
            return False
        pair = CertKey(self._certificate.content, self._key.content)
        if pair.flaw:
            self._complain(pair.flaw)
            return False
        self.pair, self._flaw = pair, ""
        log.info("the serving certificate was read again", files=self._what)
        return True

    def _complain(self, flaw: str) -> None:
        if flaw != self._flaw:
            log.error("the serving certificate's new files cannot be used; the one before stays", files=self._what, err=flaw)
        self._flaw = flaw


def pair_of_folder(folder: Path, now: float) -> FollowedPair:
    """Return the pair of --cert-dir, made and written if it is not there."""
    certificate, key = folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key"
    try:
        if not (certificate.exists() and key.exists()):
            pair = self_signed(now)
            folder.mkdir(parents=True, exist_ok=True)
            certificate.write_bytes(pair.certificate)
            key.touch(mode=0o600)
            key.write_bytes(pair.key)
    except OSError as error:
        raise StartError(f"--cert-dir {folder}: the serving certificate cannot be read or written: {error.strerror}") from None
    return FollowedPair(str(certificate), str(key), PairFlags("--cert-dir", "--cert-dir"))


def self_signed(now: float, address: str = "") -> CertKey:
    """Make a certificate for localhost, 127.0.0.1 and an address that is served, valid from `now` (seconds since the epoch) on."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    addresses = {ipaddress.ip_address(each) for each in ("127.0.0.1", address) if each}
    begin = datetime.fromtimestamp(now, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - CLOCK_SKEW)
        .not_valid_after(begin + VALID_FOR)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST), *map(x509.IPAddress, addresses)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return CertKey(certificate.public_bytes(serialization.Encoding.PEM), private)


def _opened(flag: str, path: str) -> FollowedFile:
    try:
        return FollowedFile(path)
    except OSError as error:
        raise StartError(f"{flag} {path} cannot be read: {error.strerror}") from None
