"""What an API server does with custom resources: unknown fields and nulls are dropped, defaults are filled in, and the schema is checked.

A `Definition` is made of a CustomResourceDefinition (`koordsched/crds`) when the first object of its kind is written. The rules and the
texts are those of apiextensions-apiserver v1.35 for the keywords that these definitions use; tests/e2e/test_custom_resources.py compares
them with a real one's. A keyword that is not known here is an error of the definition.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from cachetools import LRUCache

from koordsched.api.validation.errors import Errors, FieldError
from koordsched.api.validation.metadata import is_time
from koordsched.crds import read_definition
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.api.kinds import Kind
    from koordsched.cluster.memory.store import Raw

BUILT_IN_GROUPS = frozenset(
    {"", "apps", "batch", "policy", "coordination.k8s.io", "events.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"}
)
"""Groups without definitions. Their objects take strategic merge patches; an API server refuses these for custom resources."""

MAX_KEPT = 4096
LONG = 64 << 10  # bytes; a longer value is completed and checked each time
HEAD = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of every object, which the schema leaves to the API server."""

_encode = msgspec.json.Encoder().encode
REQUIRED = "Required value"

_ABSENT: Any = object()
_IGNORED = frozenset({"description", "x-kubernetes-map-type", "x-kubernetes-list-type"})
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
_NAMES: dict[type, str] = {**{python: name for name, python in _TYPES.items()}, float: "number", type(None): "null"}


