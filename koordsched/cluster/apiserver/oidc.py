"""Credentials from an OpenID Connect issuer: kubeconfig's auth-provider "oidc".

kubernetes-asyncio speaks to the issuer (discovery, refresh). Its connector is replaced: its own does not check the issuer's certificate
when the kubeconfig names no authority, and fails when it names one (36.1.0). Importing this module imports kubernetes-asyncio with all its
model classes, 0.5 s and 38 MiB, so it is imported only for a kubeconfig that asks for it.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from typing import Any

import aiohttp
import msgspec
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.openid import OpenIDRequestor

from koordsched.cluster.apiserver.credentials import Credential, CredentialError, bearer


class OidcSettings(msgspec.Struct, frozen=True, rename="kebab"):
    """auth-provider.config of a kubeconfig."""

    idp_issuer_url: str = ""
    client_id: str = ""
    client_secret: str = ""
    id_token: str = ""
    refresh_token: str = ""
    idp_certificate_authority: str = ""
    idp_certificate_authority_data: str = ""


class _Requestor(OpenIDRequestor):
    """Talks to the issuer over verified TLS."""

    def __init__(self, settings: OidcSettings, context: ssl.SSLContext) -> None:
        super().__init__(settings.client_id, settings.client_secret, settings.idp_issuer_url)
        self._context = context

    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=self._context)


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
            return bearer(token, _expiry(token))
        if not self._refresh_token:
            raise CredentialError(f"{self._where}: the id-token is used up and there is no refresh-token")
        try:
            answer: dict[str, Any] = await _Requestor(self._settings, self._trusted()).refresh_token(self._refresh_token)
            token = str(answer["id_token"])
        except (ConfigException, aiohttp.ClientError, OSError, KeyError, TypeError, ValueError) as error:
            raise CredentialError(f"{self._where}: {self._settings.idp_issuer_url} gives no new id-token: {error!r}") from None
        self._refresh_token = str(answer.get("refresh_token") or self._refresh_token)
        return bearer(token, _expiry(token))

    def _trusted(self) -> ssl.SSLContext:
        """Return a context that trusts the authority given, else the system's. ValueError, OSError: it cannot be read."""
        data = base64.b64decode(self._settings.idp_certificate_authority_data).decode()
        return ssl.create_default_context(cafile=self._settings.idp_certificate_authority or None, cadata=data or None)


def _expiry(token: str) -> float | None:
    """Return when a JWT expires, None when it does not say so."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004  # header, claims, signature
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=="), type=dict[str, Any])
        return float(claims["exp"])
    except (msgspec.DecodeError, binascii.Error, KeyError, TypeError, ValueError):
        return None
