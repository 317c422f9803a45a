"""Keys of JSON objects in any case, as Go's encoding/json matches them to the fields of a struct: `cpuSet` is `cpuset`.

Only keys that stand for fields of a Struct are matched; those of a map, like names of resources, are data. Of two spellings of one field
the later counts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import inspect

if TYPE_CHECKING:
    from collections.abc import Iterator


def has_other_spelling(text: str, shape: type) -> bool:
    """Answer whether a key of the shape may stand in the text in another case than its own; true of some texts without one, too."""
    own, any_case = _spellings(shape)
    return not own.issuperset(any_case.findall(text))


def respelled(value: Any, shape: type) -> Any:
    """Return the JSON value with the keys spelled as the shape does, without those that it lacks."""
    return _respelled(value, _info(shape))


@lru_cache(maxsize=256)
def _info(shape: type) -> inspect.Type:
    return inspect.type_info(shape)


@lru_cache(maxsize=256)
def _spellings(shape: type) -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the keys of the shape, and what finds them in quotes and any case."""
    own = frozenset(_keys(_info(shape)))
    return own, re.compile(f'"({"|".join(sorted(own))})"' if own else r"(?!)", re.IGNORECASE)


def _keys(info: inspect.Type) -> Iterator[str]:
    if isinstance(info, inspect.StructType):
        for field in info.fields:
            yield field.encode_name
            yield from _keys(field.type)
    elif isinstance(info, inspect.VarTupleType):
        yield from _keys(info.item_type)
    elif isinstance(info, inspect.DictType):
        yield from _keys(info.value_type)


def _respelled(value: Any, info: inspect.Type) -> Any:
    if isinstance(info, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name.lower(): field for field in info.fields}
        known = [(fields[key.lower()], item) for key, item in value.items() if key.lower() in fields]
        return {field.encode_name: _respelled(item, field.type) for field, item in known}
    if isinstance(info, inspect.VarTupleType) and isinstance(value, list):
        return [_respelled(item, info.item_type) for item in value]
    if isinstance(info, inspect.DictType) and isinstance(value, dict):
        return {key: _respelled(item, info.value_type) for key, item in value.items()}
    return value
