"""A service account with the rights that manifests give it, and its token: who a scheduler is in a real cluster."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.controlplane.rest import Refused, Rest

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ServiceAccount": "serviceaccounts",
}
TOKEN_SECONDS = 3600


@contextmanager
def service_account(rest: Rest, *manifests: Path) -> Iterator[str]:
    """Create what the manifests hold, accounts, roles and bindings, and give the account's token; delete it all in the end."""
    documents = [document for path in manifests for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    (account,) = [document for document in documents if document["kind"] == "ServiceAccount"]
    namespace = account["metadata"]["namespace"]
    _create(rest, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    try:
        for document in documents:
            _create(rest, _collection(document), document)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": TOKEN_SECONDS}}
        path = f"{_collection(account)}/{account['metadata']['name']}/token"
        yield str(rest.create(path, review)["status"]["token"])
    finally:
        for document in documents:
            rest.delete(f"{_collection(document)}/{document['metadata']['name']}")


def _collection(document: dict[str, Any]) -> str:
    root = "/api/v1" if document["kind"] == "ServiceAccount" else RBAC
    namespace = document["metadata"].get("namespace")
    return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{PLURALS[document['kind']]}"


def _create(rest: Rest, path: str, body: dict[str, Any]) -> None:
    try:
        rest.create(path, body)
    except Refused as refused:
        if refused.status != http.client.CONFLICT:
            raise
