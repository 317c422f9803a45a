"""TLS versions and cipher suites by the names that the flags take: Go's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from OpenSSL import SSL

from koordsched.log import get_logger
from koordsched.server import StartError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koordsched.config import Flags

log = get_logger(__name__)

VERSIONS = {
    "": SSL.TLS1_2_VERSION,  # Go's default
    "VersionTLS10": SSL.TLS1_VERSION,
    "VersionTLS11": SSL.TLS1_1_VERSION,
    "VersionTLS12": SSL.TLS1_2_VERSION,
    "VersionTLS13": SSL.TLS1_3_VERSION,
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
INSECURE = frozenset(name for name in CIPHERS if name.startswith("TLS_RSA_") or name.endswith("_CBC_SHA256"))
"""What Go calls insecure: allowed, and warned of."""
UNKNOWN_TO_OPENSSL = frozenset(
    {
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_RC4_128_SHA",
    }
)
"""What Go calls insecure and OpenSSL 3 does not have any more: may be named, is not offered."""
ALWAYS_WITH_TLS13 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""TLS 1.3 has these, whatever the flag says, as in Go."""


class TlsRules(msgspec.Struct, frozen=True):
    """The lowest version to speak, and the suites below TLS 1.3 in OpenSSL's words, "" for its own choice."""

    minimum: int
    ciphers: str

    @classmethod
    def of(cls, flags: Flags) -> TlsRules:
        """Read the flags; StartError names what is not known."""
        if flags.tls_min_version not in VERSIONS:
            known = ", ".join(filter(None, VERSIONS))
            raise StartError(f'--tls-min-version: unknown tls version "{flags.tls_min_version}", expected one of {known}')
        minimum, ciphers = VERSIONS[flags.tls_min_version], list(_openssl_names(flags.tls_cipher_suites))
        if flags.tls_cipher_suites and not ciphers:
            return cls(SSL.TLS1_3_VERSION, "")  # nothing is left to speak anything older with
        if minimum < SSL.TLS1_2_VERSION:
            ciphers = [*(ciphers or ["DEFAULT"]), "@SECLEVEL=0"]  # without which OpenSSL 3 speaks nothing older than TLS 1.2
        return cls(minimum, ":".join(ciphers))


def _openssl_names(suites: Iterable[str]) -> Iterator[str]:
    """Yield OpenSSL's names of the suites below TLS 1.3."""
    for name in suites:
        if name in UNKNOWN_TO_OPENSSL:
            log.warning(f"Insecure cipher '{name}' is not offered: OpenSSL does not have it.")
        elif name not in CIPHERS and name not in ALWAYS_WITH_TLS13:
            raise StartError(f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist")
        elif name in CIPHERS:
            if name in INSECURE:
                log.warning(f"Use of insecure cipher '{name}' detected.")
            yield CIPHERS[name]
