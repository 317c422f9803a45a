"""Read which kind and which object a scenario means."""

from __future__ import annotations

from typing import Any

from koordsched.api.kinds import KINDS, Kind, kind_of, meant_by, unstructured_kind
from koordsched.cluster.port import Ref
from koordsched.manifests.strict import StrictReader, join, nearest


def read_target(reader: StrictReader, fields: dict[str, Any], path: str) -> Ref:
    """Read the object that kind, name, namespace and apiVersion name."""
    kind = read_kind(reader, fields, path)
    namespace = reader.text(fields.get("namespace", "default"), join(path, "namespace"))
    return Ref(kind, namespace if kind.namespaced else "", reader.text(fields.get("name", ""), join(path, "name")))


def read_kind(reader: StrictReader, fields: dict[str, Any], path: str) -> Kind:
    """Find the kind; apiVersion may be left out where only one known kind has the name."""
    name = reader.text(fields.get("kind", ""), join(path, "kind"))
    if "apiVersion" in fields:
        version = reader.text(fields["apiVersion"], join(path, "apiVersion"))
        if meant := None if kind_of(version, name) else meant_by(version, name):
            said = f"did you mean {meant.kind!r} of {meant.api_version!r}?"
            reader.mistake(join(path, "apiVersion"), f"{version!r} has no {name!r}; {said}")
        return kind_of(version, name) or unstructured_kind(version, name)
    known = [kind for kind in KINDS.values() if kind.kind == name]
    if len(known) == 1:
        return known[0]
    if name:
        reader.mistake(join(path, "kind"), f"{name!r} needs an apiVersion{nearest(name, {kind.kind for kind in KINDS.values()})}")
    return unstructured_kind("v1", name)
