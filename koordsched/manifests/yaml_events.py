"""Build documents from YAML events, in one pass and without recursion.

PyYAML's own constructor recurses per level, unfolds aliases without a limit, lets the last of two equal keys win, and turns `12:30` and
dates into numbers and datetimes. This builder bounds depth and unfolding and refuses repeated keys with their line. It differs from the
one in `yamltext.reading` in what it keeps: no path and no line for every value, since a dump of a cluster has millions of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any, NoReturn

import yaml
from yaml import events

from koordsched.manifests.documents import MAX_DEPTH, InputDocument, InputError
from koordsched.yamltext.scalars import resolve

MAX_UNFOLDED = 1_000_000
"""How many values the aliases of one document may add. A cluster dump has none at all."""

LETTERS = frozenset("yYnN")
TAG = "tag:yaml.org,2002:"
MERGE_KEY = "<<"
TAGGED: dict[str, tuple[type, ...]] = {f"{TAG}int": (int,), f"{TAG}float": (int, float), f"{TAG}bool": (bool,), f"{TAG}null": (type(None),)}


def parse_yaml(name: str, text: str) -> Iterator[InputDocument]:
    """Yield the documents of a YAML text. InputError names file, document and line."""
    number = 0
    try:
        for event in (stream := yaml.parse(text, Loader=yaml.CSafeLoader)):
            if isinstance(event, events.DocumentStartEvent):
                number += 1
                yield InputDocument(name, number, _Builder(f"{name}: document {number}").build(stream))
    except yaml.MarkedYAMLError as mistake:
        mark = mistake.problem_mark or mistake.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise InputError(f"{name}: document {max(number, 1)}: {line}not YAML: {mistake.problem}") from None
    except yaml.reader.ReaderError as mistake:
        raise InputError(f"{name}: document {max(number, 1)}: character {mistake.position}: not YAML: {mistake.reason}") from None


class _Open:
    """A collection whose end has not come: `key` is what the next value belongs to."""

    __slots__ = ("key", "made", "merged", "size", "start")

    def __init__(self, made: dict[str, Any] | list[Any], start: Any) -> None:
        self.made = made
        self.start = start  # the event that began it
        self.key: str | None = None
        self.merged: list[Any] = []  # the values of `<<`, applied at the end since own keys win
        self.size = 1


class _Builder:
    """Makes one document out of the events between its start and its end."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}  # name -> value, number of values in it
        self._unfolded = 0
        self._root: Any = None

    def build(self, stream: Iterator[Any]) -> Any:
        for event in stream:
            if isinstance(event, events.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, events.MappingStartEvent):
                self._begin(event, {})
            elif isinstance(event, events.SequenceStartEvent):
                self._begin(event, [])
            elif isinstance(event, (events.MappingEndEvent, events.SequenceEndEvent)):
                self._end()
            elif isinstance(event, events.AliasEvent):
                self._alias(event)
            else:  # the document's end
                break
        return self._root

    def _begin(self, event: Any, made: dict[str, Any] | list[Any]) -> None:
        if event.tag not in {None, "!", TAG + "map", TAG + "seq"}:
            self._refuse(event, f"tag {event.tag!r} is not supported")
        if len(self._open) >= MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        if self._wants_key():
            self._refuse(event, "a key must be a plain text, not a map or a list")
        self._open.append(_Open(made, event))

    def _end(self) -> None:
        done = self._open.pop()
        for merged in done.merged:
            self._merge(done, merged)
        if done.start.anchor:
            self._anchors[done.start.anchor] = (done.made, done.size)
        self._add(done.made, done.size)

    def _scalar(self, event: Any) -> None:
        if self._wants_key():
            self._key(event)
            return
        value = self._value(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, 1)

    def _alias(self, event: Any) -> None:
        if self._wants_key():
            self._refuse(event, "a key must be a plain text, not an alias")
        if event.anchor not in self._anchors:
            self._refuse(event, f"alias *{event.anchor} names no anchor above it")
        value, size = self._anchors[event.anchor]
        self._unfolded += size
        if self._unfolded > MAX_UNFOLDED:
            self._refuse(event, f"its aliases unfold to more than {MAX_UNFOLDED} values")
        self._add(value, size)

    def _wants_key(self) -> bool:
        return bool(self._open) and self._open[-1].key is None and isinstance(self._open[-1].made, dict)

    def _key(self, event: Any) -> None:
        inner = self._open[-1]
        if event.value in inner.made and not (event.value == MERGE_KEY and event.implicit[0]):
            self._refuse(event, f"key {event.value!r} is given twice in one map")
        inner.key = event.value

    def _add(self, value: Any, size: int) -> None:
        if not self._open:
            self._root = value
            return
        inner = self._open[-1]
        inner.size += size
        if isinstance(inner.made, list):
            inner.made.append(value)
        elif inner.key == MERGE_KEY:
            inner.merged.append(value)
            inner.key = None
        else:
            assert inner.key is not None
            inner.made[inner.key] = value
            inner.key = None

    def _merge(self, into: _Open, merged: Any) -> None:
        assert isinstance(into.made, dict)
        for source in merged if isinstance(merged, list) else [merged]:
            if not isinstance(source, dict):
                self._refuse(into.start, "what << merges must be a map or a list of maps")
            for key, value in source.items():
                into.made.setdefault(key, value)

    def _value(self, event: Any) -> Any:
        if event.tag is None or event.tag == "!":
            return _resolve(event.value) if event.implicit[0] else event.value
        if event.tag == TAG + "str":
            return event.value
        value = _resolve(event.value)
        if not isinstance(value, TAGGED.get(event.tag, ())):
            self._refuse(event, f"{event.value!r} cannot be read with tag {event.tag!r}")
        return value

    def _refuse(self, event: Any, why: str) -> NoReturn:
        raise InputError(f"{self._origin}: line {event.start_mark.line + 1}: {why}")


def _resolve(text: str) -> Any:
    """Return what an unquoted scalar means: as in a configuration file, but y and n are names, and what JSON cannot hold is text."""
    if text in LETTERS:
        return text
    value = resolve(text)
    return text if isinstance(value, float) and not isfinite(value) else value
