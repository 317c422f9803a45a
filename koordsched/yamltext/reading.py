"""Text to plain values: one pass over YAML events (JSON is YAML), without recursion and without ever raising for bad input.

What PyYAML's constructor gets wrong for a configuration is done here as Go's decoder does it: a key given twice is refused with its path
and lines, `12:30` and dates stay text, plain scalars follow YAML 1.1 as Kubernetes reads it, a non-text key becomes its text. Depth and
the number of values (aliases unfolded) are bounded, so neither deep nesting nor an alias bomb costs more than a message.
Callers import this only when there is a text: PyYAML takes longer to import than a profile to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from yaml import events

from koordsched.yamltext.documents import ROOT, Document, Problem, child, shown
from koordsched.yamltext.scalars import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 64
MAX_VALUES = 100_000

_TAG = "tag:yaml.org,2002:"
_TAGGED: dict[str, tuple[type, ...]] = {
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}bool": (bool,),
    f"{_TAG}null": (type(None),),
}
_MERGE = "<<"


class _BoundError(Exception):
    """The document breaks a bound, so that reading on makes no sense."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def read_documents(text: str) -> list[Document]:
    """Read all documents of a text, up to the first syntax error, which is a problem of the document it stands in."""
    made: list[Document] = []
    builder = _Builder()
    try:
        for event in (stream := yaml.parse(text, Loader=yaml.CSafeLoader)):
            if isinstance(event, events.DocumentStartEvent):
                builder.read(stream)
                made.append(builder.document(len(made) + 1))
                builder = _Builder()
    except yaml.YAMLError as error:
        builder.problems.append(_syntax_problem(error))
        made.append(builder.document(len(made) + 1))
    except _BoundError as bound:
        builder.problems.append(bound.problem)
        made.append(builder.document(len(made) + 1))
    return made


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    what = getattr(error, "problem", None) or " ".join(str(error).split())
    if mark is None:
        return Problem(ROOT, f"not valid YAML: {what}")
    return Problem(f"line {mark.line + 1}, column {mark.column + 1}", f"not valid YAML: {what}", mark.line + 1)


class _Open:
    """A mapping or list whose end has not come yet."""

    __slots__ = ("anchor", "key", "line", "lines", "made", "merged", "path", "size")

    def __init__(self, made: dict[str, Any] | list[Any], path: str, anchor: str | None) -> None:
        self.made = made
        self.path = path
        self.anchor = anchor
        self.key: str | None = None  # the key whose value comes next
        self.line = 0  # the line of that key
        self.lines: dict[str, int] = {}  # key -> line of its first use
        self.merged: list[tuple[Any, int]] = []  # values of `<<` with their lines: own keys win, so they wait for the end
        self.size = 1  # values in here, aliases unfolded


class _Builder:
    """Makes one document out of the events between its start and its end."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}  # name -> value, number of values in it
        self._lines: dict[str, int] = {}
        self._values = 0
        self._root: Any = None

    def document(self, number: int) -> Document:
        return Document(number, self._root, self._lines, tuple(self.problems))

    def read(self, stream: Iterator[Any]) -> None:
        for event in stream:
            match event:
                case events.ScalarEvent():
                    self._scalar(event)
                case events.MappingStartEvent():
                    self._begin(event, {})
                case events.SequenceStartEvent():
                    self._begin(event, [])
                case events.MappingEndEvent() | events.SequenceEndEvent():
                    self._end()
                case events.AliasEvent():
                    self._alias(event)
                case _:  # the document's end
                    return

    def _begin(self, event: Any, made: dict[str, Any] | list[Any]) -> None:
        path = self._path()
        if len(self._open) >= MAX_DEPTH:
            raise _BoundError(Problem(path, f"nested more than {MAX_DEPTH} levels deep", _line(event)))
        if self._wants_key():
            raise _BoundError(Problem(path, "expected a text as a key, not a mapping or a list", _line(event)))
        if event.tag not in {None, "!", f"{_TAG}map", f"{_TAG}seq"}:
            self._refuse(event, f"tag {shown(event.tag)} is not supported")
        self._lines.setdefault(path, _line(event))
        self._open.append(_Open(made, path, event.anchor))

    def _end(self) -> None:
        done = self._open.pop()
        for merged, line in done.merged:
            self._merge(done, merged, line)
        if done.anchor:
            self._anchors[done.anchor] = (done.made, done.size)
        self._count(1)
        self._add(done.made, done.size)

    def _scalar(self, event: Any) -> None:
        if self._wants_key():
            self._key(event)
            return
        self._lines.setdefault(self._path(), _line(event))
        value = self._value(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._count(1)
        self._add(value, 1)

    def _alias(self, event: Any) -> None:
        if self._wants_key():
            raise _BoundError(Problem(self._path(), "expected a text as a key, not an alias", _line(event)))
        if event.anchor not in self._anchors:
            self._refuse(event, f"alias *{event.anchor} names no anchor that is complete before it")
            self._add(None, 1)
            return
        self._lines.setdefault(self._path(), _line(event))
        value, size = self._anchors[event.anchor]
        self._count(size)
        self._add(value, size)

    def _key(self, event: Any) -> None:
        inner = self._open[-1]
        inner.key, inner.line = event.value, _line(event)
        if event.value != _MERGE or not event.implicit[0]:
            inner.lines.setdefault(event.value, inner.line)

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise _BoundError(
                Problem(self._path() or ROOT, f"the document has more than {MAX_VALUES} values when its aliases are unfolded")
            )

    def _add(self, value: Any, size: int) -> None:
        if not self._open:
            self._root = value
            return
        inner = self._open[-1]
        inner.size += size
        if isinstance(inner.made, list):
            inner.made.append(value)
        elif inner.key == _MERGE and _MERGE not in inner.lines:
            inner.merged.append((value, self._lines.get(self._path(), 1)))
        elif inner.key is not None and inner.key not in inner.made:
            inner.made[inner.key] = value
        elif inner.key is not None:  # the first value is the one that is checked further
            path, first = self._path(), inner.lines[inner.key]
            text = f"{shown(value)}: strict decoding error: duplicate field {shown(path)}, first given on line {first}"
            self.problems.append(Problem(path, text, inner.line))
        inner.key = None

    def _merge(self, into: _Open, merged: Any, line: int) -> None:
        assert isinstance(into.made, dict)
        for source in merged if isinstance(merged, list) else [merged]:
            if isinstance(source, dict):
                for key, value in source.items():
                    into.made.setdefault(key, value)
            else:
                self.problems.append(
                    Problem(f"{into.path}.{_MERGE}".lstrip("."), f"{shown(source)}: expected a mapping or a list of mappings", line)
                )

    def _value(self, event: Any) -> Any:
        if event.tag in {None, "!"}:
            return resolve(event.value) if event.implicit[0] else event.value
        if event.tag == f"{_TAG}str":
            return event.value
        value = resolve(event.value)
        if type(value) not in _TAGGED.get(event.tag, ()):
            self._refuse(event, f"{shown(event.value)}: cannot be read with tag {shown(event.tag)}")
        return value

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].made, dict) and self._open[-1].key is None

    def _path(self) -> str:
        """Return the path of the value that comes next."""
        if not self._open:
            return ""
        inner = self._open[-1]
        if isinstance(inner.made, list):
            return f"{inner.path}[{len(inner.made)}]"
        return child(inner.path, inner.key) if inner.key is not None else inner.path

    def _refuse(self, event: Any, why: str) -> None:
        self.problems.append(Problem(self._path() or ROOT, why, _line(event)))


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
