"""The kubeconfig format (v1 Config), as far as a client without a terminal reads it. Unknown fields are dropped, as kubectl does."""

from __future__ import annotations

from typing import Any

from msgspec import field

from koordsched.api.kinds import Kind
from koordsched.api.meta import Api, Object


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
    config: dict[str, str] = field(default_factory=dict)


class KubeconfigUser(Api, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: AuthProvider | None = None
    impersonate: str = field(default="", name="as")
    impersonate_uid: str = field(default="", name="as-uid")
    impersonate_groups: tuple[str, ...] = field(default=(), name="as-groups")
    impersonate_extra: dict[str, tuple[str, ...]] = field(default_factory=dict, name="as-user-extra")


class NamedUser(Api, rename="kebab"):
    name: str
    user: KubeconfigUser = KubeconfigUser()


class Kubeconfig(Object, rename="kebab"):
    current_context: str = ""
    clusters: tuple[NamedCluster, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    users: tuple[NamedUser, ...] = ()


KUBECONFIG = Kind("", "v1", "Config", "", namespaced=False, struct=Kubeconfig)
"""For `api.validation.decode`, which says what is wrong with its path and value."""
