"""A service account with the rights that manifests give it, and its token: who a scheduler is in a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.controlplane.manifests import address, applied, documents
from support.controlplane.rest import Rest

TOKEN_SECONDS = 3600


@contextmanager
def service_account(rest: Rest, *manifests: Path) -> Iterator[str]:
    """Create what the manifests hold, accounts, roles and bindings, and give the account's token; delete it all in the end."""
    objects = documents(*manifests)
    with applied(rest, objects):
        yield token_of(rest, objects)


def token_of(rest: Rest, objects: list[dict[str, Any]]) -> str:
    """Return a token of the account that is among these objects."""
    (account,) = [document for document in objects if document["kind"] == "ServiceAccount"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": TOKEN_SECONDS}}
    return str(rest.create(f"{address(account)}/token", review)["status"]["token"])
