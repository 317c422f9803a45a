"""Who may talk to the API server, and kubeconfig files that say so.

A kubeconfig is a value that a test may change before it is written: another server (a proxy), another authority, another user entry.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from support.controlplane.authority import KeyPair

User = Mapping[str, object]  # the `user` of a kubeconfig's entry


class Identity(NamedTuple):
    """A user that has a static token."""

    user: str
    groups: tuple[str, ...] = ()


ADMIN = Identity("admin", ("system:masters",))
SCHEDULER = Identity("system:kube-scheduler")  # has the roles that Kubernetes gives its own scheduler
STRANGER = Identity("stranger")  # is known, and may do nothing
IDENTITIES = (ADMIN, SCHEDULER, STRANGER)


def token_file(tokens: Mapping[Identity, str]) -> str:
    """Return the text of kube-apiserver's --token-auth-file."""
    return "".join(f'{token},{identity.user},{identity.user},"{",".join(identity.groups)}"\n' for identity, token in tokens.items())


def by_token(token: str) -> User:
    return {"token": token}


def by_certificate(pair: KeyPair) -> User:
    return {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}


def by_exec_plugin(command: str, *args: str, env: Mapping[str, str] | None = None) -> User:
    """Return the entry of a user whose credentials a program prints as an ExecCredential."""
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": list(args), "interactiveMode": "Never"}
    return {"exec": {**plugin, "env": variables}}


class Kubeconfig(NamedTuple):
    """One cluster, one user, one context; `authority` None leaves out the CA, as for a server that speaks plain HTTP."""

    server: str
    authority: bytes | None
    user: User

    def text(self) -> str:
        """Return the file's content: JSON, which every YAML reader takes."""
        trust = {} if self.authority is None else {"certificate-authority-data": encoded(self.authority)}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": {"server": self.server, **trust}}],
                "users": [{"name": "test", "user": dict(self.user)}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "current-context": "test",
            },
            indent=1,
        )

    def write(self, path: Path) -> Path:
        """Write the file, readable by its owner only, and return its path."""
        path.touch(mode=0o600)
        path.write_text(self.text(), encoding="utf-8")
        return path


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
