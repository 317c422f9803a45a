"""Read the objects that a scenario names, creates and patches (scenarios.md "Objects").

What the API's validation would refuse is left to it, when the object is created. Read here is what is the scenario format's own (`repeat`,
`resources`, `${now}`), and what an API server would drop without a word: a field that it does not know. Only part of an object's fields are
known here, those that scheduling reads; so a name that it does not know is a mistake where it comes close to one of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import inspect

from koordsched.api.kinds import KINDS, NODE, POD, Kind, kind_of, meant_by, unstructured_kind
from koordsched.cluster.port import Ref
from koordsched.manifests.strict import StrictReader, join, nearest
from koordsched.scenario.model import InitialObjects, PatchObject
from koordsched.scenario.objects import SHORT_FORMS, bad_template
from koordsched.yamltext.documents import shown

FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
TOP_LEVEL: Mapping[Kind, tuple[str, ...]] = {POD: (*FIELDS, "resources", "repeat"), NODE: (*FIELDS, "repeat")}
"""All fields of the kinds whose other fields are surely mistakes."""

RESOURCES = ("requests", "limits", "claims")
CLOSE = 0.88
"""How close a name must come to a known one to be a misspelling of it: no two fields of one thing in the API do."""


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


def read_given(reader: StrictReader, value: Any, path: str) -> InitialObjects:
    """Read an object to create: kind and metadata.name must be there."""
    body = reader.mapping(value, path, required=("kind", "metadata"))
    repeat = reader.number(body.pop("repeat"), join(path, "repeat")) if "repeat" in body else None
    if "kind" in body and "metadata" in body:
        metadata = reader.mapping(body["metadata"], join(path, "metadata"), required=("name",))
        for key in ("name", "namespace"):
            reader.text(metadata.get(key, ""), join(path, f"metadata.{key}"))
        kind = read_kind(reader, body, path)
        body["apiVersion"] = kind.api_version
        if kind is POD and "resources" in body:
            _check_resources(reader, body, path)
        for form in SHORT_FORMS:
            if kind is form.kind and form.field in body:
                try:
                    form.check(body[form.field])
                except ValueError as mistake:
                    reader.mistake(join(path, form.field), str(mistake))
        body = reader.mapping(body, path, TOP_LEVEL.get(kind))
        _check_fields(reader, kind, body, path)
    _check_templates(reader, body, path)
    return InitialObjects(path=path, body=body, repeat=repeat)


def read_patch(reader: StrictReader, value: Any, path: str) -> PatchObject:
    """Read an object's name and the patch to merge into it."""
    known = ("apiVersion", "kind", "name", "namespace", "merge")
    fields = reader.mapping(value, path, known, required=("kind", "name", "merge"))
    target, where = read_target(reader, fields, path), join(path, "merge")
    merge = reader.mapping(fields.get("merge", {}), where, FIELDS if target.kind in TOP_LEVEL else None)
    _check_fields(reader, target.kind, merge, where)
    _check_templates(reader, merge, where)
    return PatchObject(path=path, target=target, merge=merge)


def _check_resources(reader: StrictReader, body: Mapping[str, Any], path: str) -> None:
    """`resources` makes the one container, so there is nothing else that could be meant by its fields."""
    spec = body.get("spec")
    if isinstance(spec, dict) and spec.get("containers"):
        reader.mistake(join(path, "resources"), "spec.containers is given too; say there what they request")
    if isinstance(body["resources"], dict):
        reader.mapping(body["resources"], join(path, "resources"), RESOURCES)


def _check_templates(reader: StrictReader, value: Any, path: str) -> None:
    for where, text in bad_template(value, path):
        reader.mistake(where, f"{shown(text)}: expected ${{now}}, ${{now-90s}} or ${{now+2m}}")


def _check_fields(reader: StrictReader, kind: Kind, body: Mapping[str, Any], path: str) -> None:
    for where, meant in _misspelt(_type_of(kind), body, path):
        reader.mistake(where, f"unknown field; did you mean {meant!r}?")


@cache
def _type_of(kind: Kind) -> inspect.Type:
    return inspect.type_info(kind.struct)


def _misspelt(wanted: inspect.Type, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each field below a value whose name comes close to one that is not there, and that name."""
    if isinstance(wanted, inspect.UnionType):
        for option in wanted.types:
            yield from _misspelt(option, value, path)
    elif isinstance(wanted, inspect.VarTupleType) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _misspelt(wanted.item_type, item, f"{path}[{index}]")
    elif isinstance(wanted, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field.type for field in wanted.fields}
        absent = fields.keys() - value.keys()
        for key, item in value.items():
            if key in fields:
                yield from _misspelt(fields[key], item, join(path, key))
            elif close := difflib.get_close_matches(key, absent, n=1, cutoff=CLOSE):
                yield join(path, key), close[0]
