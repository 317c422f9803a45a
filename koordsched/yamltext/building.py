"""A document out of YAML events, in one pass and without recursion: what `reading` and `values` have in common.

PyYAML's constructor recurses per level, unfolds aliases without a limit, lets the last of two equal keys win, and turns `12:30` and dates
into numbers and datetimes. Here plain scalars follow YAML 1.1 as Kubernetes reads it (go-yaml v2), where `y` is true, `010` is 8 and
`12:30` is a text; and a key is a text as it is written. A subclass decides what becomes of a mistake, what is counted and what is kept
besides the value.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum, auto
from math import inf, nan
from typing import Any

import yaml
from yaml import events

MERGE = "<<"
_TAG = "tag:yaml.org,2002:"
_TAGGED: dict[str, tuple[type, ...]] = {
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}bool": (bool,),
    f"{_TAG}null": (type(None),),
}


_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), nan),
}
_NUMERIC_START = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,60})")
_PREFIXED = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]{1,60})|0[oO]?([0-7]{1,60})|0[bB]([01]{1,200}))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def resolve(text: str) -> Any:
    """Return what an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC_START:
        return text
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        return int(plain)
    if prefixed := _PREFIXED.fullmatch(plain):
        sign, hexadecimal, octal, binary = prefixed.groups()
        base = 16 if hexadecimal else 8 if octal else 2
        return int(f"{sign}{hexadecimal or octal or binary}", base)
    return float(plain) if _FLOAT.fullmatch(plain) else text


def is_too_deep(error: yaml.YAMLError) -> bool:
    """Answer whether the text nests deeper than libyaml reads at all, which newer versions (PyYAML 6.0.4) say before we count that far."""
    return "maximum nesting depth" in (getattr(error, "problem", None) or "")


class Mistake(Enum):
    """What a document may do wrong."""

    DEPTH = auto()  # nested too deep
    COLLECTION_AS_KEY = auto()
    ALIAS_AS_KEY = auto()
    COLLECTION_TAG = auto()  # a mapping or list has a tag that is none of theirs
    SCALAR_TAG = auto()  # the text cannot be read with its tag
    ALIAS = auto()  # there is no such anchor before it


class OpenCollection:
    """A mapping or list whose end has not come yet."""

    __slots__ = ("begin", "key", "key_event", "lines", "made", "merged", "merging", "path", "size")

    def __init__(self, made: dict[str, Any] | list[Any], begin: Any, path: str) -> None:
        self.made = made
        self.begin = begin  # the event that began it
        self.path = path
        self.key: str | None = None  # the key whose value comes next
        self.key_event: Any = None
        self.merging = False  # that key is `<<`
        self.lines: dict[str, int] = {}  # key -> line of its first use, where lines are kept
        self.merged: list[tuple[Any, int]] = []  # values of `<<` with their lines: own keys win, so they wait for the end
        self.size = 1  # values in here, aliases unfolded


class Builder(ABC):
    """Makes one document out of the events between its start and its end."""

    max_depth: int

    def __init__(self) -> None:
        self.open: list[OpenCollection] = []
        self.root: Any = None
        self._anchors: dict[str, tuple[Any, int]] = {}  # name -> value, number of values in it

    @abstractmethod
    def refuse(self, event: Any, mistake: Mistake) -> None:
        """Record a mistake, or raise. DEPTH and those of keys have to raise: what follows makes no sense."""

    @abstractmethod
    def refuse_merge(self, into: OpenCollection, source: Any, line: int) -> None:
        """Record that a value of `<<` is no mapping, or raise."""

    @abstractmethod
    def key_given(self, inner: OpenCollection, event: Any) -> None:
        """Take note of a key; its value comes next."""

    def value_begins(self, event: Any, size: int) -> str:
        """Take note of a value, for an alias of as many as it unfolds to, and return its path; raise when there are too many."""
        return ""

    @abstractmethod
    def duplicate(self, inner: OpenCollection, value: Any) -> None:
        """Take note of the value of a key that has one already, which stays."""

    def resolve(self, text: str) -> Any:
        """Return what an unquoted scalar means."""
        return resolve(text)

    def read(self, stream: Iterator[Any]) -> None:
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
                return

    def _begin(self, event: Any, made: dict[str, Any] | list[Any]) -> None:
        if len(self.open) >= self.max_depth:
            self.refuse(event, Mistake.DEPTH)
        if self._wants_key():
            self.refuse(event, Mistake.COLLECTION_AS_KEY)
        if event.tag not in {None, "!", f"{_TAG}map", f"{_TAG}seq"}:
            self.refuse(event, Mistake.COLLECTION_TAG)
        self.open.append(OpenCollection(made, event, self.value_begins(event, 1)))

    def _end(self) -> None:
        done = self.open.pop()
        for merged, line in done.merged:
            self._merge(done, merged, line)
        if done.begin.anchor:
            self._anchors[done.begin.anchor] = (done.made, done.size)
        self._add(done.made, done.size)

    def _scalar(self, event: Any) -> None:
        if self._wants_key():
            inner = self.open[-1]
            inner.merging = event.value == MERGE and event.implicit[0]
            self.key_given(inner, event)
            inner.key, inner.key_event = event.value, event
            return
        self.value_begins(event, 1)
        value = self._value(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, 1)

    def _alias(self, event: Any) -> None:
        if self._wants_key():
            self.refuse(event, Mistake.ALIAS_AS_KEY)
        if event.anchor not in self._anchors:
            self.refuse(event, Mistake.ALIAS)
            self._add(None, 1)
            return
        value, size = self._anchors[event.anchor]
        self.value_begins(event, size)
        self._add(value, size)

    def _add(self, value: Any, size: int) -> None:
        if not self.open:
            self.root = value
            return
        inner = self.open[-1]
        inner.size += size
        if isinstance(inner.made, list):
            inner.made.append(value)
            return
        assert inner.key is not None
        if inner.merging:
            inner.merged.append((value, line_of(inner.key_event)))
        elif inner.key in inner.made:
            self.duplicate(inner, value)
        else:
            inner.made[inner.key] = value
        inner.key = None

    def _merge(self, into: OpenCollection, merged: Any, line: int) -> None:
        assert isinstance(into.made, dict)
        for source in merged if isinstance(merged, list) else [merged]:
            if isinstance(source, dict):
                for key, value in source.items():
                    into.made.setdefault(key, value)
            else:
                self.refuse_merge(into, source, line)

    def _value(self, event: Any) -> Any:
        if event.tag in {None, "!"}:
            return self.resolve(event.value) if event.implicit[0] else event.value
        if event.tag == f"{_TAG}str":
            return event.value
        value = self.resolve(event.value)
        if type(value) not in _TAGGED.get(event.tag, ()):
            self.refuse(event, Mistake.SCALAR_TAG)
        return value

    def _wants_key(self) -> bool:
        return bool(self.open) and self.open[-1].key is None and isinstance(self.open[-1].made, dict)


def line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1
