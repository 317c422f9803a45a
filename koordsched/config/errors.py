"""What is wrong with a configuration: one `ConfigMistake` per place, all of them together in a `ConfigError`.

A mistake prints as `FILE: document N: PATH: PROBLEM`. The functions below word a problem as Kubernetes' field errors do ("Invalid value: 5:
must be ..."), so that a message known from kube-scheduler or koord-scheduler is found unchanged after the path. Code that validates
deals in (path, problem) pairs and knows no file; `Mistakes` adds the file, the document and the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.yamltext.documents import ROOT, Document, Problem, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_MAX_NAME = 120  # characters of a name that are compared with the known ones


class ConfigMistake(msgspec.Struct, frozen=True):
    """One mistake: where it stands and what was expected there."""

    path: str
    problem: str
    file: str = ""
    document: int = 1
    line: int | None = None

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line is not None else ""
        return f"{self.file}: document {self.document}: {self.path or ROOT}: {self.problem}{line}"


class ConfigError(ValueError):
    """A configuration that cannot be used, with all of its mistakes; the text has one line for each."""

    def __init__(self, errors: Iterable[ConfigMistake]) -> None:
        self.errors: tuple[ConfigMistake, ...] = tuple(errors)
        super().__init__("\n".join(map(str, self.errors)))


def invalid(value: Any, detail: str) -> str:
    """Word the problem of a value outside what is allowed."""
    return f"Invalid value: {shown(value)}: {detail}"


def required(detail: str = "") -> str:
    """Word the problem of a missing value."""
    return f"Required value: {detail}" if detail else "Required value"


def duplicate(value: Any) -> str:
    """Word the problem of a value that may stand once only."""
    return f"Duplicate value: {shown(value)}"


def not_found(value: Any) -> str:
    """Word the problem of a reference to nothing."""
    return f"Not found: {shown(value)}"


def forbidden(detail: str) -> str:
    """Word the problem of a field that must not be set."""
    return f"Forbidden: {detail}"


def not_supported(value: Any, supported: Sequence[str]) -> str:
    """Word the problem of a value that is none of a fixed set."""
    listed = ", ".join(shown(name) for name in supported)
    return f"Unsupported value: {shown(value)}: supported values: {listed}{near_miss(str(value), supported)}"


def near_miss(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean "X"?` for the known name most like the given one, "" when none is like it."""
    from difflib import get_close_matches  # noqa: PLC0415  # only a mistake needs it

    by_folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    found = get_close_matches(name.casefold()[:_MAX_NAME], by_folded, n=1, cutoff=0.6)
    return f", did you mean {shown(by_folded[found[0]])}?" if found else ""


class Mistakes:
    """Collects (path, problem) pairs and knows where a path stands."""

    def __init__(self, file: str, document: Document) -> None:
        self.found: list[ConfigMistake] = [place(problem, file, document) for problem in document.problems]
        self._file = file
        self._document = document
        self._unread: set[str] = set()

    def unreadable(self, path: str, problem: str) -> None:
        """The value is of the wrong kind, so a default stands in its place."""
        self._unread.add(path)
        self._add(path, problem)

    def refused(self, path: str, problem: str) -> None:
        """The value is not allowed. Says nothing of a path whose value could not be read: its default is not the user's mistake."""
        if path not in self._unread:
            self._add(path, problem)

    def _add(self, path: str, problem: str) -> None:
        self.found.append(place(Problem(path or ROOT, problem), self._file, self._document))


def place(problem: Problem, file: str, document: Document) -> ConfigMistake:
    """Add file, document and line; a path that does not stand in the file has the line of what it is in."""
    line, path = problem.line, problem.path
    while line is None and path:
        line = document.lines.get(path)
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ConfigMistake(problem.path or ROOT, problem.text, file, document.number, line)
