"""A certificate authority that lives as long as one control plane.

Issues the API server's serving certificate, client certificates for tests that log in with one, and serving certificates for
proxies that stand before the API server. Keys are EC P-256, since RSA keys take a second to make. Certificates carry the
key identifiers that Python 3.13 insists on.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

CLOCK_SKEW = timedelta(hours=1)
DAY = timedelta(days=1)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")


class KeyPair(NamedTuple):
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates; `certificate` is what clients trust."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "koordsched test authority")])
        self._certificate = self._self_signed()
        self.certificate = self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self) -> KeyPair:
        """Issue a certificate for a server on loopback."""
        names = [x509.DNSName(name) for name in SERVER_NAMES]
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, SERVER_NAMES[0])]
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([*names, *addresses])
        return self._issue(self._builder(x509.Name(subject), key.public_key()), key, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: tuple[str, ...] = (), expires: datetime | None = None) -> KeyPair:
        """Issue a certificate for this user ("": one without a name), valid for a day or until it expires (whole seconds)."""
        organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        names = [x509.NameAttribute(NameOID.COMMON_NAME, user)] if user else []
        name = x509.Name([*organisations, *names])
        key = ec.generate_private_key(ec.SECP256R1())
        return self._issue(self._builder(name, key.public_key(), expires), key, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        builder: x509.CertificateBuilder,
        key: ec.EllipticCurvePrivateKey,
        usage: ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return KeyPair(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), private_pem(key))

    def _self_signed(self) -> x509.Certificate:
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.add_extension(SIGNS_CERTIFICATES, critical=True).sign(self._key, hashes.SHA256())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, expires: datetime | None = None) -> x509.CertificateBuilder:
        """Begin a certificate with what all have: names, a validity (a day), the identifiers of both keys."""
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - CLOCK_SKEW)
        builder = builder.not_valid_after(expires or now + DAY)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        return builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)


SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def service_account_key() -> bytes:
    """Make the key that signs service account tokens; the API server reads the public half from it, too."""
    return private_pem(ec.generate_private_key(ec.SECP256R1()))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
