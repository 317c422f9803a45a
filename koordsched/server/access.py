"""Who is answered what, and where to listen, until requests are authenticated and authorised (which this version does not do yet).

Only this host may ask for everything. Others get the paths that --authorization-always-allow-paths names, and only if the flag was given:
without it the ports are bound to the loopback address, so that nobody else can connect at all.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from koordsched.config import Flags

ALWAYS_ALLOW = "authorization-always-allow-paths"
LOOPBACK = {4: "127.0.0.1", 6: "::1"}


class Access(msgspec.Struct, frozen=True):
    """The rule. `open_paths`: what anybody may get; a trailing * stands for any rest (framework.md §1.5)."""

    open_paths: tuple[str, ...] = ()

    def refusal(self, peer: str, target: str) -> str:
        """Return why this peer (an IP address) does not get this target, "" when it does."""
        if is_loopback(peer):
            return ""
        path = _path_of(target)
        if any(_matches(pattern, path) for pattern in self.open_paths):
            return ""
        listed = ", ".join(self.open_paths) or "nothing"
        return f"forbidden: from other hosts this version answers only what --{ALWAYS_ALLOW} names ({listed}), not {path}"


def access_of(flags: Flags) -> Access:
    """Return the rule that the flags ask for."""
    return Access(flags.authorization_always_allow_paths if ALWAYS_ALLOW in flags.given else ())


def listening_host(flags: Flags, address: str) -> str:
    """Return the address to bind for one that the flags name: itself, or loopback while nobody else may be answered anything."""
    if ALWAYS_ALLOW in flags.given or is_loopback(address):
        return address
    return LOOPBACK[ipaddress.ip_address(address).version]


def is_loopback(address: str) -> bool:
    """Answer whether an IP address is this host's own; a text that is no address is nobody's."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def _path_of(target: str) -> str:
    """Return the path as the endpoints read it, so that what is allowed is what is answered."""
    try:
        return urlsplit(target).path
    except ValueError:
        return ""


def _matches(pattern: str, path: str) -> bool:
    wanted, given = pattern.removeprefix("/"), path.removeprefix("/")
    return given.startswith(wanted[:-1]) if wanted.endswith("*") else given == wanted
