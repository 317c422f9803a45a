"""What the secure port shows: the certificate for the name that a client asks for, else the default one.

An exact name goes before a wildcard, a name written in --tls-sni-cert-key before one that a certificate brings, an earlier flag before a
later one (dynamiccertificates.BuildNamedCertificates). A client that asks by address sends no name: it gets the certificate of the address
that is bound, if one has it.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL

from koordsched.files import FOLLOW_SECONDS
from koordsched.log import get_logger
from koordsched.server import StartError
from koordsched.server.tls.pairs import CertKey, FollowedPair, PairFlags, pair_of_folder, self_signed
from koordsched.server.tls.protocol import reason_of
from koordsched.server.tls.rules import TlsRules

if TYPE_CHECKING:
    from koordsched.config import Flags

log = get_logger(__name__)

SNI_FLAG = "--tls-sni-cert-key"
PROTOCOL = b"http/1.1"
OPTIONS = SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE


class NamedPair(msgspec.Struct, frozen=True):
    """A pair for certain clients. `names` as written in the flag; none: those of the certificate."""

    files: FollowedPair
    names: tuple[str, ...] = ()


class Contexts(msgspec.Struct, frozen=True):
    """What connections speak: by the name that is asked for, and without one."""

    default: SSL.Context
    by_name: dict[str, SSL.Context]


class ServingCertificates:
    """The secure port's certificates."""

    def __init__(self, flags: Flags, now: float, *, clients_show_theirs: bool) -> None:
        """Read what the flags name; StartError when something cannot be used.

        `clients_show_theirs`: clients are asked for a certificate. Any is taken, and not verified here.
        """
        self._clients_show_theirs = clients_show_theirs
        self._rules = TlsRules.of(flags)
        self._bound = "" if ipaddress.ip_address(flags.bind_address).is_unspecified else flags.bind_address
        self._made, self._files = _default(flags, now, self._bound)
        self._named = [_named_pair(text) for text in flags.tls_sni_cert_key]
        self._contexts = self._fresh_contexts()

    def connection(self) -> SSL.Connection:
        """Begin the server's side of a connection, which shows what is current."""
        connection = SSL.Connection(self._for_name(self._bound))
        connection.set_accept_state()
        return connection

    async def follow(self) -> None:
        """Read files again when they change, for ever."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Look at the files once."""
        followed = [pair.files for pair in self._named] + ([self._files] if self._files is not None else [])
        changed = [files for files in followed if files.changed()]
        if changed:
            try:
                self._contexts = self._fresh_contexts()
            except StartError as error:
                log.error(f"{error}; the ones before stay")

    def _fresh_contexts(self) -> Contexts:
        """Make the contexts of all future connections."""
        by_name: dict[str, SSL.Context] = {}
        for pair in reversed(self._named):  # so that an earlier flag's name stays
            if not pair.names:
                by_name |= dict.fromkeys(names_of(pair.files.pair), self._fresh(pair.files.pair))
        for pair in reversed(self._named):
            if pair.names:
                by_name |= dict.fromkeys(pair.names, self._fresh(pair.files.pair))
        return Contexts(self._fresh(self._made if self._files is None else self._files.pair), by_name)

    def _for_name(self, name: str) -> SSL.Context:
        name, known = name.lower().rstrip("."), self._contexts
        wildcard = f"*.{name.partition('.')[2]}"
        return known.by_name.get(name) or known.by_name.get(wildcard) or known.default

    def _fresh(self, pair: CertKey) -> SSL.Context:
        """Make a context that shows a pair; StartError when OpenSSL does not take it, as it takes no short RSA key."""
        try:
            return self._made_context(pair)
        except SSL.Error as error:
            raise StartError(f"OpenSSL does not take a serving certificate or the cipher suites: {reason_of(error)}") from None

    def _made_context(self, pair: CertKey) -> SSL.Context:
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(self._rules.minimum)
        context.set_options(OPTIONS)
        context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # an idle connection holds no buffers
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # a resumed session would bring no chain of the client's
        context.set_options(SSL.OP_NO_TICKET)
        if self._rules.ciphers:
            context.set_cipher_list(self._rules.ciphers.encode())
        first, *rest = x509.load_pem_x509_certificates(pair.certificate)
        context.use_certificate(first)
        for certificate in rest:
            context.add_extra_chain_cert(certificate)
        context.use_privatekey(load_pem_private_key(pair.key, password=None))  # type: ignore[arg-type]  # its union leaves out DH
        context.set_alpn_select_callback(lambda _, offered: PROTOCOL if PROTOCOL in offered else SSL.NO_OVERLAPPING_PROTOCOLS)
        context.set_tlsext_servername_callback(self._show_asked)
        if self._clients_show_theirs:
            context.set_verify(SSL.VERIFY_PEER, lambda *_: True)
        return context

    def _show_asked(self, connection: SSL.Connection) -> None:
        name = connection.get_servername()
        if name:
            connection.set_context(self._for_name(name.decode("ascii", errors="replace")))


def names_of(pair: CertKey) -> Iterable[str]:
    """Return the names and addresses that a certificate is for; without any its CN."""
    certificate = x509.load_pem_x509_certificates(pair.certificate)[0]
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [str(each.value).lower() for each in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    dns = [name.lower() for name in alternatives.get_values_for_type(x509.DNSName)]
    return [*dns, *map(str, alternatives.get_values_for_type(x509.IPAddress))]


def _default(flags: Flags, now: float, address: str) -> tuple[CertKey, FollowedPair | None]:
    """Return the default certificate, and the files that it is followed in, if any."""
    if not (flags.tls_cert_file or flags.tls_private_key_file):
        if not flags.cert_dir:
            return self_signed(now, address), None
        files = pair_of_folder(Path(flags.cert_dir), now)
        return files.pair, files
    for flag, other, file in (
        ("--tls-cert-file", "--tls-private-key-file", flags.tls_cert_file),
        ("--tls-private-key-file", "--tls-cert-file", flags.tls_private_key_file),
    ):
        if not file:
            raise StartError(f"{other} needs {flag} beside it")
    files = FollowedPair(flags.tls_cert_file, flags.tls_private_key_file, PairFlags())
    return files.pair, files


def _named_pair(text: str) -> NamedPair:
    """Read `certificate,key` or `certificate,key:name,name`."""
    files, _, names = text.partition(":")
    paths = files.split(",")
    if len(paths) != 2 or not all(paths):  # noqa: PLR2004  # a certificate and its key
        raise StartError(f'{SNI_FLAG} {text}: expected comma separated certificate and key file paths, optionally with ":" and names')
    return NamedPair(FollowedPair(paths[0], paths[1], PairFlags(SNI_FLAG, SNI_FLAG)), tuple(names.lower().split(",")) if names else ())
