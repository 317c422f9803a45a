"""JSON values into the Struct of their kind.

The fast path is one msgspec call. Only when that refuses the object is it looked at again: nulls count as absent, and each thing that has
the wrong type becomes a FieldError with its path, its value and the expected type. Nothing but InvalidObject comes out, whatever goes in.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from koordsched.api.kinds import Kind
from koordsched.api.meta import Object, Unstructured
from koordsched.api.validation.errors import FieldError, InvalidObject

MAX_ERRORS = 20  # of one object; more would not help its author

_AT = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_MISMATCH = re.compile(r"Expected `(?P<expected>[^`]*)`(?:, got `(?P<got>[^`]*)`)?(?P<range> [<>]=? -?\d+)?")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_TYPES = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false", "array": "a list", "object": "an object"}

Step = str | int


class _Refusal(NamedTuple):
    """What msgspec refused: where (None in steps: some entry of a map), and how it said so."""

    steps: list[Step | None]
    is_key: bool
    text: str


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
        same = len(items) == len(value) and all(map(_is, items, value))
        return value if same else items
    return value


def _is(left: object, right: object) -> bool:
    return left is right


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
                steps = _located(rest, refusal)
                errors.append(_field_error(rest, steps, refusal))
                if len(errors) == MAX_ERRORS or not steps or isinstance(steps[-1], int):
                    break
                rest = _without(rest, steps)
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
    at = _AT.search(text)
    if at is None:
        return _Refusal([], False, text)
    steps = [step["name"] or (int(step["index"]) if step["index"] else None) for step in _STEP.finditer(at["path"])]
    return _Refusal(steps, at["key"] is not None, text[: at.start()])


def _located(raw: Any, refusal: _Refusal) -> list[Any]:
    """Return the steps with the key that msgspec does not tell: the first one whose value (or that itself) has the wrong type."""
    steps: list[Any] = [step for step in refusal.steps if step is not None]
    if refusal.is_key:
        return [*steps, next((key for key in _at(raw, steps) if not isinstance(key, str)), None)]
    if None in refusal.steps:
        allowed = _PYTHON_TYPES.get(_mismatch(refusal.text)[0], ())
        return [*steps, next((key for key, value in _at(raw, steps).items() if type(value) not in allowed), None)]
    return steps


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "int | float | str": (int, float, str)}
"""Values that a map of the API may hold, by msgspec's words for them."""


def _mismatch(text: str) -> tuple[str, str]:
    """Return the expected type in msgspec's words without null, and the range if that is what was missed."""
    match = _MISMATCH.match(text)
    if match is None:
        return "", ""
    return match["expected"].removesuffix(" | null"), match["range"] or ""


def _field_error(raw: Any, steps: list[Any], refusal: _Refusal) -> FieldError:
    path = path_of(steps)
    if refusal.is_key:
        return FieldError(path, steps[-1], "a key must be a string")
    missing = _MISSING.match(refusal.text)
    if missing is not None:
        return FieldError(f"{path}.{missing['name']}" if path else missing["name"], None, "Required value: must be given")
    expected, limit = _mismatch(refusal.text)
    if limit:
        message = f"must be{limit}"
    elif expected:
        words = [_TYPES.get(word, word) for word in expected.split(" | ")]
        message = f"must be {' or '.join(words)}"
    else:
        message = refusal.text
    return FieldError(path, _at(raw, steps), message)


def path_of(steps: list[Any]) -> str:
    """Write a path in Kubernetes notation: spec.containers[0].resources.requests[cpu]."""
    text = ""
    for i, step in enumerate(steps):
        if isinstance(step, int) or (i and steps[i - 1] in _MAPS):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else str(step)
    return text


_MAPS = frozenset(
    {
        "labels",
        "annotations",
        "nodeSelector",
        "matchLabels",
        "selector",
        "requests",
        "limits",
        "overhead",
        "capacity",
        "allocatable",
        "allocatedResources",
        "disruptedPods",
    }
)
"""Fields whose entries have keys of the user's choice."""


def _at(raw: Any, steps: list[Any]) -> Any:
    for step in steps:
        raw = raw[step]
    return raw


def _without(raw: Any, steps: list[Any]) -> Any:
    """Return the value without the entry of an object that the steps lead to; only the way there is copied."""
    first, *others = steps
    copied = raw.copy()
    if others:
        copied[first] = _without(raw[first], others)
    else:
        del copied[first]
    return copied
