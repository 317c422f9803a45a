"""Authentication and authorisation made from the flags, and kept true while the process runs.

The API server is asked with credentials of its own: --authentication-kubeconfig and --authorization-kubeconfig, or those of the pod that
this process is in. With neither, tokens say nothing, the cluster's CAs are not known and only groups and open paths authorise: then all but
the open paths is forbidden, as with kube-scheduler (`RemoteKubeConfigFileOptional`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Protocol

import msgspec

from koordsched.api.kinds import Kind
from koordsched.api.meta import Object
from koordsched.clock import Clock
from koordsched.cluster.apiserver import ConnectError, ConnectionSettings
from koordsched.cluster.port import Ref
from koordsched.config import Flags
from koordsched.files import FOLLOW_SECONDS
from koordsched.log import get_logger
from koordsched.server import StartError
from koordsched.server.access.authentication import Authenticator, Tokens
from koordsched.server.access.authorities import LOOKUP_SECONDS, AuthorityFile, FrontProxy, Lookup, Trust, WantedAuthorities
from koordsched.server.access.authorization import AccessFilter, AnswerLifetimes, Authorizer, OpenPaths
from koordsched.server.access.identities import ProxyRules
from koordsched.server.access.reviews import Reviews

log = get_logger(__name__)

QPS, BURST = 200.0, 400
"""client-go's limits in delegated authentication: asking must not hold up answering."""
CONFIG_MAP = "configmap/extension-apiserver-authentication in kube-system"


class ReviewConnection(Protocol):
    """The adapter of an API server, as far as it is needed here."""

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Object: ...
    async def get(self, ref: Ref) -> Object: ...
    async def close(self) -> None: ...


class ApiConnector(msgspec.Struct, frozen=True):
    """What the outside is reached and timed by."""

    connect: Callable[[ConnectionSettings, Clock, Random], Awaitable[ReviewConnection]]
    clock: Clock
    random: Random


class Delegation:
    """What the flags ask for. `start` it, let its `follow_*` run beside what it guards, `close` it."""

    def __init__(self, flags: Flags, connector: ApiConnector) -> None:
        self._flags = flags
        self._connector = connector
        self._trust = Trust()
        self._client_file = _file("client-ca-file", flags.client_ca_file)
        self._proxy_file = _file("requestheader-client-ca-file", flags.requestheader_client_ca_file)
        self._open = AsyncExitStack()
        self._lookup: Lookup | None = None
        self._problems: list[str] = []
        self._take_files()

    async def start(self) -> AccessFilter:
        """Return the gate; StartError for a kubeconfig that leads nowhere, or CAs that must be looked up and cannot be."""
        flags, connector = self._flags, self._connector
        asked = await self._connected("authentication-kubeconfig", flags.authentication_kubeconfig)
        decider = await self._connected("authorization-kubeconfig", flags.authorization_kubeconfig)
        self._lookup = self._made_lookup(asked)
        if self._lookup is not None and not flags.authentication_tolerate_lookup_failure:
            problems = await self._lookup.once()
            if problems:
                raise StartError(f"unable to load configmap based request-header-client-ca-file: {'; '.join(problems)}")
        if decider is None:
            log.warning("No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work.")
        ttl = flags.authentication_token_webhook_cache_ttl
        tokens = None if asked is None else Tokens(Reviews(asked, connector.random), connector.clock.now, ttl)
        holding = AnswerLifetimes(flags.authorization_webhook_cache_authorized_ttl, flags.authorization_webhook_cache_unauthorized_ttl)
        reviews = None if decider is None else Reviews(decider, connector.random)
        open_paths = OpenPaths(flags.authorization_always_allow_paths)
        return AccessFilter(
            Authenticator(self._trust, connector.clock.now, tokens), Authorizer(open_paths, reviews, connector.clock.now, holding)
        )

    @property
    def asks_for_certificates(self) -> bool:
        """Return whether a client's certificate can say anything, now or later."""
        return self._lookup is not None or self._client_file is not None or self._proxy_file is not None

    async def close(self) -> None:
        await self._open.aclose()

    async def follow_files(self) -> None:
        """Read CA files again when they change, for ever."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            for file in (self._client_file, self._proxy_file):
                if file is not None and file.changed():
                    self._take_files()

    async def follow_cluster(self) -> None:
        """Read the ConfigMap again and again, for ever; end at once when it is not wanted or no API server can be asked."""
        while self._lookup is not None:
            problems = await self._lookup.once()
            if problems != self._problems:
                self._say(problems)
            await asyncio.sleep(LOOKUP_SECONDS)

    def _say(self, problems: list[str]) -> None:
        self._problems = problems
        if not problems:
            log.info("in-cluster authentication configuration was looked up", object=CONFIG_MAP)
            return
        log.warning("Error looking up in-cluster authentication configuration: " + "; ".join(problems))
        log.warning(
            "Continuing without authentication configuration. This may treat all requests as anonymous. "
            "To require authentication configuration lookup to succeed, set --authentication-tolerate-lookup-failure=false"
        )

    def _take_files(self) -> None:
        flags = self._flags
        if self._client_file is not None:
            self._trust.clients = self._client_file.authorities
        if self._proxy_file is not None:
            rules = ProxyRules(
                username_headers=flags.requestheader_username_headers,
                group_headers=flags.requestheader_group_headers,
                extra_prefixes=flags.requestheader_extra_headers_prefix,
                uid_headers=flags.requestheader_uid_headers,
                allowed_names=flags.requestheader_allowed_names,
            )
            self._trust.front_proxy = FrontProxy(self._proxy_file.authorities, rules)

    def _made_lookup(self, asked: ReviewConnection | None) -> Lookup | None:
        wanted = WantedAuthorities(clients=self._client_file is None, front_proxy=self._proxy_file is None)
        if self._flags.authentication_skip_lookup or not (wanted.clients or wanted.front_proxy):
            return None
        if asked is not None:
            return Lookup(asked, self._trust, wanted)
        for key, is_wanted, means in (
            ("client-ca-file", wanted.clients, "client certificate"),
            ("requestheader-client-ca-file", wanted.front_proxy, "request-header client certificate"),
        ):
            if is_wanted:
                log.warning(
                    f"No authentication-kubeconfig provided in order to lookup {key} in {CONFIG_MAP}, so {means} authentication won't work."
                )
        return None

    async def _connected(self, flag: str, kubeconfig: str) -> ReviewConnection | None:
        """Return a connection with the flag's credentials or the pod's; None outside of a cluster."""
        if not kubeconfig and not os.environ.get("KUBERNETES_SERVICE_HOST"):
            return None
        settings = ConnectionSettings(kubeconfig=kubeconfig, qps=QPS, burst=BURST)
        try:
            connection = await self._connector.connect(settings, self._connector.clock, self._connector.random)
        except ConnectError as error:
            if kubeconfig:
                raise StartError(f"--{flag}: {error}") from None
            log.warning(f"--{flag} is not given, and the pod's own credentials cannot be used", err=str(error))
            return None
        self._open.push_async_callback(connection.close)
        return connection


def _file(flag: str, path: str) -> AuthorityFile | None:
    return AuthorityFile(flag, path) if path else None
