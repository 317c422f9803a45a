"""Credentials from an OpenID Connect issuer: kubeconfig's auth-provider "oidc".

kubernetes-asyncio speaks to the issuer (discovery, refresh). Its connector is replaced: its own does not check the issuer's certificate
when the kubeconfig names no authority, and fails when it names one (36.1.0). How it reads answers is replaced too: it does so without any
limit. Importing this module imports kubernetes-asyncio with all its model classes, 0.5 s and 38 MiB, so it is imported only for a
kubeconfig that asks for it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from math import isfinite
from typing import Any

import aiohttp
import msgspec
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.openid import OpenIDRequestor

from koordsched.api.meta import JSON_ERRORS
from koordsched.cluster.apiserver.credentials import Credential, CredentialError, bearer
from koordsched.cluster.apiserver.sessions import read_whole
from koordsched.cluster.apiserver.wire import TRANSPORT_ERRORS, network_error_text
from koordsched.files import read_limited

MAX_ANSWER = 2**20
"""Bytes of what an issuer answers: its metadata, or tokens."""
TIME_LIMIT_SECONDS = 60.0


class OidcSettings(msgspec.Struct, frozen=True, rename="kebab"):
    """auth-provider.config of a kubeconfig."""

    idp_issuer_url: str = ""
    client_id: str = ""
    client_secret: str = ""
    id_token: str = ""
    refresh_token: str = ""
    idp_certificate_authority: str = ""
    idp_certificate_authority_data: str = ""


class _Tokens(msgspec.Struct):
    """The issuer's answer to a refresh token."""

    id_token: str
    refresh_token: str | None = None


class _Claims(msgspec.Struct):
    exp: float


class _Requestor(OpenIDRequestor):
    """Sends requests to the issuer over verified TLS."""

    def __init__(self, settings: OidcSettings, context: ssl.SSLContext) -> None:
        super().__init__(settings.client_id, settings.client_secret, settings.idp_issuer_url)
        self._context = context

    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=self._context)

    async def _get(self, client: aiohttp.ClientSession, url: str) -> dict[str, Any]:
        async with client.get(url) as answer:
            return await _object(answer)

    async def _post(self, client: aiohttp.ClientSession, url: str, data: dict[str, str]) -> dict[str, Any]:
        async with client.post(url, data=data) as answer:
            return await _object(answer)


async def _object(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    """Return the JSON object that the issuer answers; ValueError when it is none, or too large."""
    read = await read_whole(answer, MAX_ANSWER)
    if read.flaw:
        raise ValueError(f"the answer of {answer.url} cannot be read: {read.flaw}")
    try:
        return msgspec.json.decode(read.body, type=dict[str, Any])
    except JSON_ERRORS as error:
        raise ValueError(f"the answer of {answer.url} cannot be read: {error}") from None


class Oidc:
    """An id token, and the refresh token that gets the next one. What the issuer rotates is kept in memory: no kubeconfig is written."""

    def __init__(self, where: str, settings: OidcSettings) -> None:
        self._where = where
        self._settings = settings
        self._refresh_token = settings.refresh_token
        self._given: str | None = settings.id_token or None  # used first, if it is not known to be expired

    @property
    def poll_seconds(self) -> float | None:
        return None

    async def fetch(self) -> Credential:
        """Return the kubeconfig's own id token the first time, a new one after that."""
        token, self._given = self._given, None
        if token is not None:
            return bearer(token, f"{self._where}.config.id-token", _expiry(token))
        if not self._refresh_token:
            raise CredentialError(f"{self._where}: the id-token is used up and there is no refresh-token")
        try:
            async with asyncio.timeout(TIME_LIMIT_SECONDS):
                requestor = _Requestor(self._settings, await asyncio.to_thread(self._trusted))
                answer: dict[str, Any] = await requestor.refresh_token(self._refresh_token)
            given = msgspec.convert(answer, _Tokens)
        except (ConfigException, KeyError, TypeError, *TRANSPORT_ERRORS) as error:
            raise CredentialError(f"{self._where}: {self._settings.idp_issuer_url} gives no new id-token: {_why(error)}") from None
        self._refresh_token = given.refresh_token or self._refresh_token
        return bearer(given.id_token, f"{self._where}: the id-token of {self._settings.idp_issuer_url}", _expiry(given.id_token))

    def _trusted(self) -> ssl.SSLContext:
        """Return a context that trusts the authority given, else the system's. ValueError, OSError: it cannot be read."""
        data = base64.b64decode(self._settings.idp_certificate_authority_data)
        if self._settings.idp_certificate_authority:
            data += b"\n" + read_limited(self._settings.idp_certificate_authority)
        return ssl.create_default_context(cadata=data.decode("ascii", errors="backslashreplace") or None)


def _why(error: Exception) -> str:
    """Say what kept the issuer from giving a token; kubernetes-asyncio hides the issuer's refusal behind an error of its own."""
    cause = error.__cause__
    refusal = f": {network_error_text(cause)}" if isinstance(cause, aiohttp.ClientError) else ""
    if isinstance(error, KeyError):
        return f"{error} is missing in its answer"
    return network_error_text(error) + refusal


def _expiry(token: str) -> float | None:
    """Return when a JWT expires, None when it does not say so."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004  # header, claims, signature
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=="), type=_Claims)
    except (*JSON_ERRORS, binascii.Error, ValueError):
        return None
    return claims.exp if isfinite(claims.exp) else None
