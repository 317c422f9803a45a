"""What requests carry and connections show, kept fresh: Authorization, client certificate, trusted authorities.

`version` grows whenever something changed. Renewal happens ahead of expiry in `run`, which also looks at files again once a minute, and at
once in `renew`, when the API server refused (401) or could not be trusted any more. A renewal that fails is logged and tried again with
growing delays; until then the old credential is used, for it may still be good.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koordsched.backoff import Backoff
from koordsched.cluster.apiserver.credentials import Credential, CredentialError
from koordsched.cluster.apiserver.settings import ConnectError
from koordsched.cluster.apiserver.tls import Material, make_context, read_material
from koordsched.log import get_logger

if TYPE_CHECKING:
    import ssl
    from random import Random

    from koordsched.clock import Clock
    from koordsched.cluster.apiserver.target import Target

FILES_SECONDS = 60.0
RENEW_AHEAD = 0.2  # of a credential's life is left when it is renewed,
MAX_AHEAD_SECONDS = 300.0  # but not more than this
MIN_PAUSE_SECONDS = 1.0  # between two renewals, whatever happens
REFUSED_PAUSE_SECONDS = 5.0  # after a renewal that brought nothing new

log = get_logger(__name__)


class Identity:
    """The credential and the TLS context of now. `start` before use, `run` as a task beside it."""

    def __init__(self, target: Target, clock: Clock, random: Random) -> None:
        self.version = 0
        self.authorization = ""
        self.context: ssl.SSLContext | None = None  # None: plain HTTP
        self._source = target.credentials
        self._tls = target.tls
        self._secure = target.server.startswith("https://")
        self._clock = clock
        self._backoff = Backoff(random)
        self._credential = Credential()
        self._material = Material()
        self._fetched = clock.now()
        self._useless_until = 0.0  # the clock's time before which asking again after a refusal is of no use
        self._renewing = asyncio.Lock()

    async def start(self) -> None:
        """Get the first credential. ConnectError: it, or the TLS material, cannot be had."""
        try:
            await self._refresh()
        except CredentialError as error:
            raise ConnectError(str(error)) from None

    async def renew(self, version: int) -> bool:
        """Look for something newer than this version, which was of no use; answer whether there is."""
        async with self._renewing:
            if self.version != version:
                return True
            if self._clock.now() < self._useless_until:
                return False
            await self._try_refresh()
            if self.version == version:
                self._useless_until = self._clock.now() + REFUSED_PAUSE_SECONDS
            return self.version != version

    async def run(self) -> None:
        """Renew in time until cancelled."""
        while True:
            due = self._due()
            await asyncio.sleep(FILES_SECONDS if due is None else min(FILES_SECONDS, max(0.0, due - self._clock.now())))
            due = self._due()
            if due is not None and self._clock.now() < due:
                await self._look_at_files()
                continue
            async with self._renewing:
                renewed = await self._try_refresh()
            if not renewed:
                await asyncio.sleep(self._backoff.delay())

    def _due(self) -> float | None:
        """Return when the credential is to be fetched again (the clock's time), None: it never is."""
        expires, poll = self._credential.expires, self._source.poll_seconds
        if expires is not None:
            ahead = min(RENEW_AHEAD * (expires - self._fetched), MAX_AHEAD_SECONDS)
            return max(expires - ahead, self._fetched + MIN_PAUSE_SECONDS)
        return None if poll is None else self._fetched + poll

    async def _try_refresh(self) -> bool:
        try:
            await self._refresh()
        except (CredentialError, ConnectError) as error:
            log.warning("credentials cannot be renewed; the old ones are used until that works", error=str(error))
            return False
        except Exception as bug:  # it must not become the error of the request that asked for the renewal
            log.exception("credentials cannot be renewed; the old ones are used until that works", error=repr(bug))
            return False
        self._backoff.reset()
        return True

    async def _look_at_files(self) -> None:
        """Take over certificates that changed on disk."""
        try:
            await self._take_over(self._credential)
        except ConnectError as error:
            log.warning("changed certificates cannot be used; the old ones are kept", error=str(error))

    async def _refresh(self) -> None:
        credential = await self._source.fetch()
        self._fetched = self._clock.now()
        await self._take_over(credential)

    async def _take_over(self, credential: Credential) -> None:
        """Make the credential and the certificates on disk the present ones."""
        changed = credential.authorization != self._credential.authorization
        if self._secure:
            material = await asyncio.to_thread(read_material, self._tls)
            if credential.certificate:
                material = Material(material.authority, credential.certificate, credential.key)
            if self.context is None or material != self._material:
                self.context = await asyncio.to_thread(make_context, self._tls, material)
                self._material = material
                changed = True
        self._credential = credential
        self.authorization = credential.authorization
        if changed:
            self.version += 1
