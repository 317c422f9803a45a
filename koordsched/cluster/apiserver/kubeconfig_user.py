"""The user of a kubeconfig's context: which credential it names.

Precedence is client-go's: a token file over a token, either over a plugin; a token beside a user name, or two plugins, are a mistake.
"""

from __future__ import annotations

import os
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from koordsched.cluster.apiserver.credentials import Credential, CredentialSource, Fixed, TokenFile, bearer, escaped_header_key, header_flaw
from koordsched.cluster.apiserver.exec_plugin import ExecPlugin
from koordsched.cluster.apiserver.target import Pem

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.cluster.apiserver.kubeconfig_format import AuthProvider, Exec, KubeconfigUser, NamedUser
    from koordsched.cluster.apiserver.settings import ConnectError

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class UserSource(Protocol):
    """What is needed of a kubeconfig file here."""

    @property
    def name(self) -> str: ...

    def error(self, key: str, what: str) -> ConnectError: ...

    def path(self, text: str) -> str: ...

    def pem(self, key: str, file: str, data: str) -> Pem: ...


class UserCredentials(msgspec.Struct, frozen=True):
    """The user that a context names: credentials, a client certificate, impersonation."""

    credentials: CredentialSource
    certificate: Pem
    key: Pem
    headers: tuple[tuple[str, str], ...]


def read_user(source: UserSource, named: NamedUser, cluster_info: Callable[[], dict[str, Any]]) -> UserCredentials:
    """Return what the user's entry amounts to; `cluster_info` describes the cluster to a plugin. ConnectError names the key."""
    where, user = f"users[{named.name}].user", named.user
    return UserCredentials(
        _credentials(source, where, user, cluster_info),
        source.pem(f"{where}.client-certificate", user.client_certificate, user.client_certificate_data),
        source.pem(f"{where}.client-key", user.client_key, user.client_key_data),
        _impersonation(source, where, user),
    )


def _credentials(source: UserSource, where: str, user: KubeconfigUser, cluster_info: Callable[[], dict[str, Any]]) -> CredentialSource:
    if (user.token or user.token_file) and user.username:
        raise source.error(where, "only one of token and username can be used")
    if user.exec is not None and user.auth_provider is not None:
        raise source.error(where, "only one of exec and auth-provider can be used")
    if user.token_file:
        return TokenFile(f"kubeconfig {source.name}: {where}.tokenFile", source.path(user.token_file))
    if user.token:
        flaw = header_flaw(user.token)
        if flaw:
            raise source.error(f"{where}.token", flaw)
        return Fixed(bearer(user.token, where))
    if user.username:
        pair = f"{user.username}:{user.password}".encode()
        return Fixed(Credential(authorization=f"Basic {b64encode(pair).decode()}"))
    if user.exec is not None:
        return _plugin(source, f"{where}.exec", user.exec, cluster_info)
    if user.auth_provider is not None:
        return _provider(source, f"{where}.auth-provider", user.auth_provider)
    return Fixed()


def _plugin(source: UserSource, where: str, given: Exec, cluster_info: Callable[[], dict[str, Any]]) -> ExecPlugin:
    if not given.command:
        raise source.error(f"{where}.command", "must be given")
    if given.api_version not in EXEC_VERSIONS:
        raise source.error(f"{where}.apiVersion", f'"{given.api_version}" is not known; known are {", ".join(EXEC_VERSIONS)}')
    if given.interactive_mode == "Always":
        raise source.error(f"{where}.interactiveMode", "Always cannot be had: a scheduler has no terminal")
    is_path = os.sep in given.command
    return ExecPlugin(
        where=f"kubeconfig {source.name}: {where}",
        command=source.path(given.command) if is_path else given.command,
        arguments=given.args,
        environment={variable.name: variable.value for variable in given.env},
        api_version=given.api_version,
        install_hint=given.install_hint,
        cluster=cluster_info() if given.provide_cluster_info else None,
    )


def _provider(source: UserSource, where: str, given: AuthProvider) -> CredentialSource:
    if given.name != "oidc":
        raise source.error(f"{where}.name", f'no auth provider "{given.name}"; gcp and azure were replaced by exec plugins')
    from koordsched.cluster.apiserver.oidc import Oidc, OidcSettings  # noqa: PLC0415  # costs 0.5 s and 38 MiB, see there

    settings = msgspec.convert(given.config, OidcSettings)
    if not settings.idp_issuer_url or not settings.client_id:
        raise source.error(f"{where}.config", "idp-issuer-url and client-id must be given")
    return Oidc(f"kubeconfig {source.name}: {where}", settings)


def _impersonation(source: UserSource, where: str, user: KubeconfigUser) -> tuple[tuple[str, str], ...]:
    given = [("as", "User", user.impersonate), ("as-uid", "Uid", user.impersonate_uid)]
    given += [(f"as-groups[{i}]", "Group", group) for i, group in enumerate(user.impersonate_groups)]
    for key, values in user.impersonate_extra.items():
        given += [(f"as-user-extra[{key}][{i}]", f"Extra-{escaped_header_key(key)}", value) for i, value in enumerate(values)]
    for field, _, value in given:
        flaw = header_flaw(value)
        if flaw:
            raise source.error(f"{where}.{field}", flaw)
    return tuple((f"Impersonate-{name}", value) for _, name, value in given if value)
