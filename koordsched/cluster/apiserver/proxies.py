"""Which proxy leads to the API server: the kubeconfig's proxy-url, else HTTPS_PROXY, HTTP_PROXY and NO_PROXY as Go reads them.

Asked once when the connection is made, for aiohttp would look at the environment before each request.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


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
