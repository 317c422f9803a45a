"""Objects in documents: lists are opened, and what an object is, and how it is called, is recognised.

Takes what people have: hand-written YAML, `kubectl get -o yaml` and `-o json` lists of a live cluster, several documents in a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY, Kind, kind_of, meant_by
from koordsched.cluster.port import Ref
from koordsched.yamltext.documents import shown

ELSEWHERE = frozenset({"uid", "resourceVersion", "generation", "managedFields", "selfLink"})
"""Metadata of a dump that means nothing in another cluster."""

SAME_FIELDS = {("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"): NODE_RESOURCE_TOPOLOGY}
"""Newer versions of kinds, which `kubectl get` prefers, that are read as the version that the scheduler reads."""


class Manifest(msgspec.Struct, frozen=True):
    """An object to create; `origin` says where it stands ("pods.yaml: document 3")."""

    origin: str
    kind: Kind
    body: dict[str, Any]

    @property
    def ref(self) -> Ref:
        metadata = self.body["metadata"]
        return Ref(self.kind, metadata.get("namespace", "") if self.kind.namespaced else "", metadata["name"])

    @property
    def key(self) -> str:
        """Return namespace/name, or the name of a cluster-scoped object."""
        metadata = self.body["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}" if self.kind.namespaced else str(metadata["name"])


class Rejection(msgspec.Struct, frozen=True):
    """An object that the cluster does not take: where it stands, what it is ("Pod default/a", "" unknown), which value of which path is
    wrong and why."""

    origin: str
    subject: str
    problem: str

    @property
    def line(self) -> str:
        """Return the rejection as one line."""
        return " ".join(": ".join(part for part in (self.origin, self.subject, self.problem) if part).split())


def flatten(origin: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a document: itself, or those of a List's items (which of a PodList may leave kind and apiVersion out)."""
    if not isinstance(value, dict) or not str(value.get("kind", "")).endswith("List") or not isinstance(value.get("items"), list):
        yield origin, value
        return
    kind = str(value["kind"]).removesuffix("List")
    typed = {"apiVersion": value.get("apiVersion", "v1"), "kind": kind} if kind else {}
    for index, item in enumerate(value["items"]):
        yield from flatten(f"{origin}: items[{index}]", {**typed, **item} if isinstance(item, dict) else item)


def recognise(origin: str, body: Any, unknown: Counter[str], namespace: str = "default") -> Manifest | Rejection | None:
    """Recognise an object; None: of a kind that scheduling does not know, counted in `unknown`. namespace: of what names none."""
    if not isinstance(body, dict):
        return Rejection(origin, "", f"(root): {_shown(body)}: expected an object")
    for field in ("apiVersion", "kind"):
        if not _is_name(body.get(field)):
            return Rejection(origin, "", f"{field}: {_shown(body.get(field))}: expected a text")
    kind = kind_of(body["apiVersion"], body["kind"]) or SAME_FIELDS.get((body["apiVersion"], body["kind"]))
    if kind is None:
        meant = meant_by(body["apiVersion"], body["kind"])
        why = f"; what is read is {meant.kind} ({meant.api_version})" if meant else ", which scheduling does not look at"
        unknown[f"{body['kind']} ({body['apiVersion']}){why}"] += 1
        return None
    metadata = _metadata(kind, body.get("metadata"), namespace)
    if isinstance(metadata, str):
        return Rejection(origin, kind.kind, metadata)
    return Manifest(origin, kind, {**body, "apiVersion": kind.api_version, "metadata": metadata})


def _metadata(kind: Kind, metadata: Any, default: str) -> dict[str, Any] | str:
    """Fill in the namespace and leave out what is another API server's own; a text says why there is nothing to call the object by."""
    if not isinstance(metadata, dict):
        return f"metadata: {_shown(metadata)}: expected an object"
    if not _is_name(metadata.get("name")):
        return f"metadata.name: {_shown(metadata.get('name'))}: expected a text"
    kept = {key: value for key, value in metadata.items() if key not in ELSEWHERE}
    if not kind.namespaced:
        return kept
    namespace = metadata.get("namespace") or default
    if not isinstance(namespace, str):
        return f"metadata.namespace: {_shown(namespace)}: expected a text"
    return {**kept, "namespace": namespace}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _shown(value: Any) -> str:
    return "missing" if value is None else shown(value)
