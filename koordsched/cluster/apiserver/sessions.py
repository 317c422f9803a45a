"""aiohttp's client: for answers that are read as they come (watches), and for everything when there is a proxy.

The proxy is the kubeconfig's proxy-url, else what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say, as Go reads them: asked once when the
connection is made, for aiohttp would look at the environment before each request.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from koordsched.cluster.apiserver.http1 import KEEPALIVE_SECONDS
from koordsched.cluster.apiserver.wire import TRANSPORT_ERRORS, ApiResponse, max_body, wire_error

if TYPE_CHECKING:
    import ssl

    from koordsched.cluster.apiserver.calls import Call, Pool
    from koordsched.cluster.apiserver.settings import ConnectionSettings
    from koordsched.cluster.apiserver.target import Target


class Sessions:
    """A session for each pool, made when it is first needed."""

    def __init__(self, target: Target, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._proxy, self._proxy_headers = _proxy(target.proxy or environment_proxy(target.server))
        self._server_hostname = target.tls.server_name or None
        self.proxied = self._proxy is not None
        self._sessions: dict[Pool, aiohttp.ClientSession] = {}

    async def send(self, call: Call, url: str, headers: CIMultiDict[str], context: ssl.SSLContext | None) -> aiohttp.ClientResponse:
        """Send, and return when the status is there. WireError. The response is to be closed.

        Without a time limit of its own, as a watch is, the call has that of a request until then: an API server says at once that it
        watches, so silence before that means that the request was not received.
        """
        if self._proxy_headers and not url.startswith("https:"):  # aiohttp sends them only where it asks the proxy for a tunnel
            headers = CIMultiDict([*headers.items(), *self._proxy_headers.items()])
        try:
            async with asyncio.timeout(self._settings.request_timeout if call.seconds is None else None):
                return await self._session(call.pool).request(
                    call.method,
                    URL(url, encoded=True),
                    data=call.body,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=call.seconds, sock_connect=self._settings.connect_timeout, sock_read=call.silence),
                    allow_redirects=False,  # the credentials are for this server
                    ssl=True if context is None else context,
                    server_hostname=self._server_hostname,
                    proxy=self._proxy,
                    proxy_headers=self._proxy_headers,
                )
        except TRANSPORT_ERRORS as error:
            raise wire_error(error) from None

    async def close(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    def _session(self, pool: Pool) -> aiohttp.ClientSession:
        session = self._sessions.get(pool)
        if session is None:
            session = self._sessions[pool] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return session


async def read_whole(response: aiohttp.ClientResponse, max_answer: int) -> ApiResponse:
    """Read the body as far as it comes, up to its limit, and give the connection back."""
    retry_after = response.headers.get("Retry-After")
    limit, body = max_body(response.status, max_answer), bytearray()
    async with response:
        try:
            async for piece in response.content.iter_any():
                if len(body) + len(piece) > limit:
                    response.close()
                    return ApiResponse(response.status, bytes(body), retry_after, f"it is larger than {limit} bytes")
                body += piece
        except TRANSPORT_ERRORS:
            return ApiResponse(response.status, bytes(body), retry_after, "it broke off")
    return ApiResponse(response.status, bytes(body), retry_after)


def _proxy(address: str) -> tuple[URL | None, dict[str, str] | None]:
    """Take the user out of a proxy's URL: the proxy gets it in a header."""
    if not address:
        return None, None
    url = URL(address if "://" in address else f"http://{address}")
    if not url.user:
        return url, None
    pair = b64encode(f"{url.user}:{url.password or ''}".encode()).decode()
    return url.with_user(None), {"Proxy-Authorization": f"Basic {pair}"}


def environment_proxy(server: str) -> str:
    """Return the URL of the proxy that the environment names for the server, "" for none. Never one for loopback addresses."""
    address = urlsplit(server)
    host = address.hostname or ""
    proxies = getproxies()
    if host == "localhost" or _in_networks(host, proxies.get("no", "")) or proxy_bypass(host):
        return ""
    return proxies.get(address.scheme, "")


def _in_networks(host: str, no_proxy: str) -> bool:
    """Answer whether the host is a loopback address or in a network (10.0.0.0/8) that NO_PROXY names."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    for entry in no_proxy.split(","):
        try:
            if "/" in entry and address in ip_network(entry.strip(), strict=False):
                return True
        except ValueError:
            continue
    return address.is_loopback
