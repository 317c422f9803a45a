"""One annotation's JSON into a Struct, or one line on what is wrong with it.

Nulls count as absent and keys may be spelled in any case, as for Go's encoding/json. A text that many objects share is decoded once, so
what is returned is shared and must not be changed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from koordsched.api.koordinator.spelling import has_other_spelling, respelled
from koordsched.api.meta import JSON_ERRORS
from koordsched.api.validation.decoding import strip_nulls
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

T = TypeVar("T")

SHARED_TEXTS = 4096  # decoded annotations kept: templates repeat them, and so do nodes of equal hardware
LONG_TEXT = 64 << 10  # characters; longer texts are decoded each time: any user may write annotations


class Malformed(ValueError):
    """An annotation or label that cannot be read. The text is one line: key, what is wrong and where, and the value."""

    def __init__(self, key: str, problem: str, value: str) -> None:
        self.key = key
        self.problem = problem
        self.value = value
        super().__init__(f"{key}: {problem}: {shown(value)}")


def read_annotation(annotations: Mapping[str, str], key: str, shape: type[T]) -> T | None:
    """Return the decoded annotation; None when it is absent or null. Malformed when it is no JSON of that shape."""
    text = annotations.get(key)
    if text is None:
        return None
    return read_text(key, text, shape) if len(text) > LONG_TEXT else cast("T | None", _shared(key, text, cast("Hashable", shape)))


def read_text(key: str, text: str, shape: type[T]) -> T | None:
    """Return the decoded text of an annotation that no other object has; None when it is null."""
    try:
        found = msgspec.json.decode(text, type=shape)
    except JSON_ERRORS:
        return _decode_slowly(key, text, shape)
    return _decode_slowly(key, text, shape) if has_other_spelling(text, shape) else found


@lru_cache(maxsize=SHARED_TEXTS)
def _shared(key: str, text: str, shape: Any) -> Any:
    return read_text(key, text, shape)


def _decode_slowly(key: str, text: str, shape: type[T]) -> T | None:
    """Decode without nulls, and with the keys as the shape spells them."""
    try:
        value = strip_nulls(msgspec.json.decode(text))
        return None if value is None else msgspec.convert(respelled(value, shape), shape)
    except msgspec.DecodeError as refused:
        raise Malformed(key, str(refused), text) from None
    except RecursionError:
        raise Malformed(key, "nested too deeply", text) from None
