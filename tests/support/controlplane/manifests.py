"""Objects as manifests hold them: created as an operator applies them, and taken away again."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.controlplane.rest import Refused, Rest

Json = dict[str, Any]
PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ConfigMap": "configmaps",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Deployment": "deployments",
    "Namespace": "namespaces",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PodMonitor": "podmonitors",
    "PriorityClass": "priorityclasses",
    "PrometheusRule": "prometheusrules",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
}
STRICT = "fieldValidation=Strict"


def documents(*manifests: Path) -> list[Json]:
    """Return the objects in these files."""
    return [document for path in manifests for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def collection(document: Mapping[str, Any]) -> str:
    """Return the path of the objects of its kind, in its namespace."""
    version, namespace = document["apiVersion"], document["metadata"].get("namespace")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{PLURALS[document['kind']]}"


def address(document: Mapping[str, Any]) -> str:
    return f"{collection(document)}/{document['metadata']['name']}"


@contextmanager
def applied(rest: Rest, objects: Sequence[Json]) -> Iterator[None]:
    """Create namespaces where they are missing and all objects, none with a field that their kind does not have; delete them in the end."""
    namespaces = {document["metadata"].get("namespace") for document in objects} - {None}
    for name in sorted(namespaces):
        _ensure(rest, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        for document in objects:
            if document["kind"] == "Namespace":
                _ensure(rest, document)
            else:
                _create_anew(rest, document)
        yield
    finally:
        for document in reversed(objects):
            if document["kind"] != "Namespace":  # the control plane is rid of them between two tests
                _delete(rest, document)


def _ensure(rest: Rest, document: Json) -> None:
    try:
        rest.create(f"{collection(document)}?{STRICT}", document)
    except Refused as refused:
        if refused.status != http.client.CONFLICT:
            raise


def _create_anew(rest: Rest, document: Json) -> None:
    """Create an object, in the place of one that a deleted namespace has left."""
    _delete(rest, document)
    rest.create(f"{collection(document)}?{STRICT}", document)


def _delete(rest: Rest, document: Json) -> None:
    try:
        rest.delete(address(document))
    except Refused as refused:
        if refused.status != http.client.NOT_FOUND:
            raise