class Schema:
    """One node of a structural schema, compiled."""

    def __init__(self, raw: dict[str, Any]) -> None:
        left = dict(raw)
        self.type: str = left.pop("type", "")
        self.properties = {name: Schema(below) for name, below in left.pop("properties", {}).items()}
        self.required: list[str] = left.pop("required", [])
        self.items = _below(left, "items")
        self.values = _below(left, "additionalProperties")
        self.keeps_unknown: bool = left.pop("x-kubernetes-preserve-unknown-fields", False)
        self.int_or_string: bool = left.pop("x-kubernetes-int-or-string", False)
        self.nullable: bool = left.pop("nullable", False)
        self.default = left.pop("default", _ABSENT)
        self.enum: list[Any] | None = left.pop("enum", None)
        self.format: str = left.pop("format", "")
        self.pattern: str = left.pop("pattern", "")
        self.matches = re.compile(self.pattern).search if self.pattern else None
        self.minimum: int | None = left.pop("minimum", None)
        self.min_length: int = left.pop("minLength", 0)
        self.max_length: int | None = left.pop("maxLength", None)
        self.min_items: int = left.pop("minItems", 0)
        self.min_properties: int = left.pop("minProperties", 0)
        self.defaults = {name: below.default for name, below in self.properties.items() if below.default is not _ABSENT}
        if self.int_or_string and left.pop("anyOf", _INT_OR_STRING) != _INT_OR_STRING:
            raise ValueError("anyOf: only an integer or a string are known")
        if unknown := left.keys() - _IGNORED:
            raise ValueError(f"keywords of a schema that are not known here: {', '.join(sorted(unknown))}")

    def completed(self, value: Any) -> Any:
        """Return the value with defaults, without unknown fields and forbidden nulls, and with 3 for 3.0. Shares what is unchanged."""
        if isinstance(value, dict):
            return self._completed_object(value)
        if isinstance(value, list) and self.items is not None:
            items = [self.items.completed(item) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        if type(value) is float and value.is_integer() and (self.type == "integer" or self.int_or_string):
            return int(value)
        return value

    def dropped(self, value: Any, path: str) -> Iterator[str]:
        """Yield the paths of fields that are no part of the schema, so that they are not stored."""
        if isinstance(value, list) and self.items is not None:
            for i, item in enumerate(value):
                yield from self.items.dropped(item, f"{path}[{i}]")
        elif isinstance(value, dict) and not self.keeps_unknown:
            for key, item in value.items():
                below = self.properties.get(key) or self.values
                if below is not None:
                    yield from below.dropped(item, f"{path}.{key}")
                elif self.type == "object":
                    yield f"{path}.{key}"

    def _completed_object(self, value: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        changed = False
        for key, item in value.items():
            below = self.properties.get(key) or self.values
            if below is None:
                if self.keeps_unknown:
                    made[key] = item
                else:
                    changed = True
            elif item is None and not below.nullable and (below.type or below.int_or_string):
                changed = True
            else:
                made[key] = new = below.completed(item)
                changed = changed or new is not item
        for name, default in self.defaults.items():
            if name not in made:
                made[name] = self.properties[name].completed(default)
                changed = True
        return made if changed else value

    def check(self, errors: Errors, path: str, value: Any) -> None:
        """Add to errors what an API server would refuse of the value."""
        if value is None and self.nullable:
            return
        if self.int_or_string:
            if type(value) not in (int, str):
                _wrong_type(errors, path, value, "integer,string")
                errors.found.append(FieldError("<nil>", "", f'"{path}" must validate at least one schema (anyOf)'))
                _wrong_type(errors, path, value, "integer")
                return
        elif self.type and type(value) is not _TYPES[self.type]:
            _wrong_type(errors, path, value, self.type)
            return
        if self.enum is not None and value not in self.enum:
            errors.one_of(path, value, self.enum)
        match value:
            case str():
                self._check_text(errors, path, value)
            case bool():
                pass
            case int():
                if self.minimum is not None and value < self.minimum:
                    errors.invalid(path, value, f"{path} in body should be greater than or equal to {self.minimum}")
            case list():
                if len(value) < self.min_items:
                    errors.invalid(path, len(value), f"{path} in body should have at least {self.min_items} items")
                if self.items is not None:
                    for i, item in enumerate(value):
                        self.items.check(errors, f"{path}[{i}]", item)
            case dict():
                self._check_object(errors, path, value)

    def _check_object(self, errors: Errors, path: str, value: dict[str, Any]) -> None:
        if len(value) < self.min_properties:
            errors.invalid(path, len(value), f"{path} in body should have at least {self.min_properties} properties")
        for name in self.required:
            if name not in value:
                errors.found.append(FieldError(f"{path}.{name}", None, REQUIRED))
        for key, item in value.items():
            below = self.properties.get(key)
            if below is not None:
                below.check(errors, f"{path}.{key}", item)
            elif self.values is not None:
                self.values.check(errors, f"{path}.{key}", item)

    def _check_text(self, errors: Errors, path: str, value: str) -> None:
        if len(value) < self.min_length:
            errors.invalid(path, value, f"{path} in body should be at least {self.min_length} chars long")
        if self.max_length is not None and len(value) > self.max_length:
            errors.found.append(FieldError(path, None, f"Too long: may not be more than {self.max_length} bytes"))
        if self.matches is not None and not self.matches(value):
            errors.invalid(path, value, f"{path} in body should match '{self.pattern}'")
        if self.format == "date-time" and not is_time(value):
            errors.invalid(path, value, f"{path} in body must be of type date-time: {shown(value)}")


class Definition:
    """How objects of one kind are stored. has_status: whether their status is a subresource."""

    def __init__(self, schema: Schema, *, has_status: bool) -> None:
        self.has_status = has_status
        self._schema = schema
        self._known: LRUCache[tuple[str, bytes], Any] = LRUCache(MAX_KEPT)  # by a field's name and value: what it is stored as

    def shape(self, raw: Raw, old: Raw | None = None) -> list[FieldError]:
        """Complete an object in place; return what an API server would refuse of it. Fields shared with `old` are valid already."""
        errors = Errors()
        schema = self._schema
        for name in [name for name in raw if name not in HEAD]:
            below, value = schema.properties.get(name), raw[name]
            if below is None or (value is None and not below.nullable):
                del raw[name]
            elif old is None or old.get(name) is not value:
                made = self._field(errors, name, below, value)
                raw[name] = old[name] if old is not None and name in old and canonical(old[name]) == canonical(made) else made
        for name, default in schema.defaults.items():
            raw.setdefault(name, default)
        for name in schema.required:
            if name not in raw:
                errors.found.append(FieldError(name, None, REQUIRED))
        return errors.found

    def dropped(self, raw: Raw) -> Iterator[str]:
        """Yield the paths of what `shape` leaves out of an object."""
        for name in raw.keys() - HEAD:
            below = self._schema.properties.get(name)
            if below is None:
                yield name
            else:
                yield from below.dropped(raw[name], name)

    def _field(self, errors: Errors, name: str, schema: Schema, value: Any) -> Any:
        """Return the field's value as it is stored; objects of equal values share it. Adds to errors what is refused."""
        key = (name, _encode(value))
        known = self._known.get(key, _ABSENT)
        if known is not _ABSENT:
            return known
        made = schema.completed(value)
        found = len(errors.found)
        schema.check(errors, name, made)
        if len(errors.found) == found and len(key[1]) <= LONG:
            self._known[key] = made
        return made


@cache
def definition_of(kind: Kind) -> Definition | None:
    """Return the definition by which the kind is served; None: it is built in, or not one of Koordinator's."""
    if kind.group in BUILT_IN_GROUPS:
        return None
    found = read_definition(kind.plural, kind.group)
    version = next((version for version in found["spec"]["versions"] if version["name"] == kind.version), None) if found else None
    if version is None:
        return None
    return Definition(Schema(version["schema"]["openAPIV3Schema"]), has_status="status" in version.get("subresources", {}))


def has_status_resource(kind: Kind) -> bool:
    """Answer whether the status is a subresource. It is for kinds without a definition."""
    definition = definition_of(kind)
    return definition is None or definition.has_status


def canonical(value: Any) -> bytes:
    """Write JSON so that equal values are equal bytes: to Python, 1 and True are equal."""
    return msgspec.json.encode(value, order="deterministic")


def _below(raw: dict[str, Any], keyword: str) -> Schema | None:
    below = raw.pop(keyword, None)
    return None if below is None else Schema(below)


def _wrong_type(errors: Errors, path: str, value: Any, expected: str) -> None:
    found = _NAMES[type(value)]
    errors.invalid(path, found, f"{path} in body must be of type {expected}: {shown(found)}")
