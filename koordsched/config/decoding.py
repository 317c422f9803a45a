"""Plain values to Structs, collecting every mistake instead of stopping at the first.

msgspec describes the Structs, this module walks them: an unknown field is refused by its full path with the nearest known name, a value
of the wrong type by path, value and what was expected; in both cases the walk goes on with the field's default, so that one run names all.
As in Go, null and absent mean the same, and an absent field without a default is its type's zero.
Callers: `loading` for the configuration and for the arguments of each plugin.
"""

from __future__ import annotations

import base64
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from koordsched.config.duration import Duration, DurationError
from koordsched.config.errors import near_miss
from koordsched.config.types import COMPUTED
from koordsched.yamltext.documents import child, shown

S = TypeVar("S", bound=msgspec.Struct)
Report = Callable[[str, str], None]
"""Takes the path and the problem of a mistake."""

MAX_FLOAT32 = 3.4028234663852886e38
_HOW_IT_LOOKS = {
    str: "a text",
    bool: "true or false",
    float: "a number",
    Duration: "a duration such as 15s or 1m30s",
    bytes: "base64 text",
}
_ZERO: dict[Any, Any] = {str: "", bool: False, float: 0.0, int: 0, bytes: b""}


class _WrongError(Exception):
    """A value is not of the wanted kind; the text says what was expected."""


class _Field(msgspec.Struct, frozen=True):
    attribute: str
    kind: Any
    default: Any


@lru_cache(maxsize=256)
def _fields(cls: type[msgspec.Struct]) -> dict[str, _Field]:
    """Return the fields that a file may hold, by their name in the file."""
    found = {}
    for info in msgspec.structs.fields(cls):
        kind, meta = _unwrap(info.type)
        if meta is not COMPUTED:
            default = _zero(kind) if info.required else info.default
            found[info.encode_name] = _Field(info.name, info.type, default if default is not msgspec.NODEFAULT else info.default_factory())
    return found


def _unwrap(kind: Any) -> tuple[Any, Any]:
    """Split Annotated[kind, meta]."""
    return get_args(kind)[:2] if get_origin(kind) is Annotated else (kind, None)


def _zero(kind: Any) -> Any:
    if kind in _ZERO:
        return _ZERO[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _build(kind, {})
    raise TypeError(f"{kind!r} has no zero")


def _build(cls: type[S], given: dict[str, Any]) -> S:
    """Make a Struct from attribute values, defaults and zeros for the rest."""
    return cls(**{field.attribute: given.get(field.attribute, field.default) for field in _fields(cls).values()})


def decode_struct(value: Any, cls: type[S], path: str, report: Report) -> S:
    """Make a Struct of a mapping; mistakes go to `report`, and what they concern keeps its default."""
    if value is None:
        return _build(cls, {})
    if not isinstance(value, dict):
        report(path, f"{shown(value)}: expected a mapping")
        return _build(cls, {})
    fields, given = _fields(cls), {}
    for name, item in value.items():
        where = child(path, str(name))
        field = fields.get(name)
        if field is None:
            report(where, f"{shown(item)}: strict decoding error: unknown field {shown(where)}{near_miss(str(name), fields)}")
        elif item is not None:
            try:
                given[field.attribute] = _decode(item, field.kind, where, report)
            except _WrongError as wrong:
                report(where, f"{shown(item)}: expected {wrong}")
    return _build(cls, given)


def _decode(value: Any, annotation: Any, path: str, report: Report) -> Any:
    kind, meta = _unwrap(annotation)
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in {Union, types.UnionType}:
        return _decode_union(value, get_args(kind), path, report)
    if origin is tuple:
        return _decode_list(value, get_args(kind)[0], path, report)
    if origin is dict:
        return _decode_map(value, get_args(kind)[1], path, report)
    if issubclass(kind, msgspec.Struct):
        return decode_struct(value, kind, path, report)
    return _decode_scalar(value, kind, meta)


def _decode_union(value: Any, kinds: tuple[Any, ...], path: str, report: Report) -> Any:
    """Read X | None, or a quantity: text or number."""
    wanted = [kind for kind in kinds if kind is not type(None)]
    if len(wanted) == 1:
        return _decode(value, wanted[0], path, report)
    if isinstance(value, bool) or not isinstance(value, tuple(wanted)):
        raise _WrongError("a quantity such as 4, 500m or 1Gi")
    return value


def _decode_list(value: Any, kind: Any, path: str, report: Report) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _WrongError("a list")
    made = []
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        try:
            made.append(_decode(item, kind, where, report))
        except _WrongError as wrong:
            report(where, f"{shown(item)}: expected {wrong}")
    return tuple(made)


def _decode_map(value: Any, kind: Any, path: str, report: Report) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongError("a mapping")
    made = {}
    for name, item in value.items():
        where = child(path, str(name))
        try:
            made[str(name)] = _decode(item, kind, where, report)
        except _WrongError as wrong:
            report(where, f"{shown(item)}: expected {wrong}")
    return made


def _decode_scalar(value: Any, kind: type, meta: msgspec.Meta | None) -> Any:
    if kind is int:
        return _decode_integer(value, meta)
    if kind is Duration and isinstance(value, str):
        try:
            return Duration.parse(value)
        except DurationError as error:
            raise _WrongError(f"{_HOW_IT_LOOKS[Duration]}: {error}") from None
    if kind is bytes and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError as error:  # binascii.Error is one; text that is not ASCII raises another
            raise _WrongError(f"{_HOW_IT_LOOKS[bytes]}: {error}") from None
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MAX_FLOAT32:
        return float(value)
    if kind in {str, bool} and isinstance(value, kind):
        return value
    raise _WrongError(_HOW_IT_LOOKS[kind])


def _decode_integer(value: Any, meta: msgspec.Meta | None) -> int:
    if isinstance(value, float) and value.is_integer():  # Go reads YAML by way of JSON, where 16.0 becomes 16
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _WrongError("an integer")
    low, high = (meta.ge, meta.le) if meta is not None else (None, None)
    if low is not None and high is not None and not low <= value <= high:
        raise _WrongError(f"an integer from {low} to {high}")
    return value
