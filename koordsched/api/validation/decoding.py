"""JSON values into the Struct of their kind.

The fast path is one msgspec call. Only when that refuses the object is it looked at again: nulls count as absent, and each thing that has
the wrong type becomes a FieldError with its path, its value and the expected type. Nothing but InvalidObject comes out, whatever goes in.
"""

from __future__ import annotations

import re
from operator import is_
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.meta import Object, Unstructured
from koordsched.api.validation.errors import FieldError, InvalidObject

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind

MAX_ERRORS = 20  # of one object; more would not help its author

# Parts of what msgspec says, which are compiled when it refuses an object.
_AT = r" - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`$"
_STEP = r"\.(?P<name>[\w-]+)|\[(?P<index>\d+)\]|\[\.\.\.\]"
_MISMATCH = r"Expected `(?P<expected>[^`]*)`(?:, got `(?P<got>[^`]*)`)?(?P<range> [<>]=? -?\d+)?"
_MISSING = r"Object missing required field `(?P<name>[^`]*)`"
_TYPES = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false", "array": "a list", "object": "an object"}
_PYTHON_TYPES = {"str": str, "int": int, "float": float}


class _Refusal(msgspec.Struct, frozen=True):
    """What msgspec refused."""

    steps: tuple[str | int, ...]  # where: names and indices
    in_map: bool  # it is an entry below there whose key msgspec does not name
    below: tuple[str | int, ...]  # where in that entry
    is_key: bool  # it is the key of an entry below there
    text: str


class _Place(msgspec.Struct, frozen=True):
    """A place in JSON values: steps, one of which may be a key of the user's choice."""

    steps: tuple[Any, ...]
    key_at: int | None = None  # the index of that step

    @property
    def is_item(self) -> bool:
        """Answer whether this is an item of a list."""
        return bool(self.steps) and isinstance(self.steps[-1], int) and self.key_at != len(self.steps) - 1

    @property
    def path(self) -> str:
        """Write the place in Kubernetes notation: spec.containers[0].resources.requests[cpu]."""
        text = ""
        for i, step in enumerate(self.steps):
            if isinstance(step, int) or i == self.key_at:
                text += f"[{step}]"
            else:
                text += f".{step}" if text else step
        return text

    def value(self, raw: Any) -> Any:
        for step in self.steps:
            raw = raw[step]
        return raw


def decode(kind: Kind, raw: Any) -> Object:
    """Return the object that the JSON values describe; InvalidObject lists what has the wrong type. `raw` is not changed, but shared."""
    try:
        if kind.struct is not Unstructured:
            return msgspec.convert(raw, kind.struct)
        return _unstructured(strip_nulls(raw))
    except (msgspec.ValidationError, RecursionError):
        return _decode_slowly(kind, raw)


def strip_nulls(value: Any) -> Any:
    """Return the JSON value without the nulls in it: as if those fields and items were absent. Shares all that has none."""
    if isinstance(value, dict):
        stripped = {key: strip_nulls(item) for key, item in value.items() if item is not None}
        same = len(stripped) == len(value) and all(stripped[key] is item for key, item in value.items())
        return value if same else stripped
    if isinstance(value, list):
        items = [strip_nulls(item) for item in value if item is not None]
        same = len(items) == len(value) and all(map(is_, items, value))
        return value if same else items
    return value


def _unstructured(raw: Any) -> Unstructured:
    head = msgspec.convert(raw, Object)
    return Unstructured(head.api_version, head.kind, head.metadata, raw)


def _decode_slowly(kind: Kind, raw: Any) -> Object:
    """Decode again without nulls, setting aside each field that is refused, so that all of them are reported."""
    errors: list[FieldError] = []
    try:
        rest = strip_nulls(raw)
        while True:
            try:
                decoded = _unstructured(rest) if kind.struct is Unstructured else msgspec.convert(rest, kind.struct)
                break
            except msgspec.ValidationError as refused:
                refusal = _refusal(str(refused))
                place = _located(rest, refusal)
                error = _field_error(rest, place, refusal)
                if all(error.path != known.path for known in errors):  # a required field that was set aside is missing now
                    errors.append(error)
                if len(errors) == MAX_ERRORS or not place.steps or place.is_item:
                    break
                rest = _without(rest, place.steps)
    except RecursionError:
        errors.append(FieldError("", None, "the object is nested too deeply"))
    if errors:
        raise InvalidObject(errors, subject(kind, raw))
    return decoded


def subject(kind: Kind, raw: Any) -> str:
    """Name an object that may be anything: its kind and, as far as it has them, namespace and name."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    parts = [metadata.get(field) for field in ("namespace", "name")] if isinstance(metadata, dict) else []
    name = "/".join(part for part in parts if part and isinstance(part, str))
    return f'{kind.kind} "{name}"'


def _refusal(text: str) -> _Refusal:
    """Take msgspec's message apart."""
    at = re.search(_AT, text)
    if at is None:
        return _Refusal((), in_map=False, below=(), is_key=False, text=text)
    steps: list[Any] = [step["name"] or (int(step["index"]) if step["index"] else None) for step in re.finditer(_STEP, at["path"])]
    map_at = steps.index(None) if None in steps else len(steps)
    above, below = steps[:map_at], steps[map_at + 1 :]
    if None in below:  # a map in a map: the outer one is named
        return _Refusal(tuple(above), in_map=False, below=(), is_key=False, text=text[: at.start()])
    return _Refusal(tuple(above), in_map=None in steps, below=tuple(below), is_key=at["key"] is not None, text=text[: at.start()])


def _located(raw: Any, refusal: _Refusal) -> _Place:
    """Find the entry of a map that was refused: the first one whose value (or that itself) has the wrong type."""
    place = _Place(refusal.steps)
    keys: list[Any] = []
    if refusal.is_key:
        keys = [key for key in place.value(raw) if not isinstance(key, str)]
    elif refusal.in_map:
        allowed = {_PYTHON_TYPES.get(word) for word in _expected(refusal.text)}
        keys = [key for key, value in place.value(raw).items() if _refused(value, refusal.below, allowed)]
    return _Place((*refusal.steps, keys[0], *refusal.below), key_at=len(refusal.steps)) if keys else place


def _refused(value: Any, steps: tuple[str | int, ...], allowed: set[Any]) -> bool:
    """Answer whether what is there in the value has none of the allowed types."""
    for step in steps:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return False
    return type(value) not in allowed


def _expected(text: str) -> list[str]:
    """Return the types that msgspec wanted, in its words, without null."""
    match = re.match(_MISMATCH, text)
    return [word for word in match["expected"].split(" | ") if word != "null"] if match else []


def _field_error(raw: Any, place: _Place, refusal: _Refusal) -> FieldError:
    missing = re.match(_MISSING, refusal.text)
    if missing is not None:
        return FieldError(_Place((*place.steps, missing["name"])).path, None, "Required value: must be given")
    if refusal.is_key:
        return FieldError(place.path, place.steps[-1], "a key must be a string")
    match = re.match(_MISMATCH, refusal.text)
    if match is None:
        message = refusal.text
    elif match["range"]:
        message = f"must be{match['range']}"
    else:
        message = f"must be {' or '.join(_TYPES.get(word, word) for word in _expected(refusal.text))}"
    return FieldError(place.path, place.value(raw), message)


def _without(raw: Any, steps: tuple[Any, ...]) -> Any:
    """Return the value without the entry of an object that the steps lead to; only the way there is copied."""
    copied = raw.copy()
    if len(steps) > 1:
        copied[steps[0]] = _without(raw[steps[0]], steps[1:])
    else:
        del copied[steps[0]]
    return copied
