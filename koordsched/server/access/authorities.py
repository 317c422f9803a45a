"""Trusted authorities: CAs of files and of the cluster's ConfigMap, followed when they change.

kube-apiserver publishes the CAs of its clients and of its front proxies in kube-system/extension-apiserver-authentication. A flag with a
file goes before the ConfigMap's key. What cannot be read any more stays as it was last, and is said once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

import msgspec

from koordsched.api.kinds import CONFIG_MAP
from koordsched.api.meta import Object, Unstructured
from koordsched.cluster.port import ClusterError, Ref
from koordsched.files import FollowedFile
from koordsched.log import get_logger
from koordsched.server import StartError
from koordsched.server.access.identities import Authorities, ProxyRules

log = get_logger(__name__)

PUBLISHED = Ref(CONFIG_MAP, "kube-system", "extension-apiserver-authentication")
LOOKUP_SECONDS = 10.0
"""How often the ConfigMap is read: its role allows to watch this one object only, which the port's watch of a whole kind cannot use."""
CLIENT_CA = "client-ca-file"
PROXY_CA = "requestheader-client-ca-file"
PROXY_LISTS = {
    "requestheader-username-headers": "username_headers",
    "requestheader-group-headers": "group_headers",
    "requestheader-extra-headers-prefix": "extra_prefixes",
    "requestheader-uid-headers": "uid_headers",
    "requestheader-allowed-names": "allowed_names",
}


class FrontProxy(msgspec.Struct, frozen=True):
    """A proxy is trusted when one of these authorities signed its certificate."""

    authorities: Authorities
    rules: ProxyRules


class Trust(msgspec.Struct):
    """The authorities of this moment; None: not known yet, so certificates of that kind say nothing."""

    clients: Authorities | None = None
    front_proxy: FrontProxy | None = None


class AuthorityFile:
    """The CA bundle that a flag names; StartError when it is none."""

    def __init__(self, flag: str, path: str) -> None:
        self._flag = flag
        try:
            self._file = FollowedFile(path)
            self.authorities = Authorities.of(self._file.content)
        except OSError as error:
            raise StartError(f"--{flag} {path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise StartError(f"--{flag} {path} holds no PEM certificate") from None

    def changed(self) -> bool:
        """Look, and return whether there are other authorities now."""
        try:
            if not self._file.changed():
                return False
            self.authorities = Authorities.of(self._file.content)
        except (OSError, ValueError) as error:
            log.error(
                "a CA file cannot be read any more; what it held stays in force", flag=self._flag, file=self._file.path, err=str(error)
            )
            return False
        log.info("a CA file was read again", flag=self._flag, file=self._file.path)
        return True


class ObjectReader(Protocol):
    """What is needed of the port."""

    async def get(self, ref: Ref) -> Object: ...


class WantedAuthorities(msgspec.Struct, frozen=True):
    """What is to be taken from the ConfigMap: what no flag gives."""

    clients: bool
    front_proxy: bool


class Lookup:
    """Keeps `trust` true to the ConfigMap, as far as that is wanted."""

    def __init__(self, cluster: ObjectReader, trust: Trust, wanted: WantedAuthorities) -> None:
        self._cluster = cluster
        self._trust = trust
        self._wanted = wanted

    async def once(self) -> list[str]:
        """Read the ConfigMap; return what is wrong with it or kept it from being read."""
        try:
            found = cast("Unstructured", await self._cluster.get(PUBLISHED))
        except ClusterError as error:
            return [error.message]
        data = found.raw.get("data") or {}
        problems = []
        for key, wanted, take in (
            (CLIENT_CA, self._wanted.clients, self._take_clients),
            (PROXY_CA, self._wanted.front_proxy, self._take_front_proxy),
        ):
            if wanted and not data.get(key):
                problems.append(f"configmap {PUBLISHED.namespace}/{PUBLISHED.name} has no {key}")
            elif wanted:
                try:
                    take(data)
                except ValueError as error:
                    problems.append(f"configmap {PUBLISHED.namespace}/{PUBLISHED.name}: {key}: {error}")
        return problems

    def _take_clients(self, data: Mapping[str, str]) -> None:
        self._trust.clients = Authorities.of(data[CLIENT_CA].encode())

    def _take_front_proxy(self, data: Mapping[str, str]) -> None:
        """Take the authority and its rules together; ValueError leaves both as they were."""
        lists = {name: msgspec.json.decode(data[key], type=tuple[str, ...]) for key, name in PROXY_LISTS.items() if data.get(key)}
        rules = ProxyRules(**{"username_headers": (), "group_headers": (), "extra_prefixes": (), **lists})
        self._trust.front_proxy = FrontProxy(Authorities.of(data[PROXY_CA].encode()), rules)
