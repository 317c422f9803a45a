"""Text to plain values with the path and line of each: one pass over YAML events (JSON is YAML), without ever raising for bad input.

As Go's decoder reads a configuration: a key given twice is refused with its path and lines. Depth and the number of values (aliases
unfolded) are bounded, so neither deep nesting nor an alias bomb costs more than a message. Callers import this only when there is a text:
PyYAML takes longer to import than a profile to read.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml import events

from koordsched.yamltext.building import MERGE, Builder, Mistake, OpenCollection, is_too_deep, line_of
from koordsched.yamltext.documents import ROOT, Document, Problem, child, shown

MAX_DEPTH = 64
MAX_VALUES = 100_000
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


class _BoundError(Exception):
    """The document breaks a bound, so that reading on makes no sense."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def read_documents(text: str) -> list[Document]:
    """Read all documents of a text, up to the first syntax error, which is a problem of the document it stands in."""
    made: list[Document] = []
    builder = _DocumentBuilder()
    try:
        for event in (stream := yaml.parse(text, Loader=yaml.CSafeLoader)):
            if isinstance(event, events.DocumentStartEvent):
                builder.read(stream)
                made.append(builder.document(len(made) + 1))
                builder = _DocumentBuilder()
    except yaml.YAMLError as error:
        builder.problems.append(_syntax_problem(error))
        made.append(builder.document(len(made) + 1))
    except _BoundError as bound:
        builder.problems.append(bound.problem)
        made.append(builder.document(len(made) + 1))
    return made


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    what = f"not valid YAML: {getattr(error, 'problem', None) or ' '.join(str(error).split())}"
    if is_too_deep(error):
        what = TOO_DEEP
    if mark is None:
        return Problem(ROOT, what)
    return Problem(f"line {mark.line + 1}, column {mark.column + 1}", what, mark.line + 1)


class _DocumentBuilder(Builder):
    """Records mistakes and goes on, unless one breaks a bound."""

    max_depth = MAX_DEPTH

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[Problem] = []
        self._lines: dict[str, int] = {}
        self._values = 0

    def document(self, number: int) -> Document:
        return Document(number, self.root, self._lines, tuple(self.problems))

    def refuse(self, event: Any, mistake: Mistake) -> None:
        path, line = self.path(), line_of(event)
        match mistake:
            case Mistake.DEPTH:
                raise _BoundError(Problem(path, TOO_DEEP, line))
            case Mistake.COLLECTION_AS_KEY:
                raise _BoundError(Problem(path, "expected a text as a key, not a mapping or a list", line))
            case Mistake.ALIAS_AS_KEY:
                raise _BoundError(Problem(path, "expected a text as a key, not an alias", line))
            case Mistake.COLLECTION_TAG:
                why = f"tag {shown(event.tag)} is not supported"
            case Mistake.SCALAR_TAG:
                why = f"{shown(event.value)}: cannot be read with tag {shown(event.tag)}"
            case Mistake.ALIAS:
                why = f"alias *{event.anchor} names no anchor that is complete before it"
        self.problems.append(Problem(path or ROOT, why, line))

    def refuse_merge(self, into: OpenCollection, source: Any, line: int) -> None:
        path = f"{into.path}.{MERGE}".lstrip(".")
        self.problems.append(Problem(path, f"{shown(source)}: expected a mapping or a list of mappings", line))

    def key_given(self, inner: OpenCollection, event: Any) -> None:
        if not inner.merging:
            inner.lines.setdefault(event.value, line_of(event))

    def value_begins(self, event: Any, size: int) -> str:
        path = self.path()
        self._lines.setdefault(path, line_of(event))
        self._values += size
        if self._values > MAX_VALUES:
            text = f"the document has more than {MAX_VALUES} values when its aliases are unfolded"
            raise _BoundError(Problem(path or ROOT, text))
        return path

    def duplicate(self, inner: OpenCollection, value: Any) -> None:
        """Record it: the first value is the one that is checked further."""
        assert inner.key is not None
        path, first = self.path(), inner.lines[inner.key]
        text = f"{shown(value)}: strict decoding error: duplicate field {shown(path)}, first given on line {first}"
        self.problems.append(Problem(path, text, line_of(inner.key_event)))

    def path(self) -> str:
        """Return the path of the value that comes next."""
        if not self.open:
            return ""
        inner = self.open[-1]
        if isinstance(inner.made, list):
            return f"{inner.path}[{len(inner.made)}]"
        return child(inner.path, inner.key) if inner.key is not None else inner.path
