"""The mistakes of one document while they are found: placed in the file, and not two for one value."""

from __future__ import annotations

from koordsched.config.errors import ConfigMistake
from koordsched.yamltext.documents import ROOT, Document, Problem


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
