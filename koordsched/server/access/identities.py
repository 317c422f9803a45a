"""Users as Kubernetes names them, and what client certificates and the headers of front proxies say of them.

The TLS handshake takes any certificate, as Go's does with RequestClientCert: an expired or foreign one is a 401 for its request and no
broken connection. So nothing that a certificate says is true before `Authorities.flaw` has found none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import crypto

from koordsched.server.http import RequestHeaders, readable

ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


class RequestUser(msgspec.Struct, frozen=True):
    """The user of a request, as Kubernetes' authenticators name it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = RequestUser("system:anonymous", (ALL_UNAUTHENTICATED,))


def authenticated(user: RequestUser) -> RequestUser:
    """Add the group of all authenticated users, unless the user is anonymous or has it."""
    if user.name == ANONYMOUS.name or {ALL_AUTHENTICATED, ALL_UNAUTHENTICATED} & set(user.groups):
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, ALL_AUTHENTICATED))


CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Kubernetes' attribute of a subject's unique id."""
CLIENT_USAGES = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})


class Authorities(msgspec.Struct, frozen=True):
    """The certificates of CAs whose clients are trusted."""

    certificates: tuple[x509.Certificate, ...] = ()

    @classmethod
    def of(cls, pem: bytes) -> Authorities:
        """Read a bundle; ValueError when it holds no certificate or something else."""
        return cls(tuple(x509.load_pem_x509_certificates(pem)))

    def flaw(self, chain: Sequence[x509.Certificate], now: float) -> str:
        """Return why the first certificate of a chain is not to be trusted at this moment, "" when it is."""
        store = crypto.X509Store()
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # an authority need not be a root, as in Go
        store.set_time(datetime.fromtimestamp(now, UTC).replace(tzinfo=None))
        for authority in self.certificates:
            store.add_cert(crypto.X509.from_cryptography(authority))
        shown = [crypto.X509.from_cryptography(certificate) for certificate in chain]
        try:
            verified = crypto.X509StoreContext(store, shown[0], shown[1:]).get_verified_chain()
        except crypto.X509StoreContextError as error:
            return f"verifying certificate {_identifier(chain[0])} failed: {error}"
        used = [certificate.to_cryptography() for certificate in verified[:-1]] or chain[:1]
        if all(_for_clients(certificate) for certificate in used):
            return ""
        return f"verifying certificate {_identifier(chain[0])} failed: its extended key usage is not for clients"


def user_of(certificate: x509.Certificate) -> RequestUser | None:
    """Return the user that a verified certificate names: by its CN, each O a group; None without a CN."""
    name = common_name(certificate)
    if not name:
        return None
    return RequestUser(
        name=name,
        groups=_values(certificate, NameOID.ORGANIZATION_NAME),
        uid=next(iter(_values(certificate, UID)), ""),
        extra={CREDENTIAL_ID: (f"X509SHA256={certificate.fingerprint(SHA256()).hex()}",)},
    )


def common_name(certificate: x509.Certificate) -> str:
    """Return the last CN of the subject, "" when there is none."""
    return next(reversed(_values(certificate, NameOID.COMMON_NAME)), "")


def _values(certificate: x509.Certificate, attribute: x509.ObjectIdentifier) -> tuple[str, ...]:
    return tuple(str(each.value) for each in certificate.subject.get_attributes_for_oid(attribute))


def _for_clients(certificate: x509.Certificate) -> bool:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not CLIENT_USAGES.isdisjoint(usages)


def _identifier(certificate: x509.Certificate) -> str:
    return f"SN={certificate.serial_number}, subject={certificate.subject.rfc4514_string()}"


class ProxyRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which headers name the user, and the CNs that a proxy may have (none listed: any)."""

    username_headers: tuple[str, ...] = ("x-remote-user",)
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    uid_headers: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()


def user_behind(headers: RequestHeaders, rules: ProxyRules) -> RequestUser | None:
    """Return the user that a proxy's headers name; None when they name none."""
    name = _first(headers, rules.username_headers)
    if not name:
        return None
    groups = [readable(group) for header in rules.group_headers for group in headers.getall(header, []) if group]
    return RequestUser(name, tuple(groups), _first(headers, rules.uid_headers), _extra(headers, rules.extra_prefixes))


def _first(headers: RequestHeaders, names: tuple[str, ...]) -> str:
    return next((readable(value) for name in names if (value := headers.get(name, ""))), "")


def _extra(headers: RequestHeaders, prefixes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for name, value in headers.items():
            if name.lower().startswith(prefix.lower()):
                key = unquote(readable(name).lower()[len(prefix) :])
                found[key] = (*found.get(key, ()), readable(value))
    return found
