"""A kubeconfig file into the target of its current context.

Read by own code, not by kubernetes-asyncio: that answers most malformed files with a TypeError, writes client keys to temporary files,
reads no file a second time, and costs 0.5 s and 38 MiB to import, which a scheduler would pay at each start (measured with 36.1.0).
Merging several files is kubectl's business; --kubeconfig names one.

First the format (v1 Config), as far as a client without a terminal reads it; unknown fields are dropped, as kubectl does. Then the target:
the server, and the user's credentials with client-go's precedence: a token file over a token, either over a plugin; a token beside a user
name, or two plugins, are a mistake.
"""

from __future__ import annotations

import binascii
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from koordsched.api.kinds import Kind
from koordsched.api.meta import Api, Object
from koordsched.api.validation import InvalidObject, decode
from koordsched.cluster.apiserver.credentials import Credential, CredentialSource, Fixed, TokenFile, bearer, escaped_header_key, header_flaw
from koordsched.cluster.apiserver.exec_plugin import ExecPlugin
from koordsched.cluster.apiserver.settings import ConnectError
from koordsched.cluster.apiserver.target import Pem, Target, TlsSettings
from koordsched.files import read_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class NamedExtension(Api, rename="kebab"):
    name: str = ""
    extension: Any = None


class KubeconfigCluster(Api, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[NamedExtension, ...] = ()


class NamedCluster(Api, rename="kebab"):
    name: str
    cluster: KubeconfigCluster = KubeconfigCluster()


class KubeconfigContext(Api, rename="kebab"):
    cluster: str = ""
    user: str = ""


class NamedContext(Api, rename="kebab"):
    name: str
    context: KubeconfigContext = KubeconfigContext()


class EnvironmentVariable(Api, rename="kebab"):
    name: str
    value: str = ""


class Exec(Api):
    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(Api, rename="kebab"):
    name: str = ""
    config: dict[str, str] = msgspec.field(default_factory=dict)


class KubeconfigUser(Api, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: AuthProvider | None = None
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    impersonate_extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="as-user-extra")


class NamedUser(Api, rename="kebab"):
    name: str
    user: KubeconfigUser = KubeconfigUser()


class Kubeconfig(Object, rename="kebab"):
    current_context: str = ""
    clusters: tuple[NamedCluster, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    users: tuple[NamedUser, ...] = ()


EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


KUBECONFIG = Kind("", "v1", "Config", "", namespaced=False, struct=Kubeconfig)
"""For `api.validation.decode`, which says what is wrong with its path and value."""


N = TypeVar("N", NamedCluster, NamedContext, NamedUser)


def read_kubeconfig(path: str, master: str = "") -> Target:
    """Return where the file's current context leads; `master` is used in place of its server. ConnectError names file, key and value."""
    file = Path(path).expanduser()
    source = Source(str(path), file.parent)
    config = _parse(source, _read(source, file))
    if not config.current_context:
        raise source.error("current-context", "is not set")
    context = _named(source, config.contexts, "contexts", config.current_context, "current-context").context
    cluster = _named(source, config.clusters, "clusters", context.cluster, f"the context {config.current_context}").cluster
    user = NamedUser(name="")
    if context.user:
        user = _named(source, config.users, "users", context.user, f"the context {config.current_context}")
    where = f"clusters[{context.cluster}].cluster"
    who = read_user(source, user, lambda: _cluster_info(source, where, cluster, master))
    tls = TlsSettings(
        authority=source.pem(f"{where}.certificate-authority", cluster.certificate_authority, cluster.certificate_authority_data),
        certificate=who.certificate,
        key=who.key,
        server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
    )
    if tls.insecure and (cluster.certificate_authority or cluster.certificate_authority_data):
        raise source.error(f"{where}.insecure-skip-tls-verify", "must not be true together with a certificate-authority")
    server = _server(source, where, cluster, master, tls)
    return Target(server=server, credentials=who.credentials, tls=tls, proxy=_proxy(source, where, cluster), headers=who.headers)


class Source(msgspec.Struct, frozen=True):
    """A kubeconfig file, for messages and for the paths in it, which start at its folder."""

    name: str
    folder: Path

    def error(self, key: str, what: str) -> ConnectError:
        return ConnectError(f"kubeconfig {self.name}: {key}: {what}" if key else f"kubeconfig {self.name}: {what}")

    def path(self, text: str) -> str:
        return str(self.folder / text)

    def pem(self, key: str, file: str, data: str) -> Pem:
        """Return what `key` (a file) or `key`-data (base64) gives; data is preferred, as in client-go."""
        if data:
            try:
                return Pem(f"kubeconfig {self.name}: {key}-data", data=b64decode("".join(data.split()), validate=True))
            except (binascii.Error, ValueError):
                raise self.error(f"{key}-data", f"is not base64: {_shortened(data)}") from None
        return Pem(f"kubeconfig {self.name}: {key}", self.path(file)) if file else Pem()


def server_url(text: str, *, secure: bool) -> str:
    """Return the address as a URL without a slash at the end, completed as client-go does it; ValueError when it is none."""
    url = text if "://" in text else f"{'https' if secure else 'http'}://{text}"
    scheme, _, rest = url.partition("://")
    if scheme not in {"http", "https"} or not rest.strip("/") or any(char in rest for char in " ?#@") or header_flaw(rest):
        raise ValueError(text)
    address = urlsplit(url)
    if not address.hostname or address.port == 0:  # asking for a port that is no number raises ValueError
        raise ValueError(text)
    return url.rstrip("/")


def _read(source: Source, file: Path) -> str:
    try:
        return read_limited(file).decode("utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a NUL in the path
        raise source.error("", f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _parse(source: Source, text: str) -> Kubeconfig:
    from koordsched.yamltext.reading import read_documents  # noqa: PLC0415  # see there

    documents = [document for document in read_documents(text) if document.value is not None or document.problems]
    if not documents:
        raise source.error("", "is empty")
    for problem in documents[0].problems:
        raise source.error(problem.path, problem.text)
    if len(documents) > 1:
        raise source.error("", "holds more than one document")
    raw = documents[0].value
    if not isinstance(raw, dict):
        raise source.error("", f"must be an object with clusters, contexts and users, not {_shortened(str(raw))}")
    try:
        config = decode(KUBECONFIG, raw)
    except InvalidObject as invalid:
        raise source.error("", "; ".join(str(error) for error in invalid.errors)) from None
    assert isinstance(config, Kubeconfig)
    return config


def _named(source: Source, items: Sequence[N], section: str, name: str, asking: str) -> N:
    if not name:
        raise source.error(asking, f"names none of {section}")
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items) or "there are none"
    raise source.error(asking, f'"{name}" is not among {section} ({known})')


def _server(source: Source, where: str, cluster: KubeconfigCluster, master: str, tls: TlsSettings) -> str:
    secure = tls.insecure or any(pem.file or pem.data for pem in (tls.authority, tls.certificate))
    text = master or cluster.server
    if not text:
        raise source.error(f"{where}.server", "must be given")
    try:
        return server_url(text, secure=secure)
    except ValueError:
        if master:
            raise ConnectError(f"--master: not the address of an API server: {_shortened(text)}") from None
        raise source.error(f"{where}.server", f"not the URL of an API server: {_shortened(text)}") from None


def _proxy(source: Source, where: str, cluster: KubeconfigCluster) -> str:
    if cluster.proxy_url and not cluster.proxy_url.startswith(("http://", "https://")):
        raise source.error(f"{where}.proxy-url", f"only http and https proxies can be used: {_shortened(cluster.proxy_url)}")
    return cluster.proxy_url


def _cluster_info(source: Source, where: str, cluster: KubeconfigCluster, master: str) -> dict[str, object]:
    """Return the description of the cluster that an exec plugin may ask for."""
    info: dict[str, object] = {"server": master or cluster.server}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if cluster.certificate_authority_data:
        info["certificate-authority-data"] = cluster.certificate_authority_data
    elif cluster.certificate_authority:
        pem = source.pem(f"{where}.certificate-authority", cluster.certificate_authority, "").read()
        info["certificate-authority-data"] = binascii.b2a_base64(pem, newline=False).decode()
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    for extension in cluster.extensions:
        if extension.name == "client.authentication.k8s.io/exec":
            info["config"] = extension.extension
    return info


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}..."  # noqa: PLR2004  # characters of a value that a message shows


class UserCredentials(msgspec.Struct, frozen=True):
    """The user that a context names: credentials, a client certificate, impersonation."""

    credentials: CredentialSource
    certificate: Pem
    key: Pem
    headers: tuple[tuple[str, str], ...]


def read_user(source: Source, named: NamedUser, cluster_info: Callable[[], dict[str, Any]]) -> UserCredentials:
    """Return what the user's entry amounts to; `cluster_info` describes the cluster to a plugin. ConnectError names the key."""
    where, user = f"users[{named.name}].user", named.user
    return UserCredentials(
        _credentials(source, where, user, cluster_info),
        source.pem(f"{where}.client-certificate", user.client_certificate, user.client_certificate_data),
        source.pem(f"{where}.client-key", user.client_key, user.client_key_data),
        _impersonation(source, where, user),
    )


def _credentials(source: Source, where: str, user: KubeconfigUser, cluster_info: Callable[[], dict[str, Any]]) -> CredentialSource:
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


def _plugin(source: Source, where: str, given: Exec, cluster_info: Callable[[], dict[str, Any]]) -> ExecPlugin:
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


def _provider(source: Source, where: str, given: AuthProvider) -> CredentialSource:
    if given.name != "oidc":
        raise source.error(f"{where}.name", f'no auth provider "{given.name}"; gcp and azure were replaced by exec plugins')
    from koordsched.cluster.apiserver.oidc import Oidc, OidcSettings  # noqa: PLC0415  # costs 0.5 s and 38 MiB, see there

    settings = msgspec.convert(given.config, OidcSettings)
    if not settings.idp_issuer_url or not settings.client_id:
        raise source.error(f"{where}.config", "idp-issuer-url and client-id must be given")
    return Oidc(f"kubeconfig {source.name}: {where}", settings)


def _impersonation(source: Source, where: str, user: KubeconfigUser) -> tuple[tuple[str, str], ...]:
    given = [("as", "User", user.impersonate), ("as-uid", "Uid", user.impersonate_uid)]
    given += [(f"as-groups[{i}]", "Group", group) for i, group in enumerate(user.impersonate_groups)]
    for key, values in user.impersonate_extra.items():
        given += [(f"as-user-extra[{key}][{i}]", f"Extra-{escaped_header_key(key)}", value) for i, value in enumerate(values)]
    for field, _, value in given:
        flaw = header_flaw(value)
        if flaw:
            raise source.error(f"{where}.{field}", flaw)
    return tuple((f"Impersonate-{name}", value) for _, name, value in given if value)
