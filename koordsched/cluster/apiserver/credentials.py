"""The scheduler's credentials for the API server: where an Authorization header or a client certificate comes from.

A source only fetches; when that is done again (in time, after a 401) is `identity`'s business. What comes from outside and is to stand in
a header is checked here.
"""

from __future__ import annotations

import asyncio
import re
from typing import Protocol

import msgspec

from koordsched.files import read_limited

TOKEN_FILE_SECONDS = 60.0

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHARACTERS = {"\r": "a line break", "\n": "a line break", "\0": "a NUL", "\t": "a tab"}


class CredentialError(Exception):
    """A credential cannot be had now. The text is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class Credential(msgspec.Struct, frozen=True):
    """What a request is authenticated by. `expires` is seconds since the epoch, None: not known to expire."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires: float | None = None


class CredentialSource(Protocol):
    """Where credentials come from. `poll_seconds` says how often to look for a changed one, None: only when it expires or is refused."""

    @property
    def poll_seconds(self) -> float | None: ...

    async def fetch(self) -> Credential:
        """Return the present credential. CredentialError: there is none."""


class Fixed(msgspec.Struct, frozen=True):
    """A credential that never changes, or none at all."""

    credential: Credential = Credential()

    @property
    def poll_seconds(self) -> float | None:
        return None

    async def fetch(self) -> Credential:
        return self.credential


class TokenFile(msgspec.Struct, frozen=True):
    """A bearer token in a file that another program keeps fresh: the kubelet, for a service account."""

    where: str  # what the operator calls it, for messages
    path: str

    @property
    def poll_seconds(self) -> float | None:
        return TOKEN_FILE_SECONDS

    async def fetch(self) -> Credential:
        try:
            text = (await asyncio.to_thread(read_limited, self.path)).decode()
        except (OSError, UnicodeError) as error:
            raise CredentialError(f"{self.where}: {self.path}: {getattr(error, 'strerror', None) or error}") from None
        token = text.strip()
        if not token:
            raise CredentialError(f"{self.where}: {self.path} is empty")
        return bearer(token, f"{self.where}: {self.path}")


def bearer(token: str, source: str, expires: float | None = None) -> Credential:
    """Return the credential that a token is. CredentialError names its source when it cannot be sent as a header."""
    flaw = header_flaw(token)
    if flaw:
        raise CredentialError(f"{source}: the token {flaw}")
    return Credential(authorization=f"Bearer {token}", expires=expires)


def header_flaw(value: str) -> str:
    """Return what keeps a value from being sent as a header, "" when nothing does. The value, which may be secret, is not repeated."""
    for position, character in enumerate(value, 1):
        if not " " <= character <= "~":
            what = _CHARACTERS.get(character) or ("a control character" if character.isascii() else "a character that is not ASCII")
            return f"holds {what} (character {position})"
    return ""


def escaped_header_key(key: str) -> str:
    """Write any text as a part of a header's name: what may not stand there as %XX, as client-go writes the keys of impersonation."""
    return "".join(chr(byte) if HEADER_NAME.fullmatch(chr(byte)) and byte != ord("%") else f"%{byte:02X}" for byte in key.encode())
