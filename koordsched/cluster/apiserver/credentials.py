"""Who we are to the API server: where an Authorization header or a client certificate comes from.

A source only fetches; when that is done again (in time, after a 401) is `identity`'s business.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from koordsched.cluster.apiserver.headers import header_flaw
from koordsched.files import read_limited

TOKEN_FILE_SECONDS = 60.0


class CredentialError(Exception):
    """A credential cannot be had now. The text is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class Credential(msgspec.Struct, frozen=True):
    """What shows who we are. `expires` is seconds since the epoch, None: not known to expire."""

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
