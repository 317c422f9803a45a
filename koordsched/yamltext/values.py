"""Text to the plain values of its documents, for files as large as a dump of a cluster: no path and no line is kept for a value.

As `reading` in all else, but that the first mistake ends it, that only what aliases unfold to is bounded, and that `y` and `n` are names.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any, NoReturn

import yaml
from yaml import events

from koordsched.yamltext.building import Builder, Mistake, OpenCollection, is_too_deep, line_of, resolve

MAX_UNFOLDED = 1_000_000
"""How many values the aliases of one document may add. A cluster dump has none at all."""

LETTERS = frozenset("yYnN")


class NotPlainValues(Exception):
    """A document cannot be read. `number` counts from 1; the text names the line."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


def read_values(text: str, max_depth: int) -> Iterator[Any]:
    """Yield the value of each document. NotPlainValues."""
    number = 0
    try:
        for event in (stream := yaml.parse(text, Loader=yaml.CSafeLoader)):
            if isinstance(event, events.DocumentStartEvent):
                number += 1
                builder = _ValueBuilder(number, max_depth)
                builder.read(stream)
                yield builder.root
    except yaml.MarkedYAMLError as mistake:
        mark = mistake.problem_mark or mistake.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        what = _too_deep(max_depth) if is_too_deep(mistake) else f"not YAML: {mistake.problem}"
        raise NotPlainValues(max(number, 1), f"{line}{what}") from None
    except yaml.reader.ReaderError as mistake:
        raise NotPlainValues(max(number, 1), f"character {mistake.position}: not YAML: {mistake.reason}") from None


def _too_deep(levels: int) -> str:
    return f"nested deeper than {levels} levels"


class _ValueBuilder(Builder):
    """Raises at the first mistake."""

    def __init__(self, number: int, max_depth: int) -> None:
        super().__init__()
        self.max_depth = max_depth
        self._number = number
        self._unfolded = 0

    def refuse(self, event: Any, mistake: Mistake) -> NoReturn:
        match mistake:
            case Mistake.DEPTH:
                why = _too_deep(self.max_depth)
            case Mistake.COLLECTION_AS_KEY:
                why = "a key must be a plain text, not a map or a list"
            case Mistake.ALIAS_AS_KEY:
                why = "a key must be a plain text, not an alias"
            case Mistake.COLLECTION_TAG:
                why = f"tag {event.tag!r} is not supported"
            case Mistake.SCALAR_TAG:
                why = f"{event.value!r} cannot be read with tag {event.tag!r}"
            case Mistake.ALIAS:
                why = f"alias *{event.anchor} names no anchor above it"
        self._refuse(event, why)

    def refuse_merge(self, into: OpenCollection, source: Any, line: int) -> NoReturn:
        self._refuse(into.begin, "what << merges must be a map or a list of maps")

    def key_given(self, inner: OpenCollection, event: Any) -> None:
        if event.value in inner.made and not inner.merging:
            self._refuse(event, f"key {event.value!r} is given twice in one map")

    def duplicate(self, inner: OpenCollection, value: Any) -> None:
        """Do nothing: only a quoted `<<` beside an unquoted one comes here."""

    def value_begins(self, event: Any, size: int) -> str:
        if isinstance(event, events.AliasEvent):
            self._unfolded += size
            if self._unfolded > MAX_UNFOLDED:
                self._refuse(event, f"its aliases unfold to more than {MAX_UNFOLDED} values")
        return ""

    def resolve(self, text: str) -> Any:
        """Return what an unquoted scalar means: as in a configuration file, but y and n are names, and what JSON cannot hold is text."""
        if text in LETTERS:
            return text
        value = resolve(text)
        return text if isinstance(value, float) and not isfinite(value) else value

    def _refuse(self, event: Any, why: str) -> NoReturn:
        raise NotPlainValues(self._number, f"line {line_of(event)}: {why}")
